"""What can happen to a replica. Each type has one action; `protocol.replication.actions` has them.

Requests carry a `correlation`, which comes back in the answer. Completions answer the writes of
`effects`, one for one and in order. The events under "due" come from `Replica.due()`.
"""

from __future__ import annotations

import attrs

from protocol.machine import Event
from protocol.replication.config import ReplicaConfig
from protocol.replication.log import EpochEnd
from protocol.types import BrokerEpoch, Correlation, Epoch, NodeId, Offset, Version

ACKS_ALL = -1


@attrs.frozen
class ProduceReceived(Event):
    """A producer's batch: `payload` is passed through unread, its records are counted outside."""

    correlation: Correlation
    acks: int
    payload: object
    record_count: int
    size_bytes: int
    timeout_ms: int = 30_000


@attrs.frozen
class FetchReceived(Event):
    """A follower asks for records from `offset`, which also says what it has.

    `high_watermark` is the one it knows (-1: it does not say). `available_bytes` is what storage
    has from that offset on, as far as it is easy to tell.
    """

    correlation: Correlation
    follower: NodeId
    broker_epoch: BrokerEpoch
    leader_epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    high_watermark: Offset = -1
    max_bytes: int = 1 << 20
    min_bytes: int = 1
    max_wait_ms: int = 0
    available_bytes: int = 0


@attrs.frozen
class ConsumerFetchReceived(Event):
    """A consumer asks for records from `offset`; its leader epoch is None if it does not say."""

    correlation: Correlation
    offset: Offset
    leader_epoch: Epoch | None = None
    max_bytes: int = 1 << 20
    min_bytes: int = 1
    max_wait_ms: int = 0
    available_bytes: int = 0


@attrs.frozen
class EpochEndAsked(Event):
    """OffsetsForLeaderEpoch: where does this epoch end?"""

    correlation: Correlation
    epoch: Epoch
    leader_epoch: Epoch | None = None


@attrs.frozen
class OffsetAsked(Event):
    """ListOffsets: the first offset, the last one, or the first at or after a time."""

    EARLIEST = -2
    LATEST = -1

    correlation: Correlation
    timestamp_ms: int
    leader_epoch: Epoch | None = None


@attrs.frozen
class DeleteRecordsAsked(Event):
    """An operator wants everything before an offset to be gone (-1: before the high watermark)."""

    correlation: Correlation
    before_offset: Offset


@attrs.frozen
class Appended(Event):
    """Completion: an `Append` is done, and the log now ends at `end_offset`."""

    end_offset: Offset


@attrs.frozen
class AppendsRefused(Event):
    """Completion of every `Append` in flight: there is no room, and nothing of them is there.

    The log is as it was, and may take the same records later.
    """

    reason: str


@attrs.frozen
class Truncated(Event):
    """Completion: a `Truncate` or `Reset` is done, and the log now ends at `end_offset`."""

    end_offset: Offset


@attrs.frozen
class RetentionDeleted(Event):
    """Storage has deleted old segments: the log now begins at `start_offset`."""

    start_offset: Offset


@attrs.frozen
class StorageFailed(Event):
    """The disk cannot be trusted any more: the replica goes offline for good."""

    reason: str


@attrs.frozen
class BecameLeader(Event):
    """The metadata says that this replica leads in a new epoch."""

    epoch: Epoch
    version: Version
    isr: frozenset[NodeId]
    replicas: frozenset[NodeId]


@attrs.frozen
class BecameFollower(Event):
    """The metadata says that somebody else leads in a new epoch, or nobody (NO_LEADER)."""

    leader: NodeId
    epoch: Epoch


@attrs.frozen
class IsrLearned(Event):
    """The metadata has a newer version of the record in which this replica leads."""

    epoch: Epoch
    version: Version
    isr: frozenset[NodeId]
    replicas: frozenset[NodeId]


@attrs.frozen
class ProposalRefused(Event):
    """The controller answered the ISR proposal of this version with an error."""

    version: Version
    error: int


@attrs.frozen
class FetchAnswered(Event):
    """The leader's answer: how many records follow of which epochs, or where the logs diverge.

    `leader_epoch`, `offset` and `last_epoch` are those of the fetch that it answers; `size_bytes`
    is what the payload has, for the consumers who wait for that much.
    """

    leader_epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    diverging: EpochEnd | None = None
    high_watermark: Offset = 0
    log_start_offset: Offset = 0
    epochs: tuple[tuple[Epoch, int], ...] = ()
    payload: object = None
    size_bytes: int = 0


@attrs.frozen
class FetchRefused(Event):
    """The leader refused a fetch, or nobody answered; with OFFSET_OUT_OF_RANGE, where it begins."""

    leader_epoch: Epoch
    error: int
    log_start_offset: Offset = 0


@attrs.frozen
class Configured(Event):
    """An operator has changed settings of this replica; they are these from now on."""

    config: ReplicaConfig


@attrs.frozen
class Resigned(Event):
    """This broker is about to stop: it lets go of all who wait, and serves nobody."""


@attrs.frozen
class Deleted(Event):
    """The topic is deleted, or this replica was moved elsewhere."""


@attrs.frozen
class FollowerCaughtUp(Event):
    """Due: a follower outside the ISR has caught up."""

    follower: NodeId


@attrs.frozen
class FollowerLagged(Event):
    """Due: a follower in the ISR has been behind for too long."""

    follower: NodeId


@attrs.frozen
class ProposalUnanswered(Event):
    """Due: the controller has not answered an ISR proposal."""

    version: Version


@attrs.frozen
class ProducersExpired(Event):
    """Due: some producers have waited as long as they wanted to."""


@attrs.frozen
class FetchesExpired(Event):
    """Due: some fetches have waited as long as they wanted to."""


@attrs.frozen
class FetchDue(Event):
    """Due: a follower may ask its leader again."""
