"""One partition on a simulated disk, with everything around it in the hands of the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from net.broker.partition import Partition
from net.broker.tracing import Write
from net.driving import Timers
from protocol.errors import InvariantViolation
from protocol.replication import Replica, ReplicaConfig
from protocol.replication.events import BecameFollower, BecameLeader, FetchReceived
from storage.batch.build import build
from storage.batch.header import Batch, Header, split
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults
from storage.disk.simulated import SimulatedDisk
from storage.flusher import FLUSH_NEVER, FlushPolicy
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.store import LogStore
from tests.net.broker.fetching.worlds import Clock, Heard, settle

KEY = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)
LOGS = LogConfig(segment_bytes=1 << 20, retention_ms=-1)
WALL_MS = 1_700_000_000_000


class Produced(Heard):
    """A producer's batch, and what became of it."""

    def __init__(self, batch: Batch, acks: int = -1, timeout_ms: int = 30_000) -> None:
        super().__init__()
        self.batch = batch
        self.header: Header = batch.header
        self.acks = acks
        self.timeout_ms = timeout_ms

    @property
    def only(self) -> Any:
        (found,) = self.answers
        return found


def batch(
    *, records: int = 1, producer: int = -1, epoch: int = 0, sequence: int = -1, size: int = 20
) -> Batch:
    """Make a batch as a producer sends it."""
    made = [Record(at, WALL_MS + at, b"k", b"v" * size) for at in range(records)]
    if producer < 0:
        epoch = sequence = -1
    (found,) = split(
        build(made, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    )
    return found


class World:
    """Broker 1, which has a replica of the partition, as has broker 2."""

    def __init__(
        self,
        policy: FlushPolicy = FLUSH_NEVER,
        *,
        min_isr: int = 1,
        deferred: bool = False,
        trace: Write | None = None,
    ) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.disk = SimulatedDisk(1)
        self.fetches: list[Any] = []
        self.proposals: list[Any] = []
        self.roles: list[bool] = []
        self.forgotten = 0
        self.violations: list[InvariantViolation] = []
        self.failures: list[Exception] = []
        self.store = LogStore(self.disk, ("data",), policy=policy)
        jobs.run(self.store.open(lambda _: LOGS))
        (log,) = jobs.run(self.store.create(NewLog(KEY, LOGS)))
        folder = self.store.folder_of(KEY)
        assert folder is not None
        config = ReplicaConfig(min_isr=min_isr)
        replica = Replica.restarted(1, 10, log=log.as_protocol(), config=config)
        self.partition = Partition(
            KEY,
            TOPIC_ID,
            replica,
            log,
            folder.flusher,
            self.timers,
            self,
            wall=lambda: WALL_MS,
            trace=trace,
        )
        self.disk.faults = Faults(deferred=deferred)

    @property
    def end(self) -> int:
        return self.partition.state.log.end_offset

    @property
    def committed(self) -> int:
        return self.partition.state.high_watermark

    def lead(self, epoch: int = 1, isr: Sequence[int] = (1, 2)) -> None:
        nodes = frozenset({1, 2})
        self.partition.deliver(BecameLeader(epoch, epoch, frozenset(isr), nodes))

    def follow(self, epoch: int = 2) -> None:
        self.partition.deliver(BecameFollower(2, epoch))

    def produce(self, made: Batch, acks: int = -1, timeout_ms: int = 30_000) -> Produced:
        asked = Produced(made, acks, timeout_ms)
        self.partition.produce(asked)
        return asked

    def fetched(self, offset: int, epoch: int = 1) -> Heard:
        """Let the follower say that it has everything before an offset."""
        heard = Heard()
        last = epoch if offset else 0
        self.partition.deliver(FetchReceived(heard, 2, 20, epoch, offset, last))
        return heard

    def pass_ms(self, time_ms: int) -> None:
        self.clock.now_ms += time_ms
        settle(self.clock, self.timers)

    # What a partition needs of the broker around it.

    def send_fetch(self, partition: Partition, wanted: Any) -> None:
        del partition
        self.fetches.append(wanted)

    def role_changed(self, partition: Partition) -> None:
        self.roles.append(partition.leads)

    def send_proposal(self, partition: Partition, wanted: Any) -> None:
        del partition
        self.proposals.append(wanted)

    def forget_log(self, partition: Partition) -> None:
        del partition
        self.forgotten += 1

    def violated(self, partition: Partition, violation: InvariantViolation) -> None:
        del partition
        self.violations.append(violation)

    def disk_failed(self, partition: Partition, error: Exception) -> None:
        del partition
        self.failures.append(error)
