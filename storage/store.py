"""All log folders of a broker as one place for logs: where a new one goes, and what is offline.

It spreads logs over the folders that work, keeps the housekeeping going (checkpoints, retention,
compaction, old producers) when it is told the time, and says which partitions are lost with a
folder. It is the broker's to decide what becomes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import NO_ROOM, DamagedLog, DiskFailed, DiskFull, StorageError
from storage.flusher import FLUSH_NEVER, FlushPolicy
from storage.folder import ConfigOf, LogFolder, NewLog, Offline, nobody_is_told
from storage.log.compaction import CompactionReport, compact
from storage.log.cutting import advance_start, has_needless
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.rewriting import SegmentTooLarge
from storage.retention import retained_from


class LogStore:
    """The logs of one broker."""

    def __init__(
        self,
        disk: Disk,
        paths: Sequence[str],
        *,
        policy: FlushPolicy = FLUSH_NEVER,
        index_cache_bytes: int = 64 * 1024 * 1024,
        offline: Offline = nobody_is_told,
        start_moved: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None,
    ) -> None:
        if not paths or len(set(paths)) < len(paths):
            raise ValueError(f"log.dirs={','.join(paths)}: name one folder or more, each once")
        self.disk = disk
        self.cache = IndexCache(index_cache_bytes)
        self.folders = [LogFolder(disk, path, self.cache, policy, offline) for path in paths]
        self._start_moved = start_moved
        self._is_compacting = False
        self._worked = False
        """Whether the last compaction that was begun found something to do and is over."""
        self._last_compacted: TopicPartition | None = None

    def open(self, config_of: ConfigOf) -> Job[None]:
        """Open all folders. One that fails is offline; without any there is no store."""
        for folder in self.folders:
            yield from folder.open(config_of)
        self._refuse_twins()
        if all(folder.failure for folder in self.folders):
            reasons = "; ".join(str(folder.failure) for folder in self.folders)
            raise DiskFailed(f"no log folder works: {reasons}")

    def _refuse_twins(self) -> None:
        """A partition that is in two folders is in neither: nobody knows which one is right."""
        seen: dict[TopicPartition, LogFolder] = {}
        for folder in self.folders:
            for partition in sorted({*folder.logs, *folder.closed}):
                other = seen.setdefault(partition, folder)
                if other is folder:
                    continue
                error = DiskFailed(f"{partition.folder_name} is in {other.path} and {folder.path}")
                for each in (other, folder):
                    each.logs.pop(partition, None)
                    each.closed[partition] = error

    def log(self, partition: TopicPartition) -> Log | None:
        """Return an open log."""
        folder = self.folder_of(partition)
        return folder.logs.get(partition) if folder and not folder.failure else None

    def folder_of(self, partition: TopicPartition) -> LogFolder | None:
        """Return the folder that has a log, open or not."""
        return next((folder for folder in self.folders if partition in folder), None)

    def create(self, *wanted: NewLog) -> Job[list[Log]]:
        """Make new logs, each in the working folder that has the fewest then."""
        working = [folder for folder in self.folders if not folder.failure]
        if not working:
            raise DiskFailed("no log folder works")
        for partition, *_ in wanted:
            if self.folder_of(partition) is not None:
                raise StorageError(f"{partition.folder_name} is there already")
        shares: dict[LogFolder, list[NewLog]] = {folder: [] for folder in working}
        for each in wanted:
            emptiest = min(working, key=lambda folder: folder.log_count + len(shares[folder]))
            shares[emptiest].append(each)
        made: dict[TopicPartition, Log] = {}
        for folder, share in shares.items():
            if share:
                logs: list[Log] = yield from folder.create(share)
                made.update((log.partition, log) for log in logs)
        return [made[each.partition] for each in wanted]

    def delete(self, partition: TopicPartition, done: Callable[[Exception | None], None]) -> None:
        """Remove a log for good; it is no error if there is none."""
        folder = self.folder_of(partition)
        if folder is None:
            done(None)
        else:
            folder.delete(partition, done)

    def fail(self, partition: TopicPartition, error: Exception) -> None:
        """Hear from a replica that went offline: a disk that failed takes its whole folder."""
        folder = self.folder_of(partition)
        if folder is not None and isinstance(error, DamagedLog):
            folder.close_damaged(partition, error)
        elif folder is not None and not is_passing(error):
            folder.fail(error)

    def close(self, broker_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Stop in good order, one folder after another. Nothing is appended any more."""
        left = list(self.folders)

        def close_next(result: Exception | None) -> None:
            if left and result is None:
                left.pop(0).close(broker_epoch, close_next)
            else:
                done(result)

        close_next(None)

    def checkpoint(self) -> None:
        """Begin to make recovery points, starts and high watermarks durable."""
        for folder in self._working():
            jobs.start(self.disk, folder.marks.save(), partial(self._heed, folder, None))

    def tend(self, now_ms: int) -> None:
        """Begin what is due by now: retention, compaction of one log, flushes, old producers."""
        for folder in self._working():
            folder.flusher.tick(now_ms)
            for log in list(folder.logs.values()):
                log.producers.expire(now_ms, log.config.producer_expiry_ms)
                if log.recovery_point < log.active.base_offset:
                    # As Kafka does after a roll: a start after a crash then reads one segment, and
                    # compaction, which takes nothing but what is durable, gets something to do.
                    folder.flusher.flush(log)
                self._retain(folder, log, now_ms)
        self._compact_one(now_ms)

    def _retain(self, folder: LogFolder, log: Log, now_ms: int) -> None:
        start_offset = retained_from(log, now_ms, log.known_high_watermark)
        if log.turns.busy or not (start_offset > log.start_offset or has_needless(log)):
            return

        def moved(result: Exception | None) -> None:
            self._heed(folder, log, result)
            if result is None:
                self._start_moved(log.partition, log.start_offset)

        log.turns.put(advance_start(log, start_offset), moved)

    def _compact_one(self, now_ms: int) -> None:
        """Compact one log after another, and one at a time: it takes memory and a core."""
        if self._is_compacting:
            return
        logs = [
            (folder, log)
            for folder in self._working()
            for log in folder.logs.values()
            if log.config.compact
        ]
        # Whoever came after the last one in order is next, so that none waits for ever.
        last = self._last_compacted
        logs.sort(
            key=lambda pair: (last is not None and pair[1].partition <= last, pair[1].partition)
        )
        for folder, log in logs:
            self._is_compacting, self._worked = True, False
            compact(log, now_ms, log.known_high_watermark, partial(self._compacted, folder, log))
            if self._is_compacting or self._worked:
                return

    def _compacted(
        self, folder: LogFolder, log: Log, result: CompactionReport | Exception | None
    ) -> None:
        self._is_compacting = False
        if result is not None:
            self._worked, self._last_compacted = True, log.partition
        self._heed(folder, log, result if isinstance(result, Exception) else None)

    def _heed(self, folder: LogFolder, log: Log | None, result: Exception | None) -> None:
        """A full disk passes, and damage is one log's; any other failure is the folder's."""
        if log is not None and isinstance(result, DamagedLog):
            folder.close_damaged(log.partition, result)
        elif result is not None and not is_passing(result):
            folder.fail(result)

    def _working(self) -> list[LogFolder]:
        return [folder for folder in self.folders if not folder.failure]


def is_passing(error: Exception) -> bool:
    """Whether the same may succeed later, or for another log, on this very disk."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return isinstance(error, DiskFull | SegmentTooLarge)
