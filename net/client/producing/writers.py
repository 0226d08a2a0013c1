"""What is written to one partition, in order: the queue, and what is on its way.

`IdempotentWriter` leaves every choice to `protocol.idempotence.ProducerClient`. `PlainWriter` has
one batch on its way at a time, so that a batch that is sent again keeps its place; but one whose
answer was lost may be in the log twice.
"""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from net.client.errors import DeliveryFailed
from net.client.producing.batches import Batch
from net.driving import Driver, Timers
from protocol.errors import ErrorCode, InvariantViolation
from protocol.idempotence import ClientConfig, ProducerClient
from protocol.idempotence.client_events import (
    AnswerReceived,
    AskForEpoch,
    BatchReady,
    Delivered,
    EpochGranted,
    Failed,
    NotYet,
    RequestLost,
    SendBatch,
)
from protocol.idempotence.client_state import MAX_EPOCH
from protocol.idempotence.rules import RETRIABLE
from protocol.machine import Effect, Event
from storage.batch.build import NO_EPOCH, NO_SEQUENCE, build
from storage.batch.header import NO_PRODUCER

_DOUBTFUL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that leave open whether the batch is in the log."""
_KNOWN: Final = frozenset(ErrorCode)


class Port(Protocol):
    """What a writer needs of its producer."""

    timers: Timers
    codec: int
    identity: tuple[int, int] | None
    """The producer id and epoch, once they are known."""

    def post(self, writer: Writer, batch: Batch) -> None:
        """Send a batch; `answered` or `lost` of the writer tells what came of it."""

    def settled(self, batch: Batch) -> None:
        """Hear that a batch is done."""

    def wake(self) -> None:
        """Look after all writers soon."""

    def ask_producer_id(self, granted: Callable[[int, int], None]) -> None:
        """Get a new producer id and epoch; no answer if the producer ends before."""

    def violated(self, violation: InvariantViolation) -> None:
        """Hear that what must not happen did."""


class Writer(abc.ABC):
    """The batches of one partition that are not done."""

    def __init__(self, topic: str, partition: int, port: Port) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[Batch] = deque()
        """Those that were never sent, the oldest first; only the last may be open."""
        self._port = port

    @property
    @abc.abstractmethod
    def may_send(self) -> bool:
        """Whether the next batch would be sent at once."""

    @abc.abstractmethod
    def send(self, batch: Batch) -> None:
        """Send a batch for the first time."""

    @abc.abstractmethod
    def answered(self, batch: Batch, code: int, base_offset: int) -> None:
        """Hear what a broker says about a batch."""

    @abc.abstractmethod
    def lost(self, batch: Batch) -> None:
        """Hear that there will be no answer about a batch."""

    def tend(self, now_ms: int) -> float:
        """Do what is due; return when to come again, apart from what the timers know."""
        while self.queue and self.queue[0].expires_ms <= now_ms:
            batch = self.queue.popleft()
            batch.closed = True
            self._fail(batch, ErrorCode.REQUEST_TIMED_OUT, False, "it was never sent")
        return self.queue[0].expires_ms if self.queue else math.inf

    def abandon(self) -> None:
        """Fail all that is left; nobody will hear what comes of it."""
        for batch in self.queue:
            self._fail(batch, ErrorCode.NETWORK_EXCEPTION, False, "the producer was closed")
        self.queue.clear()

    def _succeed(self, batch: Batch, base_offset: int) -> None:
        batch.succeed(base_offset)
        self._port.settled(batch)

    def _fail(self, batch: Batch, code: int, unknown: bool, message: str | None) -> None:
        batch.fail(DeliveryFailed(code, unknown, message))
        self._port.settled(batch)


class IdempotentWriter(Writer):
    """Writes each batch once and in order; the protocol's machine says how."""

    def __init__(self, topic: str, partition: int, port: Port, config: ClientConfig) -> None:
        super().__init__(topic, partition, port)
        self._config = config
        self._driver: Driver[ProducerClient] | None = None
        # Batches are named by themselves: they are hashed and compared by identity.
        self._in_flight: dict[Batch, None] = {}

    @property
    def may_send(self) -> bool:
        """Whether the next batch would be sent at once; never before the producer has an id."""
        driver = self._driver
        if driver is None:
            if self._port.identity is None:
                return False
            machine = ProducerClient.started(*self._port.identity, config=self._config)
            driver = Driver(machine, self._begin, self._port.timers, self._port.violated)
            self._driver = driver
        return driver.machine.may_send

    def _deliver(self, event: Event) -> None:
        if self._driver is None:
            raise RuntimeError(f"{type(event).__name__} before the producer has an id")
        self._driver.deliver(event)

    def send(self, batch: Batch) -> None:
        """Send a batch for the first time."""
        self._in_flight[batch] = None
        self._deliver(BatchReady(batch, len(batch.records)))

    def answered(self, batch: Batch, code: int, base_offset: int) -> None:
        """Let the machine know; an error that it does not know is the broker's secret."""
        known = ErrorCode(code) if code in _KNOWN else ErrorCode.UNKNOWN_SERVER_ERROR
        batch.error_code = code
        self._deliver(AnswerReceived(batch, known, base_offset))

    def lost(self, batch: Batch) -> None:
        """Let the machine know."""
        self._deliver(RequestLost(batch))

    def _begin(self, effect: Effect) -> None:
        match effect:
            case SendBatch(batch=Batch() as batch):
                self._build(batch, effect)
                self._port.post(self, batch)
            case Delivered(batch=Batch() as batch, base_offset=offset):
                self._in_flight.pop(batch, None)
                self._succeed(batch, offset)
            case Failed(batch=Batch() as batch, error=error, unknown=unknown):
                self._in_flight.pop(batch, None)
                # The machine names the error that it knows; the broker may have said more.
                own = error is ErrorCode.UNKNOWN_SERVER_ERROR
                code = batch.error_code if own else error
                doubtful = unknown or batch.error_code in _DOUBTFUL
                self._fail(batch, code, doubtful, batch.error_message)
            case NotYet(batch=Batch() as batch):
                self._in_flight.pop(batch, None)
                self.queue.appendleft(batch)
            case AskForEpoch(producer_id=producer_id, epoch=epoch):
                self._bump(producer_id, epoch)
            case _:
                raise TypeError(f"no such effect: {effect}")
        self._port.wake()

    def _build(self, batch: Batch, effect: SendBatch) -> None:
        numbered = (effect.producer_id, effect.epoch, effect.first_sequence)
        if batch.numbered != numbered:
            batch.numbered = numbered
            batch.body = build(
                batch.records,
                codec=self._port.codec,
                leader_epoch=NO_EPOCH,
                producer_id=effect.producer_id,
                producer_epoch=effect.epoch,
                base_sequence=effect.first_sequence,
            )

    def _bump(self, producer_id: int, epoch: int) -> None:
        if epoch < MAX_EPOCH:
            self._deliver(EpochGranted(producer_id, epoch + 1))
        else:
            self._port.ask_producer_id(self._granted)

    def _granted(self, producer_id: int, epoch: int) -> None:
        self._deliver(EpochGranted(producer_id, epoch))

    def abandon(self) -> None:
        """Fail all that is left."""
        if self._driver is not None:
            self._driver.close()
        for batch in self._in_flight:
            self._fail(batch, ErrorCode.NETWORK_EXCEPTION, True, "the producer was closed")
        self._in_flight.clear()
        super().abandon()


