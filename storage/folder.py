"""A log folder: the logs in it, their common checkpoints, and whether its disk can be trusted.

Whoever opens it gets every log that can be opened; one that is damaged stays closed with its
reason, and the others serve. When the disk itself fails, all of the folder is offline, and only
this folder. It knows neither topics' settings nor replicas: settings are asked for, failures are
told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from storage import checkpoint
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import DamagedFile, DamagedLog, DiskFull, StorageError, disk_error
from storage.flusher import Flusher, FlushPolicy
from storage.log.config import LogConfig
from storage.log.flushing import close
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.recovery import Recovery, open_log

ConfigOf = Callable[[TopicPartition], LogConfig]
Offline = Callable[[TopicPartition, Exception], None]


def nobody_is_told(partition: TopicPartition, error: Exception) -> None:
    """Whoever looks at a folder's `failure` needs no call."""


class NewLog(NamedTuple):
    """A log that is to be made."""

    partition: TopicPartition
    config: LogConfig
    start_offset: int = 0


def _nothing() -> None:
    pass


class LogFolder:
    """One of a broker's `log.dirs`."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        cache: IndexCache,
        policy: FlushPolicy,
        offline: Offline = nobody_is_told,
    ) -> None:
        self.disk = disk
        self.path = path
        self.cache = cache
        self.flusher = Flusher(disk, policy, self.fail)
        self._offline = offline
        self.marks = FolderMarks(disk, path)
        self.logs: dict[TopicPartition, Log] = {}
        self.making: set[TopicPartition] = set()
        """Logs that are not there yet, but will be."""
        self.closed: dict[TopicPartition, StorageError] = {}
        """Logs that could not be opened, and why."""
        self.warnings: list[str] = []
        """What was found on opening and put right."""
        self.stopped_epoch: int | None = None
        """The broker epoch that stopped in good order before this start, if one did."""
        self.failure: Exception | None = None
        """Why nothing here can be trusted, if so."""
        self._unlock: Callable[[], None] = _nothing

    def open(self, config_of: ConfigOf) -> Job[None]:
        """Open every log that is here; after a crash, read what may be torn."""
        try:
            clean = yield self._prepare
            for name in self.disk.list(self.path):
                partition = TopicPartition.from_folder_name(name)
                if not self.disk.is_folder(f"{self.path}/{name}"):
                    continue
                if partition is not None:
                    yield from self._open(partition, config_of(partition), clean=clean)
                elif checkpoint.folder_mark(name) == "delete":
                    yield partial(self._remove, f"{self.path}/{name}")
            self._forget_strangers()
            yield from self.marks.save()
        except OSError as error:
            self.fail(disk_error(error, self.path))
        except StorageError as error:
            self.fail(error)

    def _forget_strangers(self) -> None:
        """A log that was deleted just before a crash may still be in the checkpoints."""
        for partition in {each for file in self.marks.files for each in file.values}:
            if partition not in self:
                self.marks.forget(partition)

    def _prepare(self) -> bool:
        """Read the checkpoints; return whether the last stop was clean, which counts once."""
        self.disk.make_folder(self.path)
        self.disk.fsync_folder(str(PurePosixPath(self.path).parent))
        self._unlock = self.disk.lock_folder(self.path)
        # A name that a killed process left is durable before anybody acts on what it says.
        self.disk.fsync_folder(self.path)
        for file in self.marks.files:
            try:
                file.load()
            except DamagedFile as error:
                self.warnings.append(f"{error}; doing without it, at the price of a longer scan")
        marker = f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}"
        if self.disk.exists(marker):
            try:
                content = checkpoint.read_whole(self.disk, marker)
                self.stopped_epoch = checkpoint.decode_clean_shutdown(content, marker)
            except DamagedFile as error:
                self.warnings.append(f"{error}; the logs are read again as after a crash")
        self.disk.delete(marker)
        self.disk.fsync_folder(self.path)
        return self.stopped_epoch is not None and not self.warnings

    def _open(self, partition: TopicPartition, config: LogConfig, *, clean: bool) -> Job[None]:
        try:
            recovery: Recovery = yield partial(self._recover, partition, config, clean=clean)
        except (DamagedLog, DamagedFile) as error:
            self.closed[partition] = error
            return
        self.logs[partition] = recovery.log
        if torn := recovery.torn:
            self.warnings.append(
                f"{torn.file}, byte {torn.position}, offset {torn.offset}: {torn.reason};"
                f" the last {torn.lost_bytes} bytes were not durable and are cut"
            )

    def _recover(self, partition: TopicPartition, config: LogConfig, *, clean: bool) -> Recovery:
        path = self._path_of(partition)
        return open_log(self.disk, self.cache, partition, path, config, self.marks, clean=clean)

    def create(self, wanted: Sequence[NewLog]) -> Job[list[Log]]:
        """Make new logs here, durably, with one checkpoint for all. `DiskFull` leaves nothing."""
        partitions = [each.partition for each in wanted]
        self.making.update(partitions)
        try:
            for partition, _, start_offset in wanted:
                self.marks.forget(partition)
                self.marks.recovery_points.values[partition] = 0
                self.marks.log_starts.values[partition] = start_offset
            # First of all nothing is durable: logs of these names may have been here before.
            yield from self.marks.recovery_points.save()
            yield from self.marks.log_starts.save()
            logs: list[Log] = yield partial(self._make, wanted)
        except OSError as error:
            for partition in partitions:
                self.marks.forget(partition)
            yield partial(self._unmake, partitions)
            raise self._refusal(error) from error
        finally:
            self.making.difference_update(partitions)
        self.logs.update(zip(partitions, logs, strict=True))
        return logs

    def _make(self, wanted: Sequence[NewLog]) -> list[Log]:
        for each in wanted:
            self.disk.make_folder(self._path_of(each.partition))
        self.disk.fsync_folder(self.path)
        return [self._recover(each.partition, each.config, clean=False).log for each in wanted]

    def _unmake(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            with suppress(OSError):
                self._remove(self._path_of(partition))

    def delete(self, partition: TopicPartition, done: Callable[[Exception | None], None]) -> None:
        """Remove a log for good, when what is being done with it has ended."""
        log = self.logs.get(partition)
        if log is None:
            jobs.start(self.disk, self._delete(partition), done)
            return
        self.flusher.close(log)
        self.flusher.after_round(partial(log.turns.put, self._delete(partition), done))

    def _delete(self, partition: TopicPartition) -> Job[None]:
        """The log has no name any more before its files go."""
        if partition not in self.logs and partition not in self.closed:
            return
        log = self.logs.pop(partition, None)
        if log is not None:
            # A compaction that is under way finds nothing to put its work into.
            log.cuts += 1
        self.closed.pop(partition, None)
        self.marks.forget(partition)
        try:
            doomed = self._doomed_name(partition)
            self.disk.rename(self._path_of(partition), doomed)
            yield partial(self.disk.fsync_folder, self.path)
            yield partial(self._remove, doomed)
            yield from self.marks.save()
        except OSError as error:
            raise self._refusal(error) from error

    def close(self, broker_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Stop in good order: the next start reads nothing again. Nothing is appended any more."""
        closing = self._close(broker_epoch)
        self.flusher.when_idle(partial(jobs.start, self.disk, closing, done))

    def _close(self, broker_epoch: int) -> Job[None]:
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
        self._unlock()

    def fail(self, error: Exception) -> None:
        """Take the folder offline and tell whose logs go with it; the first reason stays."""
        if self.failure is None:
            self.failure = error
            for partition in tuple(self.logs):
                self._offline(partition, error)

    def close_damaged(self, partition: TopicPartition, error: StorageError) -> None:
        """Take one log offline, whose files are not what they were; the others serve."""
        log = self.logs.pop(partition, None)
        if log is not None:
            self.flusher.close(log)
            self.closed[partition] = error
            self._offline(partition, error)

    def _refusal(self, error: OSError) -> StorageError:
        """Say what an error of the disk means. A full one passes; any other takes the folder."""
        refusal = disk_error(error, self.path)
        if not isinstance(refusal, DiskFull):
            self.fail(refusal)
        return refusal

    @property
    def log_count(self) -> int:
        """How many logs are here, those included that are closed or not there yet."""
        return len(self.logs) + len(self.closed) + len(self.making)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self.logs or partition in self.closed or partition in self.making

    def _path_of(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition.folder_name}"

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
