"""Open a log: after a clean stop from what was written down, after a crash by reading it again.

Everything before the recovery point was durable. If it is not there or not as it was, that is
damage: `DamagedLog`, nothing is touched, and the partition stays offline. What comes after may be
torn anywhere, because any of its sectors may be lost; it is read batch by batch and ends before the
first that is not whole. Opening twice gives the same log, also when the first time was cut short.
"""

from __future__ import annotations

from typing import Final

import attrs

from storage import checkpoint
from storage.batch.header import Batch, Header
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.seam import Disk
from storage.errors import DamagedFile, DamagedLog, InvalidBatch
from storage.log.config import LogConfig
from storage.log.epochs import LEADER_EPOCHS, Epochs
from storage.log.flushing import flush, sync
from storage.log.index import IndexCache
from storage.log.leftovers import tidy
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.replay import newest_snapshot, recall_producers, snapshots_of
from storage.log.scan import Fault, scan
from storage.log.segment import Segment

_NEVER: Final = 2**63 - 1


@attrs.frozen
class TornTail:
    """What was not whole at the end of a log, and is gone."""

    file: str
    position: int
    offset: int
    reason: str
    lost_bytes: int


@attrs.define
class Recovery:
    """An open log and what it took to open it."""

    log: Log
    scanned_bytes: int = 0
    torn: TornTail | None = None


def create_log(
    disk: Disk,
    cache: IndexCache,
    partition: TopicPartition,
    folder: str,
    config: LogConfig,
    marks: FolderMarks,
    start_offset: int = 0,
) -> Log:
    """Make a new, empty log, durably. It blocks."""
    disk.make_folder(folder)
    disk.fsync_folder(folder.rpartition("/")[0])
    log = Log(disk, cache, partition, folder, config, marks)
    # First of all nothing is durable: a log of this name may have been here before.
    marks.recovery_points.values[partition] = 0
    jobs.run(marks.recovery_points.save())
    marks.log_starts.values[partition] = start_offset
    jobs.run(marks.log_starts.save())
    _begin_at(log, start_offset)
    return log


def open_log(
    disk: Disk,
    cache: IndexCache,
    partition: TopicPartition,
    folder: str,
    config: LogConfig,
    marks: FolderMarks,
    *,
    clean: bool,
) -> Recovery:
    """Open the log in a folder; `clean`: the broker that wrote it closed it. It blocks."""
    log = Log(disk, cache, partition, folder, config, marks)
    recovery = Recovery(log)
    bases = tidy(log)
    start_offset = marks.log_starts.values.get(partition)
    needless = []
    while len(bases) > 1 and start_offset is not None and bases[1] <= start_offset:
        needless.append(log.new_segment(bases.pop(0)))
    _check_beginning(log, bases, start_offset)
    if bases and start_offset is not None and bases[0] > start_offset:
        bases = _drop_after_hole(recovery, bases, start_offset)
    log.start_offset = max(start_offset or 0, bases[0] if bases else 0)
    if not bases:
        _begin_at(log, log.start_offset)
        return recovery
    log.segments = [log.new_segment(base) for base in bases]
    log.segments_changed()
    if not (clean and _open_unread(log)):
        _read_again(recovery)
    if log.end_offset < log.start_offset:
        log.segments.pop().delete()
        _begin_at(log, log.start_offset)
    log.epochs.truncate_from_start(log.start_offset)
    # At last: of a log that turns out to be damaged, nothing is deleted.
    for segment in needless:
        segment.delete()
    return recovery


def _begin_at(log: Log, start_offset: int) -> None:
    """Give a log that has nothing left its first segment, durably."""
    log.start_offset = start_offset
    log.epochs, log.producers = Epochs(), log.fresh_producers()
    _keep_snapshots(log, -1)
    log.disk.delete(f"{log.folder}/{LEADER_EPOCHS}")
    log.segments = [log.new_segment(start_offset)]
    log.active.create()
    log.segments_changed()
    sync(log.disk, log.folder, log.active.files[:3], names=True)


def _check_beginning(log: Log, bases: list[int], start_offset: int | None) -> None:
    """Damage if the first segment is not there, although what it had was durable."""
    point = log.recovery_point
    begin = bases[0] if bases else _NEVER
    if start_offset is not None and begin > start_offset and point > start_offset:
        raise DamagedLog(
            log.folder,
            0,
            start_offset,
            f"no segment has this offset, although everything up to {point} was durable",
        )


def _drop_after_hole(recovery: Recovery, bases: list[int], start_offset: int) -> list[int]:
    """What the log began with was not durable yet: nothing that comes after it may stay."""
    log = recovery.log
    segments = [log.new_segment(base) for base in bases]
    lost = sum(log.disk.size(segment.path()) for segment in segments)
    reason = f"no segment has offset {start_offset}"
    recovery.torn = TornTail(segments[0].path(), 0, start_offset, reason, lost)
    for segment in reversed(segments):
        segment.delete()
    return []


def _open_unread(log: Log) -> bool:
    """Take everything as it was written down; `False` if something of it is missing."""
    epochs = _load_epochs(log)
    if epochs is None or not all(_trust(segment, log.disk) for segment in log.segments):
        return False
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        segment.end_offset = following.base_offset
    log.active.settle()
    log.epochs = epochs
    jobs.run(recall_producers(log))
    if _was_durable(log, log.end_offset):
        raise _too_short(log)
    return True


