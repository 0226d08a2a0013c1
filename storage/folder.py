"""A log folder: the logs in it, their common checkpoints, and whether its disk can be trusted.

Whoever opens it gets every log that can be opened; one that is damaged stays closed with its
reason, and the others serve. When the disk itself fails, all of the folder is offline, and only
this folder. It knows neither topics' settings nor replicas: settings are asked for, failures are
told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage import checkpoint
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import DamagedFile, DamagedLog, DiskFailed, StorageError
from storage.flusher import Flusher, FlushPolicy
from storage.log.config import LogConfig
from storage.log.flushing import close
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.recovery import Recovery, create_log, open_log

ConfigOf = Callable[[TopicPartition], LogConfig]


class LogFolder:
    """One of a broker's `log.dirs`."""

    def __init__(self, disk: Disk, path: str, cache: IndexCache, policy: FlushPolicy) -> None:
        self.disk = disk
        self.path = path
        self.cache = cache
        self.flusher = Flusher(disk, policy)
        self.marks = FolderMarks(disk, path)
        self.logs: dict[TopicPartition, Log] = {}
        self.closed: dict[TopicPartition, StorageError] = {}
        """Logs that could not be opened, and why."""
        self.warnings: list[str] = []
        """What was found on opening and put right."""
        self.failure: Exception | None = None
        """Why nothing here can be trusted, if so."""

    def open(self, config_of: ConfigOf) -> Job[None]:
        """Open every log that is here; after a crash, read what may be torn."""
        try:
            clean = yield self._prepare
            for name in self.disk.list(self.path):
                partition = TopicPartition.from_folder_name(name)
                if partition is not None:
                    yield from self._open(partition, config_of(partition), clean=clean)
                elif checkpoint.folder_mark(name) == "delete":
                    yield partial(self._remove, f"{self.path}/{name}")
            yield from self.marks.save()
        except OSError as error:
            self.fail(error)

    def _prepare(self) -> bool:
        """Read the checkpoints; return whether the last stop was clean, which counts once."""
        self.disk.make_folder(self.path)
        for file in self.marks.files:
            try:
                file.load()
            except DamagedFile as error:
                self.warnings.append(f"{error}; doing without it, at the price of a longer scan")
        marker = f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}"
        clean = self.disk.exists(marker) and not self.warnings
        self.disk.delete(marker)
        self.disk.fsync_folder(self.path)
        return clean

    def _open(self, partition: TopicPartition, config: LogConfig, *, clean: bool) -> Job[None]:
        folder = f"{self.path}/{partition.folder_name}"
        opening = partial(
            open_log,
            self.disk,
            self.cache,
            partition,
            folder,
            config,
            self.marks,
            clean=clean,
        )
        try:
            recovery: Recovery = yield opening
        except (DamagedLog, DamagedFile) as error:
            self.closed[partition] = error
            return
        self.logs[partition] = recovery.log
        if torn := recovery.torn:
            self.warnings.append(
                f"{torn.file}, byte {torn.position}, offset {torn.offset}: {torn.reason};"
                f" the last {torn.lost_bytes} bytes were not durable and are cut"
            )

    def create(self, partition: TopicPartition, config: LogConfig, start: int = 0) -> Job[Log]:
        """Make a new log here, durably."""
        folder = f"{self.path}/{partition.folder_name}"
        making = partial(
            create_log, self.disk, self.cache, partition, folder, config, self.marks, start
        )
        try:
            log: Log = yield making
        except OSError as error:
            raise self.failed(error) from error
        self.logs[partition] = log
        return log

    def delete(self, partition: TopicPartition) -> Job[None]:
        """Remove a log for good: it has no name any more before its files go."""
        log = self.logs.pop(partition, None)
        self.closed.pop(partition, None)
        if log is not None:
            self.flusher.forget(log)
        self.marks.forget(partition)
        folder = f"{self.path}/{partition.folder_name}"
        doomed = self._doomed_name(partition)
        try:
            self.disk.rename(folder, doomed)
            yield partial(self.disk.fsync_folder, self.path)
            yield from self.marks.save()
            yield partial(self._remove, doomed)
        except OSError as error:
            raise self.failed(error) from error

    def close(self, broker_epoch: int) -> Job[None]:
        """Stop in good order: the next start reads nothing again. Nothing is appended any more."""
        if self.failure is not None:
            return
        try:
            for log in self.logs.values():
                yield from close(log)
            yield from self.marks.save()
            marker = f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}"
            content = checkpoint.encode_clean_shutdown(broker_epoch)
            yield partial(jobs.run, checkpoint.replace(self.disk, marker, content))
        except (OSError, StorageError) as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Take the folder offline; the first reason stays."""
        self.failure = self.failure or error

    def failed(self, error: OSError) -> DiskFailed:
        """Take the folder offline for an error of its disk, and give that error a name."""
        failure = DiskFailed(f"{self.path}: {error}")
        self.fail(failure)
        return failure

    def _doomed_name(self, partition: TopicPartition) -> str:
        taken = set(self.disk.list(self.path))
        for number in range(len(taken) + 1):
            name = partition.marked_folder_name(f"{number:032x}", "delete")
            if name not in taken:
                break
        return f"{self.path}/{name}"

    def _remove(self, folder: str) -> None:
        """Delete a folder and the files in it. It blocks."""
        for name in self.disk.list(folder):
            self.disk.delete(f"{folder}/{name}")
        self.disk.delete_folder(folder)
