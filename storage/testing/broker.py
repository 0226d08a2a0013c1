"""As much of a broker as a crash test needs: a folder of logs on a disk, started and stopped."""

from __future__ import annotations

from typing import Final

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.errors import DamagedLog
from storage.log import flushing
from storage.log.config import LogConfig
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.recovery import Recovery, create_log, open_log

FOLDER: Final = "data"


def fresh_disk(disk: SimulatedDisk) -> SimulatedDisk:
    """Give a new disk the folder that logs are in."""
    disk.make_folder(FOLDER)
    disk.fsync_folder(".")
    return disk


class SmallBroker:
    """The logs of a folder and the marks that they share."""

    def __init__(self, disk: SimulatedDisk, config: LogConfig) -> None:
        self.disk = disk
        self.config = config
        self.cache = IndexCache(max_bytes=2048)
        self.marks = FolderMarks(disk, FOLDER)
        self.logs: dict[TopicPartition, Log] = {}
        self.recoveries: dict[TopicPartition, Recovery] = {}
        self.damaged: dict[TopicPartition, DamagedLog] = {}

    def load_marks(self) -> None:
        """Read the offset files."""
        self.marks.load()

    def open(self, partition: TopicPartition, *, clean: bool) -> None:
        """Open a log that has a folder; what is damaged stays offline."""
        path = self.path(partition)
        try:
            found = open_log(
                self.disk, self.cache, partition, path, self.config, self.marks, clean=clean
            )
        except DamagedLog as error:
            self.damaged[partition] = error
            return
        self.recoveries[partition] = found
        self.logs[partition] = found.log

    def create(self, partition: TopicPartition, start_offset: int) -> None:
        """Make a log that has no folder yet."""
        path = self.path(partition)
        self.logs[partition] = create_log(
            self.disk, self.cache, partition, path, self.config, self.marks, start_offset
        )

    def has(self, partition: TopicPartition) -> bool:
        """Whether a log has a folder."""
        return self.disk.is_folder(self.path(partition))

    def path(self, partition: TopicPartition) -> str:
        """Where a log is."""
        return f"{FOLDER}/{partition.folder_name}"

    def stop(self) -> None:
        """Stop cleanly: after this, the next start reads nothing but tails."""
        for log in self.logs.values():
            jobs.run(flushing.close(log))
        jobs.run(self.marks.save())
