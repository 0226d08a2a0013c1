"""What can happen to the client's half, `ProducerClient`, and what it wants done about it.

A driver owns the connection. It says `RequestLost` when a request's time is over or its connection
is gone, and from then on does not pass on an answer to that request.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.fold import ProducerEpoch, ProducerId, Sequence
from protocol.machine import Effect, Event
from protocol.types import Correlation, Offset


@attrs.frozen
class BatchReady(Event):
    """A batch of records is to be sent; `SendBatch` or `NotYet` answers."""

    batch: Correlation
    record_count: int


@attrs.frozen
class AnswerReceived(Event):
    """The answer to a batch's request: an error, or where the batch is in the log."""

    batch: Correlation
    error: ErrorCode
    base_offset: Offset = -1


@attrs.frozen
class RequestLost(Event):
    """No answer to a batch's request will come, or none that the driver waits for."""

    batch: Correlation


@attrs.frozen
class EpochGranted(Event):
    """The new epoch that was asked for; with another producer id when the epochs had run out."""

    producer_id: ProducerId
    epoch: ProducerEpoch


@attrs.frozen
class RetryDue(Event):
    """Due: the first batch in flight is to be sent again."""


@attrs.frozen
class DeliveryExpired(Event):
    """Due: the first batch in flight has been tried for long enough."""


@attrs.frozen
class SendBatch(Effect):
    """Send a batch. `AnswerReceived` or `RequestLost` tells what came of it."""

    batch: Correlation
    producer_id: ProducerId
    epoch: ProducerEpoch
    first_sequence: Sequence
    last_sequence: Sequence


@attrs.frozen
class NotYet(Effect):
    """A batch cannot be sent now; offer it again after the next event."""

    batch: Correlation


@attrs.frozen
class Delivered(Effect):
    """Tell the application: its batch is in the log, at this offset (-1: nobody knows where)."""

    batch: Correlation
    base_offset: Offset


@attrs.frozen
class Failed(Effect):
    """Tell the application that its batch has failed; `unknown`: it may be in the log all the same.

    Sending such a batch again as a new one may write it twice.
    """

    batch: Correlation
    error: ErrorCode
    unknown: bool


@attrs.frozen
class AskForEpoch(Effect):
    """The epoch is to change. `EpochGranted` answers: the next epoch (KIP-360), or at the last one
    a new producer id (InitProducerId)."""

    producer_id: ProducerId
    epoch: ProducerEpoch
