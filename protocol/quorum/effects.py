"""What a node of the quorum wants done. Each write is answered by one completion, in order.

The last three are for the state machine above, which is the controller; a driver turns them into
its `BecameActive`, `Resigned` and `RecordsCommitted`.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import Effect
from protocol.quorum.log import SnapshotId
from protocol.replication.log import EpochEnd
from protocol.types import Correlation, Epoch, NodeId, Offset


@attrs.frozen
class SaveVote(Effect):
    """Write: make the epoch and the vote durable. `VoteSaved` answers."""

    epoch: Epoch
    voted: NodeId


@attrs.frozen
class LeaderChange:
    """The payload of an epoch's first record: who leads, and who voted for it."""

    leader: NodeId
    voters: frozenset[NodeId]
    votes: frozenset[NodeId]


@attrs.frozen
class Append(Effect):
    """Write: records at `base_offset`, in this epoch (0: as they came). `Appended` answers."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    payload: object


@attrs.frozen
class Truncate(Effect):
    """Write: cut the log, so that it ends at `end_offset`. `Truncated` answers."""

    end_offset: Offset


@attrs.frozen
class InstallSnapshot(Effect):
    """Write: let the log begin with this snapshot, and keep what follows it or not.

    `SnapshotInstalled` answers.
    """

    snapshot: SnapshotId
    keeps_log: bool
    payload: object


@attrs.frozen
class WriteSnapshot(Effect):
    """Let the state machine above write a snapshot of all before this; `SnapshotTaken` tells."""

    end_offset: Offset


@attrs.frozen
class DeleteBefore(Effect):
    """Nothing before this offset is needed any more; storage deletes it when it likes."""

    start_offset: Offset


@attrs.frozen
class SendVoteRequest(Effect):
    """Ask a voter for its vote. `VoteAnswered` tells what came of it, if anything does."""

    to: NodeId
    epoch: Epoch
    last_epoch: Epoch
    end_offset: Offset
    pre_vote: bool
    attempt: int


@attrs.frozen
class SendVoteAnswer(Effect):
    """Answer a vote request, with what this node knows."""

    correlation: Correlation
    candidate: NodeId
    epoch: Epoch
    leader: NodeId
    granted: bool
    pre_vote: bool


@attrs.frozen
class AnnounceLeader(Effect):
    """BeginQuorumEpoch: tell a voter who leads. A refusal comes back as `EpochLearned`."""

    to: NodeId
    epoch: Epoch


@attrs.frozen
class EndEpoch(Effect):
    """EndQuorumEpoch: tell a voter that this leader has resigned."""

    to: NodeId
    epoch: Epoch


@attrs.frozen
class AskForLeader(Effect):
    """Ask a voter who leads. `EpochLearned` tells what it knows."""

    to: NodeId


@attrs.frozen
class TellLeader(Effect):
    """Answer who asks for the leader."""

    correlation: Correlation
    epoch: Epoch
    leader: NodeId


@attrs.frozen
class SendFetch(Effect):
    """Ask the leader for what follows. `FetchAnswered` or `FetchRefused` tells what came of it."""

    to: NodeId
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    high_watermark: Offset
    max_bytes: int
    max_wait_ms: int


@attrs.frozen
class SendEntries(Effect):
    """Answer a fetch: read from `offset` to at most `end_offset`.

    Whole batches, at least one if there is one, and then as many as fit into `max_bytes`.
    """

    correlation: Correlation
    offset: Offset
    end_offset: Offset
    max_bytes: int
    epoch: Epoch
    high_watermark: Offset


@attrs.frozen
class SendDivergence(Effect):
    """Answer a fetch: our logs differ before your offset, and this is what I know."""

    correlation: Correlation
    epoch: Epoch
    end: EpochEnd


@attrs.frozen
class SendSnapshotId(Effect):
    """Answer a fetch: what you lack is in this snapshot."""

    correlation: Correlation
    epoch: Epoch
    snapshot: SnapshotId


@attrs.frozen
class FetchSnapshot(Effect):
    """Download a snapshot from the leader; `SnapshotFetched` or `SnapshotLost` tells."""

    leader: NodeId
    epoch: Epoch
    snapshot: SnapshotId


@attrs.frozen
class SendSnapshot(Effect):
    """Answer a download with the part that it asks for."""

    correlation: Correlation
    snapshot: SnapshotId


@attrs.frozen
class Accept(Effect):
    """Answer a request that asks for nothing but to be heard."""

    correlation: Correlation


@attrs.frozen
class Refuse(Effect):
    """Answer any request with an error, and with the epoch and leader that this node knows."""

    correlation: Correlation
    error: ErrorCode
    epoch: Epoch
    leader: NodeId


@attrs.frozen
class Elected(Effect):
    """This node leads, and has committed all records before `end_offset`, where its log ends."""

    epoch: Epoch
    end_offset: Offset


@attrs.frozen
class Deposed(Effect):
    """This node led in this epoch and does so no more."""

    epoch: Epoch


@attrs.frozen
class Committed(Effect):
    """All records before `end_offset` are committed, and this node has them."""

    end_offset: Offset