class PlainWriter(Writer):
    """One batch at a time, sent again until its time is over."""

    def __init__(self, topic: str, partition: int, port: Port, backoff_ms: int) -> None:
        super().__init__(topic, partition, port)
        self._backoff_ms = backoff_ms
        self._batch: Batch | None = None
        self._doubtful = False
        self._again_ms = math.inf
        """When to send it again; infinity while an answer is waited for."""

    @property
    def may_send(self) -> bool:
        """Whether nothing is on its way."""
        return self._batch is None

    def send(self, batch: Batch) -> None:
        """Send a batch for the first time."""
        batch.body = build(
            batch.records,
            codec=self._port.codec,
            leader_epoch=NO_EPOCH,
            producer_id=NO_PRODUCER,
            base_sequence=NO_SEQUENCE,
        )
        self._batch, self._doubtful, self._again_ms = batch, False, math.inf
        self._port.post(self, batch)

    def answered(self, batch: Batch, code: int, base_offset: int) -> None:
        """Done, or failed, or to be sent again."""
        if batch is not self._batch:
            return
        self._doubtful = self._doubtful or code in _DOUBTFUL
        if code == ErrorCode.NONE:
            self._batch = None
            self._succeed(batch, base_offset)
        elif code in RETRIABLE:
            self._retry()
        else:
            self._batch = None
            self._fail(batch, code, self._doubtful, batch.error_message)
        self._port.wake()

    def lost(self, batch: Batch) -> None:
        """Send it again; it may be in the log already."""
        if batch is self._batch:
            self._doubtful = True
            self._retry()

    def _retry(self) -> None:
        self._again_ms = self._port.timers.clock_ms() + self._backoff_ms
        self._port.wake()

    def tend(self, now_ms: int) -> float:
        """Send again what is due; give up what has taken too long."""
        come_again_ms = super().tend(now_ms)
        batch = self._batch
        if batch is None:
            return come_again_ms
        if batch.expires_ms <= now_ms:
            self._batch = None
            unknown = self._doubtful or self._again_ms == math.inf
            self._fail(batch, ErrorCode.REQUEST_TIMED_OUT, unknown, None)
            return come_again_ms
        if self._again_ms <= now_ms:
            self._again_ms = math.inf
            self._port.post(self, batch)
        return min(come_again_ms, batch.expires_ms, self._again_ms)

    def abandon(self) -> None:
        """Fail all that is left."""
        if self._batch is not None:
            self._fail(self._batch, ErrorCode.NETWORK_EXCEPTION, True, "the producer was closed")
            self._batch = None
        super().abandon()
