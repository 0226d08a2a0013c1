"""Make a log durable: its bytes, its indexes, its names and what is remembered of it.

When a flush is done, everything that was in the log when it began survives a power failure, and the
recovery point says so: a scan after a crash begins there. The recovery point itself becomes durable
with the folder's next checkpoint; an older one only makes the scan longer. A log has one flush at a
time. It needs no turn: if the log is cut meanwhile, the recovery point stays where the cut put it.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from storage import checkpoint
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import NO_ROOM, DiskFailed, StorageError
from storage.log.epochs import LEADER_EPOCHS
from storage.log.log import Log


def flush(log: Log) -> Job[int]:
    """Make the log durable; return the offset up to which it is."""
    begun = begin(log)
    try:
        yield begun.run
    except OSError as error:
        raise begun.fail(error) from error
    begun.finish()
    return begun.end_offset


def close(log: Log) -> Job[None]:
    """Leave everything as the next start wants it: nothing to scan, no state to rebuild."""
    log.note_changes(log.active.seal())
    log.write_snapshot()
    yield from flush(log)


@attrs.define
class Flush:
    """What one flush covers. It is begun and ended on the loop, and run where it may block.

    On a full disk, batches are made durable although indexes or epochs cannot be written. Then the
    recovery point stays, so that the next start makes both again from the batches.
    """

    log: Log
    end_offset: int
    records: int
    cuts: int
    generation: int
    epochs: bytes | None
    files: set[str]
    names: bool
    is_complete: bool

    def run(self) -> None:
        """Make it durable. It blocks."""
        sync(self.log.disk, self.log.folder, sorted(self.files), names=self.names)
        if self.epochs is None:
            return
        path = f"{self.log.folder}/{LEADER_EPOCHS}"
        try:
            jobs.run(checkpoint.replace(self.log.disk, path, self.epochs))
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.is_complete = False

    def finish(self) -> None:
        """The batches are durable."""
        log = self.log
        if self.cuts != log.cuts:
            return
        log.unflushed_records -= self.records
        if self.is_complete:
            log.epochs.saved(self.generation)
            points = log.marks.recovery_points.values
            points[log.partition] = max(points.get(log.partition, 0), self.end_offset)

    def fail(self, error: OSError) -> StorageError:
        """They are not; say what that means.

        Never `DiskFull`: after a failed fsync the system may call what it lost clean, so that
        another fsync would succeed without having written it.
        """
        self.log.unsynced_files |= self.files
        self.log.unsynced_names |= self.names
        return DiskFailed(f"{self.log.folder}: {error}")


def begin(log: Log) -> Flush:
    """Take note of everything that is not durable yet."""
    begun = Flush(
        log,
        log.end_offset,
        log.unflushed_records,
        log.cuts,
        log.epochs.generation,
        log.epochs.encode() if log.epochs.dirty else None,
        set(),
        names=True,
        is_complete=log.save_indexes(),
    )
    begun.files, log.unsynced_files = log.unsynced_files, set()
    begun.names, log.unsynced_names = log.unsynced_names, False
    return begun


def sync(disk: Disk, folder: str, files: Iterable[str], *, names: bool) -> None:
    """Make files durable, and the names in their folder too if they changed. It blocks.

    A file that is gone was deleted meanwhile: nobody needs it to be durable.
    """
    for path in files:
        try:
            disk.fsync(path)
        except FileNotFoundError:
            continue
    if names:
        disk.fsync_folder(folder)
