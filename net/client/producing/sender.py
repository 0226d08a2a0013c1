"""Gathers the batches of all partitions into requests, one task for all of them.

A request goes to one broker and has one batch of each partition at most. A broker has a bounded
number of requests to answer; while it has as many, batches stay open and grow.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from net.channel import Channel
from net.client.cluster import Cluster
from net.client.errors import ClientError
from net.client.partitioners import Partitioner
from net.client.producing.batches import Batch
from net.client.producing.memory import Memory
from net.client.producing.writers import IdempotentWriter, PlainWriter, Writer
from net.client.versions import call, choose
from net.driving import Timers
from net.errors import MalformedRequest, NetError
from net.wire.apis import Api
from net.wire.produce import ProducedPartition, ProduceRequest, encode_produce, parse_produce_answer
from protocol.errors import ErrorCode, InvariantViolation
from protocol.idempotence import ClientConfig
from storage.batch.header import HEADER_BYTES

_STALE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that say that somebody else leads by now."""


@attrs.frozen
class SendingConfig:
    """How batches are sent. `acks` as on the wire: -1 for all."""

    acks: int = -1
    idempotent: bool = True
    codec: int = 0
    max_in_flight: int = 5
    max_request_bytes: int = 1024 * 1024
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100


class Sender:
    """Owns the writers of a producer; `run` is its task."""

    def __init__(
        self,
        cluster: Cluster,
        nursery: trio.Nursery,
        timers: Timers,
        memory: Memory,
        partitioner: Partitioner,
        config: SendingConfig,
    ) -> None:
        self.timers = timers
        self.codec = config.codec
        self.identity: tuple[int, int] | None = None
        self.hurried = 0
        """How many wait for everything to be sent: nothing lingers meanwhile."""
        self._cluster = cluster
        self._nursery = nursery
        self._memory = memory
        self._partitioner = partitioner
        self._config = config
        self._writers: dict[tuple[str, int], Writer] = {}
        self._busy: dict[Writer, None] = {}
        self._posted: dict[Writer, deque[Batch]] = {}
        self._unsettled: dict[Batch, None] = {}
        self._in_flight: Counter[int] = Counter()
        self._opening: set[int] = set()
        self._woken = trio.Event()

    @property
    def unsettled(self) -> Sequence[Batch]:
        """All batches that are not done, the oldest first."""
        return list(self._unsettled)

    def writer(self, topic: str, partition: int) -> Writer:
        """Return the writer to a partition."""
        found = self._writers.get((topic, partition))
        if found is None:
            config = self._config
            if config.idempotent:
                machine = ClientConfig(
                    max_in_flight=config.max_in_flight,
                    delivery_timeout_ms=config.delivery_timeout_ms,
                    retry_backoff_ms=config.retry_backoff_ms,
                )
                found = IdempotentWriter(topic, partition, self, machine)
            else:
                found = PlainWriter(topic, partition, self, config.retry_backoff_ms)
            self._writers[topic, partition] = found
        return found

    def begin(self, writer: Writer, linger_ms: int) -> Batch:
        """Open a batch."""
        now_ms = self.timers.clock_ms()
        batch = Batch(
            writer.topic,
            writer.partition,
            now_ms + linger_ms,
            now_ms + self._config.delivery_timeout_ms,
        )
        writer.queue.append(batch)
        self._unsettled[batch] = None
        self._busy[writer] = None
        self.wake()
        return batch

    def close_batch(self, batch: Batch) -> None:
        """Let a batch take no more records."""
        if not batch.closed:
            batch.closed = True
            self._partitioner.batch_closed(batch.topic, batch.partition)
            self.wake()

    def settled(self, batch: Batch) -> None:
        """Hear that a batch is done."""
        del self._unsettled[batch]
        self._memory.give(batch.size_bytes - HEADER_BYTES)

    def violated(self, violation: InvariantViolation) -> None:
        """Stop: the machine's state cannot be trusted any more."""
        raise violation

    def wake(self) -> None:
        """Look after all writers soon."""
        self._woken.set()

    async def run(self) -> None:
        """Send what is due, until cancelled."""
        if self._config.idempotent:
            self._nursery.start_soon(self._identify)
        while True:
            self._woken = trio.Event()
            come_again_ms = self._tend()
            self._send_posted()
            wait_ms = come_again_ms - self.timers.clock_ms()
            with trio.move_on_after(max(0, wait_ms) / 1000):
                await self._woken.wait()

    def _tend(self) -> float:
        now_ms = self.timers.clock_ms()
        come_again_ms = math.inf
        for writer in list(self._busy):
            next_ms = min(writer.tend(now_ms), self._dispatch(writer, now_ms))
            if next_ms == math.inf and not writer.queue:
                del self._busy[writer]
            come_again_ms = min(come_again_ms, next_ms)
        return come_again_ms

    def _dispatch(self, writer: Writer, now_ms: int) -> float:
        """Send the batches of a writer that are due; return when the next one will be."""
        hurry = self.hurried > 0 or self._memory.is_short
        while writer.queue:
            batch = writer.queue[0]
            if not batch.closed and not hurry and now_ms < batch.due_ms:
                return batch.due_ms
            if not self._has_room(writer) or not writer.may_send:
                break
            writer.queue.popleft()
            self.close_batch(batch)
            writer.send(batch)
        return math.inf

    def _has_room(self, writer: Writer) -> bool:
        """Whether a batch would leave at once. Whoever changes that wakes the task."""
        leader = self._cluster.leader(writer.topic, writer.partition)
        if leader is None:
            self._cluster.expire()
            return False
        channel = self._cluster.channel(leader.leader)
        if channel is None or channel.versions is None:
            self._open(leader.leader)
            return False
        on_the_way = self._in_flight[leader.leader] + len(self._posted.get(writer, ()))
        return on_the_way < self._config.max_in_flight

    def _open(self, broker_id: int) -> None:
        if broker_id not in self._opening:
            self._opening.add(broker_id)
            self._nursery.start_soon(self._open_channel, broker_id)

    async def _open_channel(self, broker_id: int) -> None:
        try:
            channel = self._cluster.channel(broker_id)
            if channel is not None:
                await channel.negotiated(self._config.request_timeout_ms)
        except NetError:
            self._cluster.expire()
            await trio.sleep(self._config.retry_backoff_ms / 1000)
        finally:
            self._opening.discard(broker_id)
            self.wake()

    def post(self, writer: Writer, batch: Batch) -> None:
        """Send a batch with the next request to its leader."""
        self._posted.setdefault(writer, deque()).append(batch)
        self._busy[writer] = None
        self.wake()

    def _send_posted(self) -> None:
        by_leader: dict[int, deque[Writer]] = {}
        for writer, batches in list(self._posted.items()):
            if any(batch.done for batch in batches):
                # What was given up meanwhile must not be written any more.
                batches = self._posted[writer] = deque(each for each in batches if not each.done)
            if not batches:
                del self._posted[writer]
                continue
            leader = self._cluster.leader(writer.topic, writer.partition)
            if leader is None:
                self._cluster.expire()
            else:
                by_leader.setdefault(leader.leader, deque()).append(writer)
        for broker_id, writers in by_leader.items():
            channel = self._cluster.channel(broker_id)
            if channel is None or channel.versions is None:
                self._open(broker_id)
                continue
            while writers and self._in_flight[broker_id] < self._config.max_in_flight:
                self._send_request(broker_id, channel, self._gather(writers))

    def _gather(self, writers: deque[Writer]) -> list[tuple[Writer, Batch]]:
        """Take one batch of each, as many as a request may have; who has more stays, at the end."""
        taken: list[tuple[Writer, Batch]] = []
        room = self._config.max_request_bytes
        for _ in range(len(writers)):
            batches = self._posted[writers[0]]
            if taken and len(batches[0].body) > room:
                break
            writer = writers.popleft()
            batch = batches.popleft()
            room -= len(batch.body)
            taken.append((writer, batch))
            if batches:
                writers.append(writer)
            else:
                del self._posted[writer]
        return taken

    def _send_request(
        self, broker_id: int, channel: Channel, batches: list[tuple[Writer, Batch]]
    ) -> None:
        config = self._config
        version = choose(channel.versions or {}, Api.PRODUCE)
        topics: dict[str, list[tuple[int, memoryview | None]]] = {}
        for _, batch in batches:
            topics.setdefault(batch.topic, []).append((batch.partition, memoryview(batch.body)))
        request = ProduceRequest(None, config.acks, config.request_timeout_ms, list(topics.items()))

        def on_answer(body: memoryview) -> None:
            found = _read_answer(version, body, batches) if config.acks else None
            self._in_flight[broker_id] -= 1
            for writer, batch in batches:
                self._answer(writer, batch, found[batch] if found else _UNASKED)
            self.wake()

        def on_failure(error: Exception) -> None:
            del error
            self._in_flight[broker_id] -= 1
            self._cluster.expire()
            for writer, batch in batches:
                self._busy[writer] = None
                writer.lost(batch)
            self.wake()

        self._in_flight[broker_id] += 1
        channel.request(
            Api.PRODUCE,
            version,
            encode_produce(version, request),
            on_answer,
            on_failure,
            config.request_timeout_ms,
            expects_answer=config.acks != 0,
        )

    def _answer(self, writer: Writer, batch: Batch, found: ProducedPartition) -> None:
        self._busy[writer] = None
        if found.error_code in _STALE:
            self._cluster.expire()
        batch.append_time_ms = found.log_append_time_ms
        batch.error_message = found.error_message
        writer.answered(batch, found.error_code, found.base_offset)

    async def _identify(self) -> None:
        self.identity = await self._new_identity()
        self.wake()

    def ask_producer_id(self, granted: Callable[[int, int], None]) -> None:
        """Get a new producer id and epoch."""

        async def ask() -> None:
            granted(*await self._new_identity())

        self._nursery.start_soon(ask)

    async def _new_identity(self) -> tuple[int, int]:
        """Ask until somebody gives an id; what waits for it expires by itself."""
        failures = 0
        message = {
            "transactional_id": None,
            "transaction_timeout": 2**31 - 1,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        while True:
            try:
                await self._cluster.known(self._config.request_timeout_ms)
                answer = await call(
                    self._cluster.any_channel(),
                    Api.INIT_PRODUCER_ID,
                    message,
                    self._config.request_timeout_ms,
                )
                if answer["error_code"] == ErrorCode.NONE:
                    return answer["producer_id"], answer["producer_epoch"]
            except (NetError, ClientError):
                self._cluster.expire()
            failures += 1
            await trio.sleep(self._cluster.pause_ms(failures) / 1000)

    def abandon(self) -> None:
        """Fail all that is left."""
        self._posted.clear()
        for writer in self._writers.values():
            writer.abandon()


_UNASKED: Final = ProducedPartition(-1)


def _read_answer(
    version: int, body: memoryview, batches: list[tuple[Writer, Batch]]
) -> dict[Batch, ProducedPartition]:
    """Find the answer for each batch; one that is missing makes the whole answer worthless."""
    answer = parse_produce_answer(version, body)
    found = {
        (topic, each.partition): each for topic, partitions in answer.topics for each in partitions
    }
    try:
        return {batch: found[batch.topic, batch.partition] for _, batch in batches}
    except KeyError as missing:
        raise MalformedRequest(f"an answer without {missing}") from None
