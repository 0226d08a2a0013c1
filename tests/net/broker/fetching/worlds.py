"""Brokers with real partitions on simulated disks, and askers that keep their answers.

Time stands still unless a test moves it: `Clock` is the timers' clock, and `settle` rings what is
due, again and again, as their task would.
"""

import errno
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import attrs

from net.broker.partition import Partition
from net.driving import Timers
from net.transport.seam import FileRegion, Part
from net.wire.fetch import (
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    parse_fetch_answer,
)
from protocol.errors import ErrorCode, InvariantViolation
from protocol.replication import Replica, ReplicaConfig
from protocol.replication.effects import SendFetch
from protocol.replication.events import (
    ACKS_ALL,
    BecameFollower,
    BecameLeader,
    ProduceReceived,
)
from storage.batch.header import Batch, split
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.seam import PinnedFile
from storage.disk.simulated import SimulatedDisk
from storage.flusher import FLUSH_NEVER
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.store import LogStore
from storage.testing.numbered import numbered

TOPIC = "events"
TOPIC_ID = UUID(int=7)
LOGS = LogConfig(segment_bytes=1 << 20, retention_ms=-1)
MAX_ROUNDS = 100


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def settle(clock: Clock, timers: Timers) -> None:
    """Ring everybody who is due now, until nobody is."""
    for _ in range(MAX_ROUNDS):
        if timers.next_ms > clock.now_ms:
            return
        timers.ring_due()
    raise AssertionError("somebody is always due")


class Disk(SimulatedDisk):
    """A disk that a test may declare to have no file left that could be sent from."""

    is_crowded = False

    def pin(self, path: str) -> PinnedFile:
        if self.is_crowded:
            raise OSError(errno.EMFILE, "too many pinned files", path)
        return super().pin(path)


class Heard:
    """A correlation, and what became of it."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, effect: Any) -> None:
        self.answers.append(effect)


@attrs.define(eq=False, slots=False)
class Node:
    """A broker's partitions: where others find them, and the outside that they have."""

    node: int
    timers: Timers
    count: int = 1
    config: ReplicaConfig = attrs.field(factory=ReplicaConfig)
    send: Callable[[Partition, SendFetch], None] = lambda _partition, _wanted: None
    asked: list[SendFetch] = attrs.field(factory=list)
    violations: list[InvariantViolation] = attrs.field(factory=list)
    partitions: dict[int, Partition] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.disk = Disk(self.node)
        store = LogStore(self.disk, ("data",), policy=FLUSH_NEVER)
        jobs.run(store.open(lambda _: LOGS))
        keys = [TopicPartition(TOPIC, index) for index in range(self.count)]
        jobs.run(store.create(*(NewLog(key, LOGS) for key in keys)))
        for key in keys:
            log, folder = store.log(key), store.folder_of(key)
            assert log is not None
            assert folder is not None
            replica = Replica.restarted(
                self.node, self.node * 10, log=log.as_protocol(), config=self.config
            )
            self.partitions[key.partition] = Partition(
                key, TOPIC_ID, replica, log, folder.flusher, self.timers, self
            )

    def lead(self, epoch: int = 1, replicas: Sequence[int] = (1, 2)) -> None:
        for partition in self.partitions.values():
            known = frozenset(replicas)
            partition.deliver(BecameLeader(epoch, epoch, known, known))

    def follow(self, leader: int, epoch: int = 1) -> None:
        for partition in self.partitions.values():
            partition.deliver(BecameFollower(leader, epoch))

    def produce(self, index: int = 0, *, records: int = 1, value_bytes: int = 40) -> Heard:
        end = self.partitions[index].state.log.end_offset
        return self.append(numbered(end, records=records, value_bytes=value_bytes), index)

    def append(self, batch: Batch, index: int = 0) -> Heard:
        heard = Heard()
        count = batch.header.last_offset_delta + 1
        size_bytes = batch.header.size_bytes
        produced = ProduceReceived(heard, ACKS_ALL, (batch,), count, size_bytes)
        self.partitions[index].deliver(produced)
        return heard

    def find(self, topic_id: UUID, index: int) -> Partition | ErrorCode:
        found = self.partitions.get(index) if topic_id == TOPIC_ID else None
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found

    def find_by_name(self, topic: str, index: int) -> Partition | ErrorCode:
        found = self.partitions.get(index) if topic == TOPIC else None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found

    def send_fetch(self, partition: Partition, wanted: SendFetch) -> None:
        self.asked.append(wanted)
        self.send(partition, wanted)

    def send_proposal(self, partition: Partition, wanted: Any) -> None:
        pass

    def role_changed(self, partition: Partition) -> None:
        pass

    def forget_log(self, partition: Partition) -> None:
        pass

    def violated(self, partition: Partition, violation: InvariantViolation) -> None:
        del partition
        self.violations.append(violation)

    def disk_failed(self, partition: Partition, error: Exception) -> None:
        pass


class Asker:
    """A request of the wire, and its answer when there is one."""

    def __init__(self, version: int = 17, correlation_id: int = 1) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.body: bytes | None = None

    def reply(self, parts: Sequence[Part]) -> None:
        assert self.body is None, "answered twice"
        self.body = b"".join(content(part) for part in parts)

    @property
    def is_answered(self) -> bool:
        return self.body is not None

    @property
    def answer(self) -> FetchAnswer:
        assert self.body is not None, "not answered"
        return parse_fetch_answer(self.version, self.body)

    @property
    def partitions(self) -> dict[int, FetchedPartition]:
        return {each.partition: each for _, partitions in self.answer.topics for each in partitions}

    def offsets(self, index: int = 0) -> list[int]:
        """Where the batches begin that came for a partition."""
        records = self.partitions[index].records
        return [batch.header.base_offset for batch in split(records[0])] if records else []


def content(part: Part) -> bytes:
    """Read a part of an answer, as sending it would, and let go of its file."""
    if isinstance(part, FileRegion):
        try:
            return part.file.read(part.position, part.length)
        finally:
            part.release()
    return bytes(part)


def wants(offset: int = 0, index: int = 0, *, epoch: int = 1, last: int = -1) -> FetchPartition:
    """A partition of a follower's fetch."""
    return FetchPartition(index, offset, 1 << 20, epoch, last)


def follower_fetch(
    *wanted: FetchPartition,
    session: tuple[int, int] = (0, 0),
    max_wait_ms: int = 500,
    max_bytes: int = 10 << 20,
    forgotten: Sequence[int] = (),
    replica: tuple[int, int] = (2, 20),
) -> FetchRequest:
    """A fetch of broker 2."""
    return FetchRequest(
        max_wait_ms,
        1,
        [(TOPIC_ID, list(wanted))] if wanted else [],
        *replica,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        forgotten=[(TOPIC_ID, list(forgotten))] if forgotten else (),
    )
