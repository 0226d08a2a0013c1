"""What a folder remembers about each of its logs in files that all of them share.

The recovery point is where everything before is durable, the start is where a log begins, and the
high watermark is what the replica knew to be committed; up to the cleaned offset, compaction has
seen everything. The dictionaries are the truth while the
broker runs; a job saves one. `save` may run in several threads at once, one after another, and the
newest content wins.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Final

from storage import checkpoint
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk

CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"


class OffsetFile:
    """One offset per partition, in one file that is replaced whole."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.values: dict[TopicPartition, int] = {}
        self._disk = disk
        self._newest = 0
        self._written = 0
        self._one_writer = threading.Lock()

    def load(self) -> None:
        """Read the file, if there is one; `DamagedFile` if it makes no sense."""
        if self._disk.exists(self.path):
            content = checkpoint.read_whole(self._disk, self.path)
            self.values = checkpoint.decode_offsets(content, self.path)

    def save(self) -> Job[None]:
        """Make what the values are now durable."""
        self._newest += 1
        yield partial(self._write, checkpoint.encode_offsets(self.values), self._newest)

    def _write(self, content: bytes, version: int) -> None:
        with self._one_writer:
            if version > self._written:
                jobs.run(checkpoint.replace(self._disk, self.path, content))
                self._written = version


class FolderMarks:
    """The offset files of a log folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self.recovery_points = OffsetFile(disk, f"{folder}/{checkpoint.RECOVERY_POINTS}")
        self.log_starts = OffsetFile(disk, f"{folder}/{checkpoint.LOG_STARTS}")
        self.high_watermarks = OffsetFile(disk, f"{folder}/{checkpoint.HIGH_WATERMARKS}")
        self.cleaned = OffsetFile(disk, f"{folder}/{CLEANED_OFFSETS}")

    @property
    def files(self) -> tuple[OffsetFile, ...]:
        """All of them."""
        return self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned

    def load(self) -> None:
        """Read all of them. It blocks.

        What is read is durable before anybody acts on it: a process that was killed may have left
        a name which the next power failure takes back.
        """
        self._disk.fsync_folder(self._folder)
        for file in self.files:
            file.load()

    def forget(self, partition: TopicPartition) -> None:
        """A log is gone."""
        for file in self.files:
            file.values.pop(partition, None)

    def save(self) -> Job[None]:
        """Save all of them: now and then, and when the broker stops."""
        for file in self.files:
            yield from file.save()
