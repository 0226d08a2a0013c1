"""What can happen to a node of the quorum. Each type has one action; `quorum.actions` has them.

Requests carry a `correlation`, which comes back in the answer. Completions answer the writes of
`effects`, one for one and in order. The events under "due" come from `Quorum.due()`. Where an event
names an epoch and a leader, that is what its sender knows; the leader may be NOBODY.
"""

from __future__ import annotations

import attrs

from protocol.machine import Event
from protocol.quorum.log import SnapshotId
from protocol.replication.log import EpochEnd
from protocol.types import NO_LEADER, Correlation, Epoch, NodeId, Offset


@attrs.frozen
class VoteRequested(Event):
    """A node wants this voter's vote, or with `pre_vote`, to know whether it would get it.

    `last_epoch` and `end_offset` are those of its log.
    """

    correlation: Correlation
    candidate: NodeId
    epoch: Epoch
    last_epoch: Epoch
    end_offset: Offset
    pre_vote: bool = False


@attrs.frozen
class VoteAnswered(Event):
    """A voter has answered a vote request; `attempt` is that of the request."""

    voter: NodeId
    epoch: Epoch
    leader: NodeId
    granted: bool
    pre_vote: bool = False
    attempt: int = 0


@attrs.frozen
class LeaderAnnounced(Event):
    """BeginQuorumEpoch: a leader says that it leads in this epoch."""

    correlation: Correlation
    epoch: Epoch
    leader: NodeId


@attrs.frozen
class LeaderAsked(Event):
    """A node that knows no leader asks for it."""

    correlation: Correlation


@attrs.frozen
class EpochLearned(Event):
    """A node has told its epoch and, if it knows, the leader: because it was asked, or refused."""

    source: NodeId
    epoch: Epoch
    leader: NodeId


@attrs.frozen
class EpochEnded(Event):
    """EndQuorumEpoch: the leader of this epoch has resigned, so nobody need wait for it."""

    epoch: Epoch
    leader: NodeId


@attrs.frozen
class FetchReceived(Event):
    """A node asks for records from `offset`, which also says what it has.

    `high_watermark` is the one it knows.
    """

    correlation: Correlation
    node: NodeId
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    high_watermark: Offset = 0
    max_bytes: int = 1 << 20
    max_wait_ms: int = 0


@attrs.frozen
class FetchAnswered(Event):
    """The leader's answer: records of which epochs follow; or where the logs differ; or a snapshot.

    `epoch`, `offset` and `last_epoch` are those of the fetch that it answers.
    """

    epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    high_watermark: Offset = 0
    epochs: tuple[tuple[Epoch, int], ...] = ()
    payload: object = None


@attrs.frozen
class FetchRefused(Event):
    """The leader refused a fetch, and named what it knows; epoch 0 if nobody answered."""

    epoch: Epoch = 0
    leader: NodeId = NO_LEADER


@attrs.frozen
class SnapshotAsked(Event):
    """A node downloads a part of the leader's snapshot: that is a sign of life."""

    correlation: Correlation
    node: NodeId
    epoch: Epoch
    snapshot: SnapshotId


@attrs.frozen
class SnapshotArriving(Event):
    """A part of the snapshot that is being downloaded has come: the leader is alive."""


@attrs.frozen
class SnapshotFetched(Event):
    """A snapshot is downloaded, whole and checked. The node may have moved on meanwhile."""

    snapshot: SnapshotId
    payload: object = None


@attrs.frozen
class SnapshotLost(Event):
    """A snapshot cannot be downloaded: the leader has none of that name, or nobody answers."""

    snapshot: SnapshotId


@attrs.frozen
class SnapshotWanted(Event):
    """The log has grown enough since the last snapshot for another one."""


@attrs.frozen
class SnapshotTaken(Event):
    """The state machine above has written the snapshot that `WriteSnapshot` asked for."""

    end_offset: Offset


@attrs.frozen
class RecordsProposed(Event):
    """The controller above, active in this epoch, appends records: all of them or none."""

    correlation: Correlation
    epoch: Epoch
    base_offset: Offset
    record_count: int
    payload: object


@attrs.frozen
class VoteSaved(Event):
    """Completion: a `SaveVote` is durable."""


@attrs.frozen
class Appended(Event):
    """Completion: an `Append` is durable, and the log now ends at `end_offset`."""

    end_offset: Offset


@attrs.frozen
class Truncated(Event):
    """Completion: a `Truncate` is done, and the log now ends at `end_offset`."""

    end_offset: Offset


@attrs.frozen
class SnapshotInstalled(Event):
    """Completion: an `InstallSnapshot` is durable."""


@attrs.frozen
class StorageFailed(Event):
    """The disk cannot be trusted any more: the node takes no part until it restarts."""

    reason: str


@attrs.frozen
class ElectionDue(Event):
    """Due: a voter without a leader tries to be elected, a candidate tries anew."""


@attrs.frozen
class FetchTimedOut(Event):
    """Due: a voter has not heard from its leader for too long."""


@attrs.frozen
class QuorumLost(Event):
    """Due: a leader has not heard from a majority for too long (check-quorum)."""


@attrs.frozen
class FetchDue(Event):
    """Due: a follower asks its leader for more, or an observer without one asks for the leader."""


@attrs.frozen
class RequestsDue(Event):
    """Due: those who have not answered are asked, or told, again."""


@attrs.frozen
class FetchesExpired(Event):
    """Due: some fetches have waited as long as they wanted to."""


@attrs.frozen
class Resumed(Event):
    """Due: storage has answered, so that this event, which had to wait, is handled now."""

    event: Event
