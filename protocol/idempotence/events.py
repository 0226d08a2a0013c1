"""What can happen to the leader's half, `Sequences`. Each type has one action.

A batch's `last_sequence` is counted outside: it is `first_sequence` for a batch of one record, and
smaller than it where the sequences wrap around. The events under "due" come from `due()`.
"""

from __future__ import annotations

import attrs

from protocol.idempotence.fold import (
    LogBatch,
    LogMarker,
    ProducerEpoch,
    ProducerId,
    Sequence,
    Snapshot,
)
from protocol.machine import Event
from protocol.types import Correlation, Offset


@attrs.frozen
class BatchArrived(Event):
    """A producer's batch, before anything is done with it; not one without a producer id."""

    correlation: Correlation
    producer_id: ProducerId
    epoch: ProducerEpoch
    first_sequence: Sequence
    last_sequence: Sequence
    acks_all: bool = True
    timeout_ms: int = 30_000


@attrs.frozen
class BatchAppended(Event):
    """Completion: the first batch of this producer that was let through is in the log."""

    producer_id: ProducerId
    base_offset: Offset


@attrs.frozen
class BatchRefused(Event):
    """A batch that was let through is not going to be in the log, nor those of its producer after.

    The replica has refused it (min ISR, a quota). Told at once, before a later one is handed on.
    """

    producer_id: ProducerId
    correlation: Correlation


@attrs.frozen
class AppendsRefused(Event):
    """Completion of everything that was let through: there is no room, nothing of it is there."""


@attrs.frozen
class MarkerAppended(Event):
    """The end of a transaction is in the log; from here on its producer has this epoch."""

    producer_id: ProducerId
    epoch: ProducerEpoch


@attrs.frozen
class HighWatermarkAdvanced(Event):
    """Everything before this offset is committed."""

    high_watermark: Offset


@attrs.frozen
class LeadershipBegun(Event):
    """This replica leads in a new epoch, and its log may have been cut since it last did.

    `written` is what the log has, from the beginning of `snapshot` on at the latest; all of it if
    the log has been cut before that.
    """

    snapshot: Snapshot
    written: tuple[LogBatch | LogMarker, ...]
    end_offset: Offset
    high_watermark: Offset


@attrs.frozen
class RequestAbandoned(Event):
    """Whoever sent a batch has gone, and waits for its answer no more."""

    correlation: Correlation


@attrs.frozen
class LeadershipEnded(Event):
    """This replica leads no more: whoever waits has to ask the next leader."""


@attrs.frozen
class ProducerIdle(Event):
    """Due: a producer has not written for long."""

    producer_id: ProducerId


@attrs.frozen
class SweepDone(Event):
    """Due: every producer was looked at; the next look is an interval away."""


@attrs.frozen
class ParkedExpired(Event):
    """Due: somebody has waited for a commit for as long as they wanted to."""
