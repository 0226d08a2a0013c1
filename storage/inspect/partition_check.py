"""Verify one partition: its segments in order, and everything beside them as they are read.

How far files beside the batches are trusted follows `storage.log.recovery`: after a clean stop all
of them, after a crash those that belong to what lies before the snapshot from which it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from storage import checkpoint
from storage.batch import records
from storage.batch.header import Batch, Header
from storage.checkpoint import TopicPartition
from storage.disk.seam import Disk
from storage.errors import DamagedFile, InvalidBatch
from storage.inspect import layout
from storage.inspect.findings import Cut, Finding, Level, PartitionReport, SegmentFile
from storage.inspect.index_check import IndexCheck, OffsetIndexCheck, TimeIndexCheck
from storage.inspect.place import Known
from storage.inspect.segment_check import Limit, SegmentCheck
from storage.inspect.side_check import EpochCheck, ProducerCheck, read_aborted
from storage.log.leftovers import SWAP
from storage.log.producers import Producers
from storage.log.segment import ABORTED, INDEX, LOG, TIME_INDEX

_CUT: Final = "`hwmark log repair --truncate` cuts the log here and keeps what it removes"
_LATER: Final = "it is behind the first damage and goes with it"
_REBUILD: Final = "`hwmark log repair --truncate` sets it aside, and the next start makes it anew"
_BAD_RECORDS: Final = (
    "it came like this, and no repair cuts it: consumers fail here, DeleteRecords gets past it"
)


class PartitionCheck:
    """One partition, and what is known of it so far."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        partition: TopicPartition,
        known: Known,
        *,
        decode: bool = False,
    ) -> None:
        self._disk = disk
        self._decodes = decode
        self._clean = known.clean
        self._start = known.start(partition)
        self._point = known.recovery_point(partition)
        self._high_watermark = known.high_watermark(partition)
        found = layout.look(disk, folder, self._start)
        self._snapshots = dict(found.snapshots)
        self._orphans = found.orphans
        self._segments = found.segments
        self._first = self._segments[0].base_offset if self._segments else self._start or 0
        self._epochs = EpochCheck.load(disk, folder)
        self._begin, self._trusted_before = self._how_far_to_trust()
        self._producers = self._first_producers()
        self._expected = self._first
        self._torn: tuple[Cut, str] | None = None
        self._report = PartitionReport(
            partition,
            folder,
            start_offset=max(self._start or 0, self._first),
            end_offset=self._first,
            known_end=self._first,
            recovery_point=self._point,
            segments=self._segments,
            findings=found.findings,
            set_aside=found.set_aside,
        )

    def run(self, on_bytes: Callable[[int], None]) -> PartitionReport:
        """Read all of it."""
        self._check_beginning()
        epoch = 0
        for index, segment in enumerate(self._segments):
            end_offset = self._report.end_offset
            if index and segment.base_offset != end_offset and not self._is_behind:
                self._fault(index, 0, end_offset, _misplaced(segment, end_offset))
            if not self._is_behind:
                self._check_snapshot(segment.base_offset, here=True)
            epoch = self._read(index, segment, epoch, on_bytes)
        self._check_end()
        if self._epochs.reason is not None:
            self._rebuild(self._epochs.path, self._epochs.reason)
        for offset in sorted(self._snapshots):
            self._check_snapshot(offset, here=offset == self._report.end_offset)
        self._check_orphans()
        return self._report

    def _how_far_to_trust(self) -> tuple[int, int]:
        """Return where a recovery would begin to read, and where that segment begins."""
        if self._clean:
            return checkpoint.MAX_INT64, checkpoint.MAX_INT64
        if self._epochs.epochs is not None:
            for offset in sorted(self._snapshots, reverse=True):
                if self._first <= offset <= (self._point or 0) and self._is_used(offset):
                    bases = [each.base_offset for each in self._segments]
                    before = [base for base in bases if base <= offset]
                    return offset, before[-1] if before else self._first
        return self._first, self._first

    def _is_used(self, offset: int) -> bool:
        """Whether a recovery would go on from this snapshot: see `storage.log.replay`."""
        known = self._load(offset)
        if known is None:
            return False
        return offset <= (self._high_watermark or 0) or not known.has_seen_markers

    def _load(self, offset: int) -> Producers | None:
        """Read the snapshot at this offset; `None` if there is none that reads."""
        path = self._snapshots.get(offset)
        if path is None:
            return None
        try:
            return Producers.load(checkpoint.read_whole(self._disk, path), path)
        except DamagedFile:
            return None

    def _first_producers(self) -> ProducerCheck:
        """Begin with what was written down. Only who never lost a beginning knows everything."""
        complete = self._first == 0 and not self._start
        return ProducerCheck(self._load(self._first) or Producers(), complete=complete)

    def _trusts(self, base_offset: int) -> bool:
        return base_offset < self._trusted_before

    @property
    def _is_behind(self) -> bool:
        """Whether what is read now lies behind damage, or in what a crash has torn."""
        return self._report.cut is not None or self._torn is not None

    def _read(
        self, index: int, segment: SegmentFile, epoch: int, on_bytes: Callable[[int], None]
    ) -> int:
        """Read a segment and compare its indexes with it; return the epoch of its last batch."""
        report, behind = self._report, self._is_behind
        checks = [] if behind else self._index_checks(segment)
        self._producers.next_segment()
        check = SegmentCheck(
            self._disk,
            segment.path,
            segment.base_offset,
            self._limit(index),
            epoch,
            self._count_behind if behind else partial(self._visit, segment, checks),
            self._count_behind,
            on_bytes,
        )
        check.read()
        report.size_bytes += check.size_bytes
        for fault in check.faults:
            self._fault(index, *fault)
        if not behind:
            report.end_offset = check.end_offset
            if not check.faults:
                self._finish_indexes(segment, checks)
        report.known_end = max(report.known_end, check.end_offset)
        return check.epoch

    def _limit(self, index: int) -> Limit | None:
        if index + 1 < len(self._segments):
            return Limit(
                self._segments[index + 1].base_offset, "the next segment begins with", False
            )
        if self._clean and self._point is not None:
            return Limit(self._point, "the log was closed at", True)
        return None

    def _visit(
        self,
        segment: SegmentFile,
        checks: list[IndexCheck],
        position: int,
        header: Header,
        view: memoryview,
    ) -> None:
        self._producers.compacted |= (
            header.base_offset != self._expected or header.record_count <= header.last_offset_delta
        )
        self._producers.batch(header, view)
        self._expected = header.end_offset
        if self._trusts(segment.base_offset) and header.last_offset >= self._report.start_offset:
            self._epochs.batch(header, self._report.start_offset)
        for check in checks:
            check.batch(position, header)
        if self._decodes:
            self._decode(segment, position, header, view)
        self._report.batches += 1
        self._report.records += header.record_count

    def _count_behind(self, _position: int, header: Header, _view: memoryview) -> None:
        self._report.readable_batches += 1
        self._report.readable_records += header.record_count
        self._report.known_end = max(self._report.known_end, header.end_offset)

    def _decode(self, segment: SegmentFile, at: int, header: Header, view: memoryview) -> None:
        if header.size_bytes > records.MAX_RECORDS_BYTES:
            reason = f"a batch of {header.size_bytes:,} bytes"
            advice = "too large: its records were not looked at"
            self._find(Level.NOTE, segment.path, reason, advice, at, header.base_offset)
            return
        if len(view) < header.size_bytes:
            view = memoryview(self._disk.read(segment.path, at, header.size_bytes))
        try:
            for _ in records.decode(Batch(header, view)):
                pass
        except InvalidBatch as invalid:
            reason = f"the checksum fits the bytes, but they are no records: {invalid}"
            level, offset = Level.DAMAGE, header.base_offset
            self._find(level, segment.path, reason, _BAD_RECORDS, at, offset)

    def _index_checks(self, segment: SegmentFile) -> list[IndexCheck]:
        """Open those indexes of a segment that the next start would trust."""
        checks: list[IndexCheck] = []
        if segment.path.endswith(SWAP):
            return checks
        stem = segment.path.removesuffix(LOG)
        missing = []
        for suffix, kind in ((INDEX, OffsetIndexCheck), (TIME_INDEX, TimeIndexCheck)):
            if not self._disk.exists(stem + suffix):
                missing.append(suffix)
            elif self._trusts(segment.base_offset):
                checks.append(kind(self._disk, stem + suffix, segment.base_offset))
        if missing:
            reason = f"it has no {' and no '.join(missing)}"
            self._find(Level.NOTE, segment.path, reason, "the next start makes it anew")
        return checks

    def _finish_indexes(self, segment: SegmentFile, checks: list[IndexCheck]) -> None:
        for check in checks:
            check.end()
            if check.reason is not None:
                self._rebuild(check.path, check.reason, check.position)
        if segment.path.endswith(SWAP):
            return
        path = segment.path.removesuffix(LOG) + ABORTED
        base, limit = (
            segment.base_offset,
            None if self._trusts(segment.base_offset) else self._begin,
        )
        try:
            found = read_aborted(self._disk, path, limit)
            fault = self._producers.index_fault(found, base, self._report.end_offset, limit)
        except DamagedFile as damage:
            fault = damage.reason
        if fault is not None:
            self._rebuild(path, fault)
            # It is made anew only by a recovery that begins before it.
            for offset, snapshot in self._snapshots.items():
                if offset > base:
                    self._set_aside(snapshot)

    def _check_beginning(self) -> None:
        """The first offset must have a segment, unless nothing of the log was durable."""
        start, point = self._start or 0, self._point or 0
        if self._segments and self._start is not None and self._first > start:
            reason = f"the log begins with {start:,}, and no segment has it"
        elif not self._segments and point > start:
            reason = f"no segment is here, although everything up to {point:,} was durable"
        else:
            return
        self._report.end_offset = start
        self._fault(0, 0, start, reason)

    def _check_end(self) -> None:
        report, point = self._report, self._point or 0
        if not self._is_behind and max(report.end_offset, self._start or 0) < point:
            reason = f"the log ends here, although everything up to {point:,} was durable"
            last = len(self._segments) - 1
            self._fault(last, self._disk.size(self._segments[last].path), report.end_offset, reason)
        report.known_end = max(report.known_end, report.end_offset, point)
        if self._torn is not None:
            self._note_torn(*self._torn)
        mark = self._high_watermark
        if mark is not None and mark > report.end_offset:
            reason = f"the log ends here, and offsets up to {mark:,} were committed"
            advice = "the other replicas have them"
            self._find(Level.NOTE, report.folder, reason, advice, offset=report.end_offset)

    def _note_torn(self, cut: Cut, reason: str) -> None:
        sizes = [self._disk.size(each.path) for each in self._segments[cut.index :]]
        told = f"torn tail of {sum(sizes) - cut.position:,} bytes: {reason}"
        path, advice = self._segments[cut.index].path, "will be cut at the next start; no damage"
        self._find(Level.NOTE, path, told, advice, cut.position, cut.offset)

    def _check_snapshot(self, offset: int, *, here: bool) -> None:
        """Check a snapshot, once; `here`: it tells of what was read so far and nothing else."""
        path = self._snapshots.pop(offset, None)
        if path is None or not (self._clean or offset <= (self._point or 0)):
            return
        try:
            known = Producers.load(checkpoint.read_whole(self._disk, path), path)
        except DamagedFile as damage:
            # A crash while it is written again leaves it so, wherever the recovery point is.
            self._find(Level.NOTE, path, damage.reason, "it does not count: an older one is used")
            return
        if offset > self._report.known_end:
            self._rebuild(path, "the log ends before it")
        elif fault := self._producers.snapshot_fault(
            known, offset, here=here and not self._is_behind
        ):
            self._rebuild(path, fault)

    def _check_orphans(self) -> None:
        if not self._is_behind:
            for _, path in self._orphans:
                self._find(Level.NOTE, path, "its segment is not there", "nobody reads it")

    def _fault(self, index: int, position: int, offset: int, reason: str) -> None:
        """The log cannot go on here: damage, or torn by a crash if it may be."""
        cut = Cut(index, position, offset)
        path = self._segments[index].path if self._segments else self._report.folder
        if self._torn is not None:
            return
        if self._report.cut is not None:
            self._find(Level.DAMAGE, path, reason, _LATER, position, offset)
        elif self._may_be_torn(offset):
            self._torn = cut, reason
        else:
            self._report.cut = cut
            self._find(Level.DAMAGE, path, reason, _CUT, position, offset)

    def _may_be_torn(self, offset: int) -> bool:
        """Whether a log that ends here lacks nothing durable; below its start, nothing counts."""
        if self._clean or self._point is None:
            return False
        return max(offset, self._start or 0) >= self._point

    def _rebuild(self, path: str, reason: str, position: int | None = None) -> None:
        self._find(Level.REBUILDABLE, path, reason, _REBUILD, position)
        self._set_aside(path)

    def _set_aside(self, path: str) -> None:
        if path not in self._report.set_aside:
            self._report.set_aside.append(path)

    def _find(
        self,
        level: Level,
        file: str,
        reason: str,
        advice: str,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        finding = Finding(level, file, reason, advice, position, offset)
        self._report.findings.append(finding)


def _misplaced(segment: SegmentFile, expected: int) -> str:
    if segment.base_offset > expected:
        return f"no segment has offset {expected:,}"
    return f"this segment begins with {segment.base_offset:,}, where {expected:,} was to come"
