"""Take away from a log: its end (truncation), its beginning (retention), or all of it (reset).

The order of the steps is what makes them safe at any crash. Before anything durable goes away at
the end, the recovery point is lowered, durably: else the next start would miss what was cut and
call it damage. Before anything goes away at the beginning, the new start is durable: else the next
start would find a gap. A cut is durable before its job is done, so that what follows never mixes
with what was.
"""

from __future__ import annotations

from functools import partial

from storage.checkpoint import TopicPartition
from storage.disk.jobs import Job
from storage.errors import DiskFailed, disk_error
from storage.log.flushing import sync
from storage.log.log import Log
from storage.log.marks import OffsetFile
from storage.log.replay import recall_producers, snapshots_of
from storage.log.segment import Segment


def truncate(log: Log, end_offset: int) -> Job[None]:
    """Cut the log so that it ends at `end_offset`, or before the batch that contains it."""
    yield from _naming_errors(log, _truncate(log, end_offset))


def reset(log: Log, start_offset: int) -> Job[None]:
    """Drop everything and begin anew, empty, at this offset."""
    yield from _naming_errors(log, _reset(log, start_offset))


def advance_start(log: Log, start_offset: int) -> Job[None]:
    """Begin the log at this offset, at most its end; delete the segments that are not needed."""
    yield from _naming_errors(log, _advance_start(log, start_offset))


def has_needless(log: Log) -> bool:
    """Whether a segment lies before the start: a full disk may have kept it from being deleted."""
    first = log.segments[0]
    return first.size_bytes > 0 and first.end_offset <= log.start_offset


def _naming_errors(log: Log, job: Job[None]) -> Job[None]:
    try:
        yield from job
    except OSError as error:
        raise disk_error(error, log.folder) from error


def _truncate(log: Log, end_offset: int) -> Job[None]:
    if end_offset >= log.end_offset:
        return
    kept_end = log.segment_of(end_offset).end_before(end_offset)
    if end_offset < log.segments[0].base_offset or kept_end < log.start_offset:
        yield from _reset(log, min(end_offset, log.start_offset))
        return
    log.cutting = True
    log.cuts += 1
    try:
        yield from _lower_marks(log, kept_end)
        while len(log.segments) > 1 and log.active.base_offset >= end_offset:
            _drop(log, log.segments.pop())
        log.active.cut(end_offset)
        log.segments_changed()
        log.epochs.truncate_from_end(log.end_offset)
        _drop_snapshots(log, above=log.end_offset)
        yield from _sync(log)
        yield from recall_producers(log)
    finally:
        log.cutting = False


def _reset(log: Log, start_offset: int) -> Job[None]:
    log.cutting = True
    log.cuts += 1
    try:
        yield from _lower_marks(log, 0)
        yield from _move_start(log, start_offset)
        _drop_snapshots(log, above=-1)
        for segment in log.segments:
            _drop(log, segment)
        # The old names are gone for good before a new segment may take one of them.
        yield partial(log.disk.fsync_folder, log.folder)
        log.segments = [log.new_segment(start_offset)]
        log.active.create()
        log.segments_changed()
        log.epochs.truncate_from_end(0)
        log.producers = log.fresh_producers()
        yield from _sync(log)
    finally:
        log.cutting = False


def _advance_start(log: Log, start_offset: int) -> Job[None]:
    if start_offset > log.start_offset:
        yield from _move_start(log, min(start_offset, log.end_offset))
    elif not has_needless(log):
        return
    if log.active.size_bytes and log.end_offset <= log.start_offset:
        log.roll()
    while len(log.segments) > 1 and log.segments[0].end_offset <= log.start_offset:
        _drop(log, log.segments.pop(0))
    log.segments_changed()
    log.epochs.truncate_from_start(log.start_offset)
    _drop_snapshots(log, below=log.segments[0].base_offset)


def _move_start(log: Log, start_offset: int) -> Job[None]:
    yield from _save(log.marks.log_starts, log.partition, start_offset)
    log.start_offset = start_offset


def _lower_marks(log: Log, offset: int) -> Job[None]:
    """What was durable, or cleaned, up to a later offset, is so up to this one."""
    for file in (log.marks.cleaned, log.marks.recovery_points):
        if file.values.get(log.partition, 0) > offset:
            yield from _save(file, log.partition, offset)


def _save(file: OffsetFile, partition: TopicPartition, offset: int) -> Job[None]:
    """Change a mark durably, or not at all: whoever tries again must not find it changed."""
    before = file.values.get(partition, 0)
    file.values[partition] = offset
    try:
        yield from file.save()
    except OSError:
        file.values[partition] = before
        raise


def _drop(log: Log, segment: Segment) -> None:
    segment.delete()
    log.unsynced_files.difference_update(segment.files)
    log.unsynced_names = True


def _drop_snapshots(log: Log, *, above: int | None = None, below: int = 0) -> None:
    for offset, path in snapshots_of(log):
        if offset < below or (above is not None and offset > above):
            log.disk.delete(path)
            log.unsynced_files.discard(path)
            log.unsynced_names = True


def _sync(log: Log) -> Job[None]:
    """Make the last segment and all names durable: what was cut stays cut."""
    files = [path for path in log.active.files if log.disk.exists(path)]
    log.unsynced_names = False
    try:
        yield partial(sync, log.disk, log.folder, files, names=True)
    except OSError as error:
        # Not even for want of room: after a failed fsync, nobody knows what another one covers.
        raise DiskFailed(f"{log.folder}: {error}") from error
    log.unsynced_files.difference_update(files)
