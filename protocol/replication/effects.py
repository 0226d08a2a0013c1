"""What a replica wants done. Each write is answered by one completion (`events`), in order."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import Effect
from protocol.replication.log import EpochEnd
from protocol.types import BrokerEpoch, Correlation, Epoch, NodeId, Offset, Version


@attrs.frozen
class Append(Effect):
    """Write: a batch at `base_offset`, in this epoch (0: as it came)."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    payload: object


@attrs.frozen
class Truncate(Effect):
    """Write: cut the log, so that it ends at `end_offset`. `Truncated` answers."""

    end_offset: Offset


@attrs.frozen
class Reset(Effect):
    """Write: drop the whole log and begin anew at this offset. `Truncated` answers."""

    start_offset: Offset


@attrs.frozen
class DeleteBefore(Effect):
    """Nothing before this offset is needed any more; storage deletes it when it likes."""

    start_offset: Offset


@attrs.frozen
class ProduceDone(Effect):
    """Answer a producer: its batch has this base offset."""

    correlation: Correlation
    base_offset: Offset
    log_start_offset: Offset


@attrs.frozen
class SendEntries(Effect):
    """Answer a fetch, follower's or consumer's: read from `offset` to at most `end_offset`.

    Whole batches, at least one if there is one, and then as many as fit into `max_bytes`.
    """

    correlation: Correlation
    offset: Offset
    end_offset: Offset
    max_bytes: int
    leader_epoch: Epoch
    high_watermark: Offset
    log_start_offset: Offset


@attrs.frozen
class SendDivergence(Effect):
    """Answer a follower's fetch: our logs differ before your offset, and this is what I know."""

    correlation: Correlation
    leader_epoch: Epoch
    end: EpochEnd
    high_watermark: Offset
    log_start_offset: Offset


@attrs.frozen
class SendEpochEnd(Effect):
    """Answer OffsetsForLeaderEpoch."""

    correlation: Correlation
    end: EpochEnd


@attrs.frozen
class SendOffset(Effect):
    """Answer ListOffsets, or DeleteRecords with the new low watermark."""

    correlation: Correlation
    offset: Offset
    leader_epoch: Epoch


@attrs.frozen
class FindOffset(Effect):
    """Answer ListOffsets from storage: the first entry at or after a time, before `end_offset`."""

    correlation: Correlation
    timestamp_ms: int
    end_offset: Offset


@attrs.frozen
class Refuse(Effect):
    """Answer any request with an error."""

    correlation: Correlation
    error: ErrorCode
    log_start_offset: Offset = 0


@attrs.frozen
class SendFetch(Effect):
    """Ask the leader for what follows. `FetchAnswered` or `FetchRefused` tells what came of it."""

    leader: NodeId
    leader_epoch: Epoch
    broker_epoch: BrokerEpoch
    offset: Offset
    last_epoch: Epoch
    high_watermark: Offset
    max_bytes: int
    min_bytes: int
    max_wait_ms: int


@attrs.frozen
class SendProposal(Effect):
    """AlterPartition: ask for another ISR. `ProposalRefused` or newer metadata answers."""

    broker_epoch: BrokerEpoch
    leader_epoch: Epoch
    version: Version
    isr: frozenset[NodeId]
    joiner: BrokerEpoch


@attrs.frozen
class ForgetLog(Effect):
    """The replica is deleted: so may its files be."""
