"""What a path leads to: a log folder or one partition's, and what the folder remembers of each.

A checkpoint that does not read is a finding here and not an error; what it said is then unknown.
"""

from __future__ import annotations

from pathlib import PurePath

import attrs

from storage import checkpoint
from storage.checkpoint import TopicPartition
from storage.disk.seam import Disk
from storage.errors import DamagedFile, StorageError
from storage.inspect.findings import Finding, FolderReport, Level
from storage.log.marks import CLEANED_OFFSETS

OFFSET_FILES = (
    checkpoint.RECOVERY_POINTS,
    checkpoint.LOG_STARTS,
    checkpoint.HIGH_WATERMARKS,
    CLEANED_OFFSETS,
)
_WITHOUT = {
    checkpoint.RECOVERY_POINTS: "without it, the next start reads every log from its beginning",
    checkpoint.LOG_STARTS: "without it, logs begin at their first segment again",
    checkpoint.HIGH_WATERMARKS: "without it, high watermarks are learnt anew from the leaders",
    CLEANED_OFFSETS: "without it, compaction begins anew",
}


class NotALog(StorageError):  # noqa: N818 - it names the thing, like storage's other errors
    """A path that leads to nothing of ours."""


@attrs.frozen
class Place:
    """A log folder, and those of its partitions that are asked for."""

    log_folder: str
    partitions: tuple[TopicPartition, ...]

    def folder_of(self, partition: TopicPartition) -> str:
        """The path of a partition's folder."""
        return f"{self.log_folder}/{partition.folder_name}"


@attrs.frozen
class Known:
    """What a log folder remembers of its partitions."""

    offsets: dict[str, dict[TopicPartition, int]]
    """By file; those that read."""
    clean: bool = False
    """Whether the broker that wrote it has closed its logs."""

    def recovery_point(self, partition: TopicPartition) -> int | None:
        """Everything before it was durable; `None` if nobody knows."""
        points = self.offsets.get(checkpoint.RECOVERY_POINTS)
        return None if points is None else points.get(partition, 0)

    def start(self, partition: TopicPartition) -> int | None:
        """Where the log begins."""
        return self.offsets.get(checkpoint.LOG_STARTS, {}).get(partition)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """What was committed, as far as this replica knew."""
        return self.offsets.get(checkpoint.HIGH_WATERMARKS, {}).get(partition)


def find(disk: Disk, path: str, only: str | None = None) -> Place:
    """Tell what is at `path`; `only` names one partition of it."""
    if not disk.is_folder(path):
        raise NotALog(f"{path}: there is no such folder")
    inside = _partitions_in(disk, path)
    itself = TopicPartition.from_folder_name(PurePath(path).name)
    if not inside and itself is not None:
        place = Place(str(PurePath(path).parent), (itself,))
    elif inside or any(disk.exists(f"{path}/{name}") for name in OFFSET_FILES):
        place = Place(path, inside)
    else:
        raise NotALog(f"{path}: neither a log folder nor the folder of a partition")
    if only is None:
        return place
    chosen = tuple(each for each in place.partitions if each.folder_name == only)
    if not chosen:
        raise NotALog(f"{path}: there is no partition {only}")
    return attrs.evolve(place, partitions=chosen)


def _partitions_in(disk: Disk, path: str) -> tuple[TopicPartition, ...]:
    found = (
        TopicPartition.from_folder_name(name)
        for name in disk.list(path)
        if disk.is_folder(f"{path}/{name}")
    )
    return tuple(sorted(each for each in found if each is not None))


def recall(disk: Disk, folder: str, report: FolderReport) -> Known:
    """Read what a log folder remembers; what does not read goes into the report."""
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for name in OFFSET_FILES:
        path = f"{folder}/{name}"
        if not disk.exists(path):
            continue
        try:
            offsets[name] = checkpoint.decode_offsets(checkpoint.read_whole(disk, path), path)
        except DamagedFile as damage:
            report.findings.append(
                Finding(
                    Level.REBUILDABLE,
                    path,
                    f"line {damage.line}: {damage.reason}" if damage.line else damage.reason,
                    f"`hwmark log repair` sets it aside: {_WITHOUT[name]}",
                )
            )
            report.set_aside.append(path)
    return Known(offsets, _stopped_cleanly(disk, folder, report))


def _stopped_cleanly(disk: Disk, folder: str, report: FolderReport) -> bool:
    """Whether the next start takes the stop for clean: the marker is there, and all else reads."""
    path = f"{folder}/{checkpoint.CLEAN_SHUTDOWN}"
    if not disk.exists(path) or report.findings:
        return False
    try:
        checkpoint.decode_clean_shutdown(checkpoint.read_whole(disk, path), path)
    except DamagedFile as damage:
        advice = "that it is there says that the stop was clean; nobody needs what is in it"
        report.findings.append(Finding(Level.NOTE, path, damage.reason, advice))
    return True
