"""Make a log durable: its bytes, its indexes, its names and what is remembered of it.

When the job is done, everything that was in the log when it began survives a power failure, and
the recovery point says so: a scan after a crash begins there. The recovery point itself becomes
durable with the folder's next checkpoint; an older one only makes the scan longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from storage import checkpoint
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import DiskFailed, DiskFull
from storage.log.epochs import LEADER_EPOCHS
from storage.log.log import NO_ROOM, Log


def flush(log: Log) -> Job[int]:
    """Make the log durable; return the offset up to which it is. Takes a turn of the log."""
    end_offset, records = log.end_offset, log.unflushed_records
    if end_offset == log.recovery_point and not (log.unsynced_files or log.epochs.dirty):
        return end_offset
    try:
        yield from _flush(log)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(f"{log.folder}: {error}") from error
        raise DiskFailed(f"{log.folder}: {error}") from error
    log.unflushed_records -= records
    points = log.marks.recovery_points.values
    points[log.partition] = max(points.get(log.partition, 0), end_offset)
    return end_offset


def close(log: Log) -> Job[None]:
    """Leave everything as the next start wants it: nothing to scan, no state to rebuild."""
    log.note_changes(log.active.seal())
    log.write_snapshot()
    yield from flush(log)


def _flush(log: Log) -> Job[None]:
    log.note_changes(log.active.save_indexes())
    generation, epochs = log.epochs.generation, log.epochs.encode() if log.epochs.dirty else None
    files, log.unsynced_files = log.unsynced_files, set()
    names, log.unsynced_names = log.unsynced_names, False
    try:
        yield partial(sync, log.disk, log.folder, sorted(files), names=names)
        if epochs is not None:
            path = f"{log.folder}/{LEADER_EPOCHS}"
            yield partial(jobs.run, checkpoint.replace(log.disk, path, epochs))
    except OSError:
        log.unsynced_files |= files
        log.unsynced_names |= names
        raise
    log.epochs.saved(generation)


def sync(disk: Disk, folder: str, files: Iterable[str], *, names: bool) -> None:
    """Make files durable, and the names in their folder too if they changed. It blocks."""
    for path in files:
        disk.fsync(path)
    if names:
        disk.fsync_folder(folder)
