"""Records on their way, in batches, and what their senders hold of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

import trio

from net.client.errors import DeliveryFailed
from net.transport.seam import Buffer
from storage.batch.header import HEADER_BYTES
from storage.batch.records import Record, RecordHeader

_RECORD_OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_HEADER_OVERHEAD_BYTES: Final = 5 + 5


class RecordMetadata(NamedTuple):
    """Where a record is. The offset is -1 if nobody asked for it, or it is not known any more."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def bound_size(key: Buffer | None, value: Buffer | None, headers: Sequence[RecordHeader]) -> int:
    """Return how many bytes a record takes at most, before compression."""
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + len(name) + len(content or b"")
    return size


class Batch:
    """Records for one partition. It is open until it is full, or sent; then it is done, once."""

    __slots__ = (
        "_done",
        "append_time_ms",
        "base_offset",
        "body",
        "closed",
        "due_ms",
        "error_code",
        "error_message",
        "expires_ms",
        "failure",
        "numbered",
        "partition",
        "records",
        "size_bytes",
        "topic",
    )

    def __init__(self, topic: str, partition: int, due_ms: int, expires_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.due_ms = due_ms
        self.expires_ms = expires_ms
        self.records: list[Record] = []
        self.size_bytes = HEADER_BYTES
        self.closed = False
        self.body: Buffer = b""
        self.numbered: object = None
        """Which ids and sequence `body` was built with."""
        self.base_offset = -1
        self.append_time_ms = -1
        self.error_code = 0
        self.error_message: str | None = None
        self.failure: DeliveryFailed | None = None
        self._done = trio.Event()

    def add(self, record: Record, size_bytes: int) -> Delivery:
        """Put a record in; its offset is its place in the batch."""
        self.records.append(record)
        self.size_bytes += size_bytes
        return Delivery(self, len(self.records) - 1)

    @property
    def done(self) -> bool:
        """Whether it is settled what became of it, as far as it can be."""
        return self._done.is_set()

    async def wait(self) -> None:
        """Wait until it is done."""
        await self._done.wait()

    def succeed(self, base_offset: int) -> None:
        """Note that it is in the log."""
        self.base_offset = base_offset
        self._settle()

    def fail(self, failure: DeliveryFailed) -> None:
        """Note that it was not delivered, as far as is known."""
        self.failure = failure
        self._settle()

    def _settle(self) -> None:
        self._done.set()
        self.body = b""
        # Whoever holds a delivery still wants the time of its record, and nothing else of it.
        self.records = [Record(each.offset, each.timestamp_ms, None, None) for each in self.records]


class Delivery:
    """A record that was handed over; await it for its `RecordMetadata`, or `DeliveryFailed`."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether awaiting it takes no time."""
        return self._batch.done

    def result(self) -> RecordMetadata:
        """Return where the record is, when it is done."""
        batch = self._batch
        if batch.failure is not None:
            # One exception for each who asks: a shared one would gather everybody's traceback.
            failure = batch.failure
            raise DeliveryFailed(failure.code, failure.unknown, failure.message)
        if not batch.done:
            raise RuntimeError("the record is still on its way")
        offset = -1 if batch.base_offset < 0 else batch.base_offset + self._index
        time_ms = batch.append_time_ms
        if time_ms < 0:
            time_ms = batch.records[self._index].timestamp_ms
        return RecordMetadata(batch.topic, batch.partition, offset, time_ms)

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        yield from self._batch.wait().__await__()
        return self.result()
