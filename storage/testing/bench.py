"""One log on a simulated disk, for scenarios that are written out step by step."""

from __future__ import annotations

from typing import Final

from storage.batch.build import build
from storage.batch.control import MarkerKind, marker
from storage.batch.header import Batch, assign, split, stamp
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.log import flushing
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log.recovery import Recovery
from storage.testing.broker import SmallBroker, fresh_disk

PARTITION: Final = TopicPartition("t", 0)
SMALL: Final = LogConfig(segment_bytes=1024, index_interval_bytes=200)


class Bench:
    """A log with small segments, and what is usually done with it."""

    def __init__(self, config: LogConfig = SMALL, start_offset: int = 0) -> None:
        self.broker = SmallBroker(fresh_disk(SimulatedDisk(seed=1)), config)
        self.broker.create(PARTITION, start_offset)

    @property
    def log(self) -> Log:
        """The log as it is open now."""
        return self.broker.logs[PARTITION]

    @property
    def disk(self) -> SimulatedDisk:
        """The disk of the moment."""
        return self.broker.disk

    @property
    def folder(self) -> str:
        """Where the files of the log are."""
        return self.log.folder

    def batch(
        self,
        records: int = 1,
        *,
        value_bytes: int = 50,
        offset: int | None = None,
        epoch: int = 1,
        at_ms: tuple[int, ...] | None = None,
        append_time_ms: int | None = None,
        producer_id: int = -1,
        sequence: int = 0,
        transactional: bool = False,
    ) -> Batch:
        """Make a batch that fits at the end of the log, or at an offset."""
        offset = self.log.end_offset if offset is None else offset
        times = at_ms or tuple(1000 + offset + number for number in range(records))
        made = build(
            [Record(n, at, b"k", b"v" * value_bytes, ()) for n, at in enumerate(times)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
        )
        (batch,) = split(made)
        if append_time_ms is not None:
            batch = stamp(batch, append_time_ms)
        return assign(batch, offset, epoch)

    def marker(self, kind: MarkerKind, producer_id: int) -> Batch:
        """Make the end of a transaction."""
        (batch,) = split(marker(kind, producer_id, 0, 1, 1000 + self.log.end_offset))
        return assign(batch, self.log.end_offset, 1)

    def append(self, count: int = 1, *, records: int = 1, value_bytes: int = 50) -> None:
        """Append batches, one by one."""
        for _ in range(count):
            self.log.append([self.batch(records, value_bytes=value_bytes)])

    def flush(self) -> int:
        """Flush, and write the recovery point down."""
        flushed = jobs.run(flushing.flush(self.log))
        jobs.run(self.broker.marks.save())
        return flushed

    def stop(self) -> None:
        """Stop cleanly."""
        self.broker.stop()

    def start(self, disk: SimulatedDisk | None = None, *, clean: bool = False) -> Recovery:
        """Open the log in a new process; `DamagedLog` if it is damaged."""
        again = SmallBroker(disk or self.disk.kill(), self.broker.config)
        again.load_marks()
        again.open(PARTITION, clean=clean)
        if PARTITION in again.damaged:
            raise again.damaged[PARTITION]
        self.broker = again
        return again.recoveries[PARTITION]

    def content(self) -> bytes:
        """All batches, from the files."""
        return b"".join(
            bytes(self.disk.read(each.path(), 0, each.size_bytes)) for each in self.log.segments
        )
