"""A compacted log on a simulated disk, and the plain truth about everything written to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import attrs

from storage.batch.build import build
from storage.batch.codecs import CODECS, NONE
from storage.batch.control import MarkerKind, marker, read_marker
from storage.batch.header import Batch, Header, assign, split
from storage.batch.records import Record, decode
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.log import flushing
from storage.log.compaction import CompactionReport, compact
from storage.log.config import LogConfig
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.offset_map import MAX_KEYS
from storage.log.recovery import create_log, open_log

PARTITION = TopicPartition("t", 0)
FOLDER = "data/t-0"
RETENTION_MS = 1_000
CONFIG = LogConfig(
    segment_bytes=1024,
    index_interval_bytes=150,
    compact=True,
    delete=False,
    min_cleanable_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
Item = tuple[bytes | None, bytes | None]


@attrs.define
class Written:
    """A record as it was produced, and what became of its transaction, if it is in one."""

    record: Record
    producer: int | None
    is_aborted: bool = False
    decided_at: int | None = None
    """The offset of the marker; -1 without a transaction."""
    first_cleaned_ms: int | None = None


class World:
    """A log, its disk, and what was written."""

    def __init__(self, seed: int = 1, config: LogConfig = CONFIG) -> None:
        self.disk = SimulatedDisk(seed)
        self.disk.make_folder("data")
        self.disk.fsync_folder(".")
        self.marks = FolderMarks(self.disk, "data")
        self.cache = IndexCache()
        self.log = create_log(self.disk, self.cache, PARTITION, FOLDER, config, self.marks)
        self.truth: dict[int, Written] = {}
        self.now_ms = 10_000
        self.epoch = 1
        self._sequences: dict[int, int] = {}
        self._open: dict[int, list[Written]] = {}

    def put(
        self,
        *items: Item,
        codec: int = NONE,
        producer: int | None = None,
        transactional: bool = False,
        ahead_ms: int = 0,
    ) -> int:
        """Append a batch of keys and values; return its first offset."""
        base = self.log.end_offset
        records = [
            Record(
                base + number,
                self.now_ms + ahead_ms + number % 2,
                key,
                value,
                ((b"h", b"%d" % number),),
            )
            for number, (key, value) in enumerate(items)
        ]
        sequence = self._sequences.get(producer, 0) if producer is not None else -1
        self._append(
            build(
                records,
                base_offset=base,
                codec=codec,
                producer_id=-1 if producer is None else producer,
                producer_epoch=-1 if producer is None else 0,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
        if producer is not None:
            self._sequences[producer] = sequence + len(items)
        for record in records:
            written = Written(record, producer, decided_at=None if transactional else -1)
            self.truth[record.offset] = written
            if transactional and producer is not None:
                self._open.setdefault(producer, []).append(written)
        self.now_ms += 1
        return base

    def end(self, producer: int, kind: MarkerKind) -> int:
        """Append a marker; return its offset."""
        offset = self.log.end_offset
        self._append(marker(kind, producer, 0, 5 + producer, self.now_ms, offset))
        for written in self._open.pop(producer, ()):
            written.decided_at = offset
            written.is_aborted = kind is MarkerKind.ABORT
        return offset

    def _append(self, payload: bytearray) -> None:
        (batch,) = split(payload)
        self.log.append([assign(batch, self.log.end_offset, self.epoch)])

    def roll(self) -> None:
        """Seal the last segment, if it has something."""
        if self.log.active.size_bytes:
            self.log.roll()

    def flush(self, *, checkpoint: bool = True) -> None:
        """Make everything durable and committed; what is remembered of it, only if wanted."""
        self.marks.high_watermarks.values[PARTITION] = self.log.end_offset
        jobs.run(flushing.flush(self.log))
        if checkpoint:
            jobs.run(self.marks.save())

    def compact(
        self, high_watermark: int | None = None, max_keys: int = MAX_KEYS
    ) -> CompactionReport | None:
        """Compact, and note what has been cleaned for the first time."""
        found: list[CompactionReport | Exception | None] = []
        watermark = self.log.end_offset if high_watermark is None else high_watermark
        compact(self.log, self.now_ms, watermark, found.append, max_keys)
        (report,) = found
        if isinstance(report, Exception):
            raise report
        if report is not None:
            for offset, written in self.truth.items():
                if offset < report.cleaned_until and written.first_cleaned_ms is None:
                    written.first_cleaned_ms = self.now_ms
        return report

    def settle(self) -> None:
        """Let everything before now be in sealed, durable segments."""
        self.roll()
        self.put((b"last", b"x"))
        self.flush()

    def committed(self, end_offset: int) -> dict[bytes, Written]:
        """The last record of each key that a read_committed consumer of the whole log sees."""
        return {
            bytes(each.record.key): each
            for offset, each in self.truth.items()
            if offset < end_offset and not each.is_aborted and each.record.key is not None
        }


def reopen(
    disk: SimulatedDisk, config: LogConfig = CONFIG, *, clean: bool = False
) -> tuple[Log, FolderMarks]:
    """Open the log on a disk that another process has left."""
    marks = FolderMarks(disk, "data")
    for file in marks.files:
        file.load()
    log = open_log(disk, IndexCache(), PARTITION, FOLDER, config, marks, clean=clean).log
    return log, marks


def batches(log: Log, offset: int | None = None, end_offset: int | None = None) -> Iterator[Batch]:
    """Read the log as a consumer does, fetch after fetch."""
    position = log.start_offset if offset is None else offset
    end = log.end_offset if end_offset is None else end_offset
    while (found := log.read(position, end, 300)) is not None:
        with log.disk.pin(found.path) as pinned:
            content = pinned.read(found.position, found.length)
        for batch in split(content):
            yield batch
            position = batch.header.end_offset


def content(log: Log, offset: int, end_offset: int | None = None) -> bytes:
    """All bytes from the batch with an offset on."""
    return b"".join(bytes(batch.view) for batch in batches(log, offset, end_offset))


def stable_end(log: Log) -> int:
    """Up to where a read_committed consumer reads, if everything is committed."""
    return log.producers.last_stable_offset(log.end_offset)


def visible(log: Log) -> list[Record]:
    """Read as a read_committed consumer does: by the list of aborted transactions and markers."""
    end = stable_end(log)
    waiting = sorted(log.aborted_between(log.start_offset, end), key=lambda each: each.first_offset)
    skipped: set[int] = set()
    found = []
    for batch in batches(log, end_offset=end):
        header = batch.header
        while waiting and waiting[0].first_offset <= header.last_offset:
            skipped.add(waiting.pop(0).producer_id)
        if header.is_control:
            ended = read_marker(batch)
            if ended is not None and ended.kind is MarkerKind.ABORT:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += [_plain(each) for each in decode(batch) if each.offset >= log.start_offset]
    return found


def _plain(record: Record) -> Record:
    return Record(
        record.offset,
        record.timestamp_ms,
        None if record.key is None else bytes(record.key),
        None if record.value is None else bytes(record.value),
        tuple((bytes(name), value and bytes(value)) for name, value in record.headers),
    )


def check_view(world: World, log: Log) -> None:
    """The log says the same as before: the last value of each key, and nothing that never was."""
    seen = visible(log)
    for record in seen:
        written = world.truth[record.offset]
        assert record == written.record
        assert not written.is_aborted
    offsets = [record.offset for record in seen]
    assert offsets == sorted(set(offsets))
    last = {bytes(record.key): record for record in seen if record.key is not None}
    end = stable_end(log)
    for key, written in world.committed(end).items():
        if written.record.offset < log.start_offset:
            continue
        if written.record.value is not None or written.record.offset in offsets:
            assert last[key] == written.record
        else:
            assert key not in last
            assert written.first_cleaned_ms is not None
            assert written.first_cleaned_ms + RETENTION_MS <= world.now_ms


def check_clean(world: World, log: Log, cleaned_until: int) -> None:
    """Nothing is left below an offset that compaction should have removed."""
    seen: set[bytes] = set()
    for batch in batches(log, log.segments[0].base_offset, cleaned_until):
        if batch.header.is_control:
            continue
        for record in decode(batch):
            if record.offset < cleaned_until:
                assert record.key is not None
                assert bytes(record.key) not in seen
                assert not world.truth[record.offset].is_aborted
                seen.add(bytes(record.key))


def check_structure(log: Log) -> None:
    """Segments follow each other, and every lookup finds what a walk through the file finds."""
    expected = log.segments[0].base_offset
    for segment in log.segments:
        assert segment.base_offset == expected
        assert segment.suffix == ""
        disk_size = log.disk.size(segment.path())
        walked = list(segment.walk(0))
        assert disk_size == segment.size_bytes == sum(each.size_bytes for _, each in walked)
        end = segment.base_offset
        for _, header in walked:
            assert header.base_offset >= end
            end = header.end_offset
        assert end == segment.end_offset
        # The answer changes only where a batch begins or ends.
        beginning = segment.base_offset
        for batch in walked:
            header = batch[1]
            for offset in {beginning, header.base_offset, header.last_offset}:
                assert segment.find(offset) == batch
            beginning = header.end_offset
        assert segment.max_timestamp_ms == max(
            (header.max_timestamp_ms for _, header in walked), default=-1
        )
        _check_indexes(log, walked, segment.offsets.entries(), segment.base_offset)
        for time_ms in {header.max_timestamp_ms for _, header in walked}:
            later = [each for each in walked if each[1].max_timestamp_ms >= time_ms]
            assert list(segment.find_time(time_ms)) == later
        expected = end


def _check_indexes(
    log: Log,
    walked: Sequence[tuple[int, Header]],
    entries: Sequence[tuple[int, int]],
    base_offset: int,
) -> None:
    since, expected = 0, []
    for position, header in walked:
        if since > log.config.index_interval_bytes:
            expected.append((header.last_offset - base_offset, position))
            since = 0
        since += header.size_bytes
    assert list(entries) == expected


def producers(log: Log) -> dict[int, tuple[object, ...]]:
    """What is known of each producer; of its recent batches, the last."""
    return {
        each.producer_id: (
            each.epoch,
            each.last_sequence,
            each.last_offset,
            each.offset_delta,
            each.coordinator_epoch,
            each.transaction_first_offset,
        )
        for each in log.producers.entries.values()
    }


def random_history(world: World, random: Random, steps: int) -> None:
    """Write at random: keys, tombstones, transactions that commit, abort or stay open."""
    for _ in range(steps):
        items = [
            (b"key %d" % random.randrange(6), random.choice((None, random.randbytes(20))))
            for _ in range(random.randint(1, 4))
        ]
        producer = random.randint(1, 3)
        match random.randrange(10):
            case 0 | 1 | 2:
                world.put(*items, codec=random.choice(CODECS), ahead_ms=random.choice((0, 700)))
            case 3:
                world.put(*items, producer=producer + 10)
            case 4 | 5 | 6:
                world.put(*items, producer=producer, transactional=True)
            case 7:
                world.end(producer, MarkerKind.ABORT)
            case 8:
                world.end(producer, MarkerKind.COMMIT)
            case 9:
                world.epoch += 1
