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
from storage.errors import DiskFailed, DiskFull, StorageError
from storage.flusher import FLUSH_NEVER, FlushPolicy
from storage.folder import ConfigOf, LogFolder
from storage.log.compaction import CompactionReport, compact
from storage.log.config import LogConfig
from storage.log.cutting import advance_start
from storage.log.index import IndexCache
from storage.log.log import Log
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
        offline: Callable[[TopicPartition, Exception], None] = lambda _partition, _error: None,
        start_moved: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None,
    ) -> None:
        if not paths or len(set(paths)) < len(paths):
            raise ValueError(f"log.dirs={','.join(paths)}: name one folder or more, each once")
        self.disk = disk
        self.cache = IndexCache(index_cache_bytes)
        self.folders = [LogFolder(disk, path, self.cache, policy) for path in paths]
        self._offline = offline
        self._start_moved = start_moved
        self._compacting: Log | None = None
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
        for folder in self.folders:
            if partition in folder.logs or partition in folder.closed:
                return folder
        return None

    def create(self, partition: TopicPartition, config: LogConfig, start: int = 0) -> Job[Log]:
        """Make a new log, in the working folder that has the fewest."""
        if self.folder_of(partition) is not None:
            raise StorageError(f"{partition.folder_name} is there already")
        working = [folder for folder in self.folders if not folder.failure]
        if not working:
            raise DiskFailed("no log folder works")
        folder = min(working, key=lambda each: len(each.logs) + len(each.closed))
        log: Log = yield from folder.create(partition, config, start)
        return log

    def delete(self, partition: TopicPartition) -> Job[None]:
        """Remove a log for good; it is no error if there is none."""
        folder = self.folder_of(partition)
        if folder is not None:
            yield from folder.delete(partition)

    def fail(self, folder: LogFolder, error: Exception) -> None:
        """A folder's disk did what it must not: its partitions go offline, the others serve."""
        if folder.failure is None:
            folder.fail(error)
            for partition in list(folder.logs):
                self._offline(partition, error)

    def close(self, broker_epoch: int) -> Job[None]:
        """Stop in good order."""
        for folder in self.folders:
            yield from folder.close(broker_epoch)

    def checkpoint(self) -> None:
        """Begin to make recovery points, starts and high watermarks durable."""
        for folder in self._working():
            jobs.start(self.disk, folder.marks.save(), partial(self._heed, folder))

    def tend(self, now_ms: int) -> None:
        """Begin what is due by now: retention, compaction of one log, flushes, old producers."""
        for folder in self._working():
            folder.flusher.tick(now_ms)
            for log in list(folder.logs.values()):
                log.producers.expire(now_ms, log.config.producer_expiry_ms)
                self._retain(folder, log, now_ms)
        self._compact_one(now_ms)

    def _retain(self, folder: LogFolder, log: Log, now_ms: int) -> None:
        start_offset = retained_from(log, now_ms, log.known_high_watermark)
        if start_offset <= log.start_offset or log.turns.busy:
            return

        def moved(result: Exception | None) -> None:
            self._heed(folder, result)
            if result is None:
                self._start_moved(log.partition, log.start_offset)

        log.turns.put(advance_start(log, start_offset), moved)

    def _compact_one(self, now_ms: int) -> None:
        """Compact one log after another, and one at a time: it takes memory and a core."""
        if self._compacting is not None:
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
            self._compacting, self._worked = log, False
            compact(log, now_ms, log.known_high_watermark, partial(self._compacted, folder, log))
            if self._compacting is not None or self._worked:
                return

    def _compacted(
        self, folder: LogFolder, log: Log, result: CompactionReport | Exception | None
    ) -> None:
        self._compacting = None
        if result is not None:
            self._worked, self._last_compacted = True, log.partition
        self._heed(folder, result if isinstance(result, Exception) else None)

    def _heed(self, folder: LogFolder, result: Exception | None) -> None:
        """A full disk passes; any other failure of it does not."""
        if result is not None and not isinstance(result, DiskFull):
            self.fail(folder, result)

    def _working(self) -> list[LogFolder]:
        return [folder for folder in self.folders if not folder.failure]
