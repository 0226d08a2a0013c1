"""A partition's log: append batches, find them again, and remember what they say.

Appending is synchronous and ends in the page cache; `flushing` makes it durable. Everything that
takes long or several steps (flush, cut, clean, close) is a job and takes its turn, so that two of
them never overlap; appends and reads go on meanwhile, except that nothing is appended while the log
is being cut. It decodes no record, except to find one by its time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from protocol.errors import InvariantViolation
from protocol.replication.log import Log as ProtocolLog
from storage.batch import records
from storage.batch.control import read_marker
from storage.batch.header import CONTROL, LENGTH_FROM, Batch, Header
from storage.checkpoint import TopicPartition
from storage.disk.jobs import Turns
from storage.disk.seam import Disk, FileRange
from storage.errors import NO_ROOM, disk_error
from storage.log import aborted
from storage.log.aborted import AbortedTransaction
from storage.log.config import LogConfig
from storage.log.epochs import Epochs
from storage.log.index import OFFSET_ENTRY, IndexCache
from storage.log.marks import FolderMarks
from storage.log.producers import Producers
from storage.log.scan import MAX_RELATIVE_OFFSET
from storage.log.segment import SNAPSHOT, Segment, file_name

_VIEW: Final = attrgetter("view")
_MAX_BUFFERS: Final = 1024
"""How many pieces one vectored write may have (IOV_MAX)."""


class FoundTime(NamedTuple):
    """A record that was looked up by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Log:
    """Segments in ascending order, of which the last is written, and their common memory."""

    def __init__(
        self,
        disk: Disk,
        cache: IndexCache,
        partition: TopicPartition,
        folder: str,
        config: LogConfig,
        marks: FolderMarks,
    ) -> None:
        self.disk = disk
        self.cache = cache
        self.partition = partition
        self.folder = folder
        self.config = config
        self.marks = marks
        self.turns = Turns(disk)
        self.epochs = Epochs()
        self.producers = Producers(config.max_producers)
        self.segments: list[Segment] = []
        self.start_offset = 0
        self.unflushed_records = 0
        self.unsynced_files: set[str] = set()
        """Files with bytes that no fsync has covered."""
        self.unsynced_names = False
        """Whether files were made, renamed or deleted since the folder was last synced."""
        self.cutting = False
        self.cuts = 0
        """How often its end was cut: a flush that began before a cut does not count after it."""
        self._bases: list[int] = []
        self._active_path = ""

    @property
    def active(self) -> Segment:
        """The segment that is written."""
        return self.segments[-1]

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.segments[-1].end_offset

    @property
    def size_bytes(self) -> int:
        """All batches."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is durable."""
        return self.marks.recovery_points.values.get(self.partition, 0)

    @property
    def known_high_watermark(self) -> int:
        """What the replica knew to be committed when it last said so."""
        return self.marks.high_watermarks.values.get(self.partition, 0)

    def committed(self, high_watermark: int) -> None:
        """Hear from the replica what is committed: retention and compaction keep to it."""
        self.marks.high_watermarks.values[self.partition] = high_watermark
        self.producers.on_high_watermark(high_watermark)

    def as_protocol(self) -> ProtocolLog:
        """What a replica's core wants to know of it."""
        return self.epochs.as_log(self.start_offset, self.end_offset)

    def fresh_producers(self) -> Producers:
        """The state of a log that no producer has written to yet."""
        producers = Producers(self.config.max_producers)
        producers.on_high_watermark(self.known_high_watermark)
        return producers

    def segments_changed(self) -> None:
        """Whoever changed the list of segments says so."""
        self._bases = [segment.base_offset for segment in self.segments]
        self._active_path = self.segments[-1].path() if self.segments else ""

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """Make the object, not the files, of a segment of this log."""
        return Segment(
            self.disk,
            self.cache,
            self.folder,
            base_offset,
            self.config.index_interval_bytes,
            suffix,
        )

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches, whose offsets and epochs are set, at the end.

        `DiskFull` refuses what does not fit; batches before it are in the log (`end_offset`).
        `InvalidBatch` refuses a control batch that makes no sense, and all that came with it.
        """
        if not batches:
            return
        expected = self.segments[-1].end_offset
        for batch in batches:
            header = batch.header
            if header.attributes & CONTROL:
                # What is no marker is refused before anything is written.
                read_marker(batch)
            if header.base_offset < expected or self.cutting:
                raise InvariantViolation(
                    "AppendsFollow",
                    header,
                    f"{self.folder} ends at {expected}{' and is being cut' * self.cutting}",
                )
            expected = header.base_offset + header.last_offset_delta + 1
        while (fitting := self._make_room(batches)) < len(batches):
            self._write(batches[:fitting])
            batches = batches[fitting:]
        self._write(batches)

    def _make_room(self, batches: Sequence[Batch]) -> int:
        """Roll if need be; return how many of these batches go into the segment."""
        active, config = self.segments[-1], self.config
        first = batches[0].header
        size = active.size_bytes + first.length + LENGTH_FROM
        last_offset = first.base_offset + first.last_offset_delta
        if active.size_bytes and (
            size > config.segment_bytes
            or active.offsets.size_bytes + OFFSET_ENTRY.size > config.index_max_bytes
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or first.max_timestamp_ms - active.first_timestamp_ms > config.segment_ms
        ):
            self.roll()
            active = self.segments[-1]
            size = first.size_bytes
        if len(batches) == 1:
            return 1
        for count, (header, _) in enumerate(batches[1:_MAX_BUFFERS], start=1):
            size += header.size_bytes
            if (
                size > config.segment_bytes
                or header.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ):
                return count
        return min(len(batches), _MAX_BUFFERS)

    def _write(self, batches: Sequence[Batch]) -> None:
        active, path = self.segments[-1], self._active_path
        position = active.size_bytes
        try:
            self.disk.write(path, list(map(_VIEW, batches)), position)
        except OSError as error:
            raise self._refused(error) from error
        self.unsynced_files.add(path)
        for batch in batches:
            header = batch.header
            active.note(header, position)
            position += header.length + LENGTH_FROM
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.observe(active, batch)
            self.unflushed_records += header.last_offset_delta + 1
        if active.offsets.wants_saving:
            self.save_indexes()

    def observe(self, segment: Segment, batch: Batch, *, aborted_is_known: bool = False) -> None:
        """Remember what a batch with a producer id says: its sequence, or the end it brings."""
        header = batch.header
        if not header.is_control:
            self.producers.observe(header)
        elif (marker := read_marker(batch)) is not None:
            ended = self.producers.observe_marker(header, marker.kind, marker.coordinator_epoch)
            if ended is not None and not aborted_is_known:
                segment.note_aborted(ended)

    def _refused(self, error: OSError) -> Exception:
        """Take back what a failed write has left, and say what it means."""
        if error.errno in NO_ROOM:
            self.disk.truncate(self._active_path, self.active.size_bytes)
            # Nobody else would make that durable if this was the last write before a clean stop.
            self.unsynced_files.add(self._active_path)
        return disk_error(error, self._active_path)

    def save_indexes(self) -> bool:
        """Write index entries that wait in memory; without room they wait on, and it is `False`."""
        try:
            changed = self.active.save_indexes()
        except OSError as error:
            self._note_indexes()
            if error.errno in NO_ROOM:
                return False
            raise disk_error(error, self.active.offsets.path) from error
        if changed:
            self.note_changes(changed)
        return True

    def note_changes(self, paths: Iterable[str]) -> None:
        """These files have bytes now that are not durable; some of them may be new."""
        self.unsynced_files.update(paths)
        self.unsynced_names = True

    def _note_indexes(self) -> None:
        """Writing the indexes failed: some of them may have been written before that."""
        self.note_changes(path for path in self.active.files[1:] if self.disk.exists(path))

    def roll(self) -> None:
        """Begin a new segment at the end, and note what is known of the producers there."""
        segment = self.new_segment(self.end_offset)
        try:
            self.note_changes(self.active.seal())
            self.write_snapshot()
            segment.create()
        except OSError as error:
            segment.delete()
            self._note_indexes()
            raise self._refused(error) from error
        self.note_changes(segment.files[:3])
        self.segments.append(segment)
        self.segments_changed()

    def write_snapshot(self) -> None:
        """Write down the producers' state at the end of the log."""
        path = f"{self.folder}/{file_name(self.end_offset, SNAPSHOT)}"
        self.disk.create(path)
        self.disk.write(path, (self.producers.encode(),), 0)
        self.note_changes((path,))

    def segment_of(self, offset: int) -> Segment:
        """Return the segment that has this offset, the first if it is before all of them."""
        return self.segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def read(self, offset: int, end_offset: int, max_bytes: int) -> FileRange | None:
        """Find whole batches from the one with `offset` on, of one segment, up to `end_offset`.

        At least one batch if there is one, then as many as fit into `max_bytes`; `None` at the end.
        """
        if offset >= min(end_offset, self.end_offset):
            return None
        segment = self.segment_of(offset)
        found = segment.find(offset)
        if found is None:
            following = self.segment_of(segment.end_offset)
            found = following.find(offset) if following is not segment else None
            segment = following
        if found is None or found[1].end_offset > end_offset:
            return None
        start = found[0]
        limit = segment.size_bytes
        if end_offset < segment.end_offset and (beyond := segment.find(end_offset)):
            limit = beyond[0]
        if limit - start > max_bytes:
            limit = min(limit, segment.boundary(start, start + max_bytes))
        return FileRange(segment.path(), start, limit - start)

    def find_time(self, timestamp_ms: int, end_offset: int) -> FoundTime | None:
        """Find the first record of this time or later, before `end_offset`."""
        for segment, position, header in self._since(timestamp_ms):
            batch = memoryview(self.disk.read(segment.path(), position, header.size_bytes))
            for record in records.decode(Batch(header, batch)):
                if record.timestamp_ms >= timestamp_ms and record.offset >= self.start_offset:
                    epoch = header.leader_epoch
                    seen = record.offset < end_offset
                    return FoundTime(record.offset, record.timestamp_ms, epoch) if seen else None
        return None

    def _since(self, timestamp_ms: int) -> Iterable[tuple[Segment, int, Header]]:
        """Yield the batches with an offset of the log that have a record of this time or later."""
        for segment in self.segments:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            for position, header in segment.find_time(timestamp_ms):
                if header.last_offset >= self.start_offset:
                    yield segment, position, header

    def newest_time(self, end_offset: int) -> FoundTime | None:
        """Find the first record that has the largest timestamp of all.

        As in Kafka, none is found if compaction has emptied the batch with that timestamp.
        """
        newest_ms = max(segment.max_timestamp_ms for segment in self.segments)
        return self.find_time(newest_ms, end_offset)

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return how many bytes a fetch of these offsets would find, over all segments."""
        if offset >= min(end_offset, self.end_offset):
            return 0
        return max(self._position(end_offset) - self._position(offset), 0)

    def _position(self, offset: int) -> int:
        """Where a batch begins, counted over all segments."""
        before = 0
        for segment in self.segments:
            if offset < segment.end_offset:
                found = segment.find(offset)
                return before + (found[0] if found else segment.size_bytes)
            before += segment.size_bytes
        return before

    def aborted_between(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the transactions whose records a read_committed reader of this range skips."""
        found: list[AbortedTransaction] = []
        first = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self.segments[first:]:
            overlap = aborted.overlapping(segment.aborted(), offset, end_offset)
            found += overlap.transactions
            if overlap.complete:
                break
        return found

    def headers(self, start_offset: int, end_offset: int) -> Iterable[tuple[Segment, int, Header]]:
        """Yield segment, position and header of each batch with a record in this range."""
        for segment in self.segments:
            if segment.end_offset <= start_offset:
                continue
            begin = segment.find(start_offset)
            for position, header in segment.walk(begin[0] if begin else segment.size_bytes):
                if header.base_offset >= end_offset:
                    return
                yield segment, position, header
