"""A producer: hands records to a cluster in batches and tells what became of each.

    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("topic", b"value", key=b"key")
        where = await delivery

`send` waits for room in the buffer, and the first time for the topic's partitions; sending goes on
beside it. Every delivery comes to an end: `delivery_timeout_ms` bounds the tries from the first one
on, and as much again the wait before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import trio

from net.client.config import ConnectionConfig
from net.client.errors import KafkaError, RecordTooLarge
from net.client.partitioners import Partitioner, StickyPartitioner
from net.client.producing.batches import Batch, Delivery, bound_size
from net.client.producing.memory import Memory
from net.client.producing.sender import Sender, SendingConfig
from net.client.session import Session
from net.client.topology import TopicInfo
from net.clock import wall_ms
from net.errors import BadSetting
from net.transport.seam import Buffer, Network
from protocol.errors import ErrorCode
from storage.batch import codecs
from storage.batch.header import HEADER_BYTES
from storage.batch.records import Record, RecordHeader

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
_CODECS: Final[dict[str, int]] = {
    "none": codecs.NONE,
    "gzip": codecs.GZIP,
    "snappy": codecs.SNAPPY,
    "lz4": codecs.LZ4,
    "zstd": codecs.ZSTD,
}
_ACKS: Final[dict[object, int]] = {"all": -1, 1: 1, 0: 0}
_MOST_IN_FLIGHT: Final = 5


class Producer(Session):
    """Sends records. Without idempotence, one that is sent again may be in the log twice."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        acks: Literal["all", 1, 0] = "all",
        enable_idempotence: bool = True,
        linger_ms: int = 0,
        batch_bytes: int = 16 * 1024,
        compression: Compression = "none",
        buffer_bytes: int = 32 * 1024 * 1024,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_block_ms: int = 60_000,
        max_in_flight: int = 5,
        max_request_bytes: int = 1024 * 1024,
        retry_backoff_ms: int = 100,
        partitioner: Partitioner | None = None,
        client_id: str = "hwmark-producer",
        network: Network | None = None,
        chance: random.Random | None = None,
    ) -> None:
        if acks not in _ACKS:
            raise BadSetting(f"acks: {acks!r} is none of 'all', 1, 0")
        if compression not in _CODECS:
            raise BadSetting(f"compression: {compression!r} is none of {', '.join(_CODECS)}")
        if enable_idempotence and acks != "all":
            raise BadSetting(f"enable_idempotence needs acks='all', not {acks!r}")
        most = _MOST_IN_FLIGHT if enable_idempotence else 100
        if not 1 <= max_in_flight <= most:
            raise BadSetting(f"max_in_flight: {max_in_flight} is not between 1 and {most}")
        if min(batch_bytes, buffer_bytes, max_request_bytes, delivery_timeout_ms) < 1:
            raise BadSetting("sizes and times must be positive")
        config = ConnectionConfig(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
        )
        super().__init__(bootstrap, config, network, chance)
        self._sending = SendingConfig(
            acks=_ACKS[acks],
            idempotent=enable_idempotence,
            codec=_CODECS[compression],
            max_in_flight=max_in_flight,
            max_request_bytes=max_request_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
        )
        self._linger_ms = linger_ms
        self._batch_bytes = batch_bytes
        self._max_block_ms = max_block_ms
        self._memory = Memory(buffer_bytes)
        self._partitioner = partitioner or StickyPartitioner(self._chance)

    def _start(self) -> None:
        self._sender = Sender(
            self.cluster, self.nursery, self.timers, self._memory, self._partitioner, self._sending
        )
        self.nursery.start_soon(self._sender.run)

    def _topology_changed(self) -> None:
        self._sender.wake()

    async def send(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[RecordHeader] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Hand over a record; await what comes back to learn where it is, or that it failed."""
        self._check_open()
        size_bytes = bound_size(key, value, headers)
        if size_bytes + HEADER_BYTES > self._sending.max_request_bytes:
            raise RecordTooLarge(
                f"{size_bytes} bytes, where a request has {self._sending.max_request_bytes}"
            )
        info = self.cluster.info.topics.get(topic)
        if info is None or info.error or not info.partitions:
            info = await self.cluster.topic(topic, self._max_block_ms)
        if partition is not None and info.find(partition) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        if not self._memory.take_now(size_bytes):
            self._sender.wake()
            await self._memory.take(size_bytes, self._max_block_ms)
        batch = self._batch_for(info, key, partition, size_bytes)
        time_ms = wall_ms() if timestamp_ms is None else timestamp_ms
        record = Record(len(batch.records), time_ms, key, value, tuple(headers))
        delivery = batch.add(record, size_bytes)
        if batch.size_bytes >= self._batch_bytes:
            self._sender.close_batch(batch)
            # A task that only sends would let nothing else run.
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        return delivery

    def _batch_for(
        self, topic: TopicInfo, key: Buffer | None, partition: int | None, size_bytes: int
    ) -> Batch:
        chosen = self._partitioner.choose(topic, key) if partition is None else partition
        batch = self._open_batch(topic, chosen, size_bytes)
        if batch is None and partition is None and key is None and self._partitioner.sticks:
            # KIP-480: a record that would begin a batch looks for a partition again.
            chosen = self._partitioner.choose(topic, key)
            batch = self._open_batch(topic, chosen, size_bytes)
        if batch is None:
            writer = self._sender.writer(topic.name, chosen)
            batch = self._sender.begin(writer, self._linger_ms)
        return batch

    def _open_batch(self, topic: TopicInfo, partition: int, size_bytes: int) -> Batch | None:
        """Return the open batch of a partition; one that has no room is closed."""
        queue = self._sender.writer(topic.name, partition).queue
        last = queue[-1] if queue else None
        if last is None or last.closed:
            return None
        if last.size_bytes + size_bytes <= self._batch_bytes:
            return last
        self._sender.close_batch(last)
        return None

    async def flush(self) -> None:
        """Wait until everything that was handed over is delivered, or has failed."""
        self._sender.hurried += 1
        self._sender.wake()
        try:
            for batch in self._sender.unsettled:
                await batch.wait()
        finally:
            self._sender.hurried -= 1

    async def _finish(self) -> None:
        await self.flush()

    def _stop(self) -> None:
        self._sender.abandon()