def _trust(segment: Segment, disk: Disk) -> bool:
    """Take a segment's files as they are, if its indexes can belong to it."""
    if not (disk.exists(segment.offsets.path) and disk.exists(segment.times.path)):
        return False
    sizes = [disk.size(path) for path in segment.files[:3]]
    segment.trust(*sizes)
    last, newest = segment.offsets.last, segment.times.last
    if newest is not None and min(newest) < 0:
        return False
    return last is None or (last[0] >= 0 and 0 < last[1] < segment.size_bytes)


def _load_epochs(log: Log) -> Epochs | None:
    path = f"{log.folder}/{LEADER_EPOCHS}"
    if not log.disk.exists(path):
        return None if log.recovery_point > log.start_offset else Epochs()
    try:
        return Epochs.decode(checkpoint.read_whole(log.disk, path), path)
    except DamagedFile:
        return None


def _read_again(recovery: Recovery) -> None:
    """Scan what may be torn, cut it where it is, and make the rest durable."""
    log = recovery.log
    point = log.recovery_point
    begin = _recall_until(log, point)
    scanned = []
    expected = log.segments[0].base_offset
    for index, segment in enumerate(log.segments):
        if segment.base_offset != expected:
            _cut(recovery, index, Fault(0, expected, f"no segment has offset {expected}"))
            break
        following = log.segments[index + 1] if index + 1 < len(log.segments) else None
        if following is not None and following.base_offset <= begin and _trust(segment, log.disk):
            segment.settle()
        else:
            scanned.append(segment)
            if fault := _scan(recovery, segment, begin):
                _cut(recovery, index, fault)
                break
        expected = segment.end_offset
    if _was_durable(log, log.end_offset):
        raise _too_short(log)
    for segment in log.segments:
        if segment in scanned and segment is not log.active and segment.end_offset <= begin:
            # The next start takes what it finds here as it is, also after a crash right now.
            segment.replace_indexes()
        elif segment in scanned:
            segment.renew_indexes(begin)
        if segment is log.active:
            segment.save_indexes()
        else:
            segment.seal()
        log.note_changes(path for path in segment.files if log.disk.exists(path))
    _keep_snapshots(log, log.end_offset)
    jobs.run(flush(log))


def _keep_snapshots(log: Log, end_offset: int) -> None:
    """Make the snapshots of this log durable, too, and remove those of a tail that is gone."""
    for offset, path in snapshots_of(log):
        if offset > end_offset:
            log.disk.delete(path)
        else:
            log.note_changes((path,))


def _recall_until(log: Log, point: int) -> int:
    """Take epochs and producers from the newest snapshot before `point`; return its offset.

    Without a snapshot or without epochs, everything is read: return where the log begins.
    """
    first = log.segments[0].base_offset
    known = newest_snapshot(log, point)
    epochs = _load_epochs(log)
    if known is None or epochs is None:
        log.epochs, log.producers = Epochs(), log.fresh_producers()
        return first
    begin, log.producers = known
    epochs.truncate_from_end(log.segment_of(begin).base_offset)
    log.epochs = epochs
    return begin


def _scan(recovery: Recovery, segment: Segment, begin: int) -> Fault | None:
    """Read a whole segment and index it anew, in memory; what is before `begin` is known."""
    log = recovery.log
    segment.forget_indexes()
    epochs = log.epochs.entries
    first_epoch = epochs[-1][0] if epochs and epochs[-1][1] < segment.base_offset else 0
    unknown_from = log.segment_of(begin).base_offset

    def visit(position: int, header: Header, view: memoryview) -> None:
        if header.producer_id >= 0 and header.base_offset >= begin:
            log.observe(segment, Batch(header, view))
        segment.note(header, position)
        if header.base_offset >= unknown_from:
            log.epochs.assign(header.leader_epoch, header.base_offset)

    size = log.disk.size(segment.path())
    base = segment.base_offset
    later = [each.base_offset for each in log.segments if each.base_offset > base]
    limit = min(later) if later else None
    try:
        fault = scan(log.disk, segment.path(), 0, size, base, first_epoch, visit, limit)
    except InvalidBatch as error:
        fault = Fault(segment.size_bytes, segment.end_offset, error.reason)
    recovery.scanned_bytes += segment.size_bytes
    return fault


def _cut(recovery: Recovery, index: int, fault: Fault) -> None:
    """End the log before a fault, in the segment of this index; damage if that was durable."""
    log = recovery.log
    segment = log.segments[index]
    if _was_durable(log, fault.offset):
        raise DamagedLog(segment.path(), fault.position, fault.offset, fault.reason)
    sizes = [log.disk.size(each.path()) for each in log.segments[index:]]
    lost = sum(sizes) - fault.position
    recovery.torn = TornTail(segment.path(), *fault, lost)
    # From the end, so that a crash in between leaves a log with a shorter tail, not with a gap.
    keep = index + 1 if fault.position or not index else index
    while len(log.segments) > keep:
        log.segments.pop().delete()
    if len(log.segments) > index:
        log.disk.truncate(segment.path(), fault.position)
    log.segments_changed()


def _was_durable(log: Log, end_offset: int) -> bool:
    """Whether a log that ends here lacks something durable. Below its start, nothing is missed."""
    return max(end_offset, log.start_offset) < log.recovery_point


def _too_short(log: Log) -> DamagedLog:
    return DamagedLog(
        log.active.path(),
        log.active.size_bytes,
        log.end_offset,
        f"the log ends here, although everything up to {log.recovery_point} was durable",
    )
