"""Cut a damaged log before its first damage, so that it opens again; nothing is thrown away.

What is removed is kept next to the partition's folder, in `<partition>.removed/<number>/`: whole
files under their names, and the end of the segment that is cut as `<name>.from-<position>`.

The order of the steps makes it safe at any crash. First everything that goes is durable where it
is kept: until then the log is as damaged as before, and no start touches it. Then the recovery
point is lowered, durably: from then on a start would cut at the same place by itself. Only then the
file is cut. Doing it all again after a crash finds the same damage, or none.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePath
from typing import Final

import attrs

from storage import checkpoint
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.inspect.findings import FolderReport, PartitionReport
from storage.inspect.layout import SIDE_FILES
from storage.log.leftovers import SWAP
from storage.log.marks import FolderMarks
from storage.log.segment import LOG, SNAPSHOT

REMOVED: Final = ".removed"
_SHARED: Final = "checkpoints"
_PIECE_BYTES: Final = 1024 * 1024
_NAMED: Final = re.compile(
    r"([0-9]{20})(\.log|\.log\.swap|\.index|\.timeindex|\.txnindex|\.snapshot)"
)


@attrs.frozen
class Loss:
    """What goes with a cut: exact in bytes and offsets, and in records as far as they read."""

    size_bytes: int
    first_offset: int
    end_offset: int
    readable_batches: int
    readable_records: int


@attrs.frozen
class Plan:
    """What a repair of one partition will do."""

    partition: TopicPartition
    folder: str
    kept_in: str
    """Where everything goes that is removed."""
    loss: Loss | None = None
    """`None` if no record is lost."""
    cut_path: str | None = None
    """The segment that is cut, if one is, and where."""
    cut_position: int = 0
    whole_files: tuple[str, ...] = ()
    """Files that go as a whole, in the order in which they go."""

    def to_json(self) -> dict[str, object]:
        """Give it as JSON has it."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "kept_in": self.kept_in,
            "loss": None if self.loss is None else attrs.asdict(self.loss),
            "cut": None
            if self.cut_path is None
            else {"file": self.cut_path, "position": self.cut_position},
            "set_aside": list(self.whole_files),
        }


@attrs.frozen
class FolderPlan:
    """What a repair will do; nothing, if nothing is wrong."""

    folder: str
    partitions: tuple[Plan, ...]
    kept_in: str
    shared_files: tuple[str, ...]
    """Checkpoints of the folder that do not read."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.partitions and not self.shared_files

    def to_json(self) -> dict[str, object]:
        """Give it as JSON has it."""
        return {
            "folder": self.folder,
            "partitions": [each.to_json() for each in self.partitions],
            "set_aside": list(self.shared_files),
            "kept_in": self.kept_in if self.shared_files else None,
        }


def plan(disk: Disk, report: FolderReport) -> FolderPlan:
    """Decide what to do about what was found."""
    kept_in = _free_folder(disk, f"{report.folder}/{_SHARED}{REMOVED}")
    plans = tuple(
        _plan(disk, part) for part in report.partitions if part.cut is not None or part.set_aside
    )
    return FolderPlan(report.folder, plans, kept_in, tuple(report.set_aside))


def repair(disk: Disk, what: FolderPlan) -> Job[None]:
    """Do it. The caller holds the folder's lock; it is durable when the job is done."""
    if what.empty:
        return
    yield partial(_forget_clean_stop, disk, what.folder)
    yield partial(_keep_shared, disk, what)
    marks = FolderMarks(disk, what.folder)
    yield marks.load
    for each in what.partitions:
        yield partial(_keep, disk, each)
        yield from _lower_marks(marks, each)
        yield partial(_cut, disk, each)


def run(disk: Disk, what: FolderPlan) -> None:
    """Do it here and now."""
    jobs.run(repair(disk, what))


def _plan(disk: Disk, report: PartitionReport) -> Plan:
    kept_in = _free_folder(disk, report.folder + REMOVED)
    if report.cut is None:
        there = [path for path in report.set_aside if disk.exists(path)]
        return Plan(report.partition, report.folder, kept_in, whole_files=tuple(there))
    index, position, offset = attrs.astuple(report.cut)
    segments = report.segments
    # The first file stays, however little is left of it: its name says where the log begins.
    stays = bool(segments) and (position > 0 or index == 0) and not _gap_at_start(report)
    cut_path = segments[index].path if stays and not segments[index].path.endswith(SWAP) else None
    # The indexes of the segment that is cut are made anew by a start that reads all of it, and it
    # does if no snapshot tells of a part of it.
    newest_snapshot = segments[index].base_offset if cut_path is not None else offset
    whole = {*_named_from(disk, report.folder, offset, newest_snapshot), *report.set_aside}
    whole |= {path for each in segments[index:] for path in (each.path, *_beside(each.path))}
    there = sorted(path for path in whole - {cut_path} if disk.exists(path))
    removed = sum(disk.size(path) for path in there if path.endswith((LOG, LOG + SWAP)))
    removed += disk.size(cut_path) - position if cut_path is not None else 0
    loss = Loss(
        removed,
        offset,
        max(report.known_end, offset),
        report.readable_batches,
        report.readable_records,
    )
    return Plan(report.partition, report.folder, kept_in, loss, cut_path, position, tuple(there))


def _gap_at_start(report: PartitionReport) -> bool:
    """Whether the log has no segment for its first offset: then none of them can stay."""
    return report.cut is not None and report.segments[0].base_offset > report.cut.offset


def _beside(log_path: str) -> tuple[str, ...]:
    stem = log_path.removesuffix(SWAP).removesuffix(LOG)
    return tuple(stem + suffix for suffix in SIDE_FILES)


def _named_from(disk: Disk, folder: str, offset: int, newest_snapshot: int) -> list[str]:
    """List what a log that ends at this offset cannot have, compacted or not."""
    found = []
    for name in disk.list(folder):
        match = _NAMED.fullmatch(name)
        if match is None:
            continue
        named = int(match[1])
        if named > newest_snapshot if match[2] == SNAPSHOT else named >= offset:
            found.append(f"{folder}/{name}")
    return found


def _free_folder(disk: Disk, parent: str) -> str:
    """Name a folder that does not exist yet: one for each repair."""
    number = 1
    while disk.is_folder(f"{parent}/{number}"):
        number += 1
    return f"{parent}/{number}"


def _forget_clean_stop(disk: Disk, folder: str) -> None:
    """From now on the next start reads what it would otherwise believe."""
    disk.delete(f"{folder}/{checkpoint.CLEAN_SHUTDOWN}")
    disk.fsync_folder(folder)


def _keep(disk: Disk, what: Plan) -> None:
    """Make everything durable where it is kept; the file that is cut is still whole."""
    _make_kept(disk, what.kept_in)
    if what.cut_path is not None and what.cut_position < disk.size(what.cut_path):
        name = f"{PurePath(what.cut_path).name}.from-{what.cut_position}"
        _copy(disk, what.cut_path, what.cut_position, f"{what.kept_in}/{name}")
    _move(disk, what.whole_files, what.kept_in)
    disk.fsync_folder(what.folder)


def _keep_shared(disk: Disk, what: FolderPlan) -> None:
    if what.shared_files:
        _make_kept(disk, what.kept_in)
        _move(disk, what.shared_files, what.kept_in)
        disk.fsync_folder(what.folder)


def _move(disk: Disk, paths: tuple[str, ...], kept_in: str) -> None:
    for path in paths:
        disk.fsync(path)
        disk.rename(path, f"{kept_in}/{PurePath(path).name}")
    disk.fsync_folder(kept_in)


def _make_kept(disk: Disk, kept_in: str) -> None:
    """Make the folder, and the one that it is in, durably."""
    parent = PurePath(kept_in).parent
    disk.make_folder(str(parent))
    disk.fsync_folder(str(parent.parent))
    disk.make_folder(kept_in)
    disk.fsync_folder(str(parent))


def _copy(disk: Disk, source: str, position: int, target: str) -> None:
    disk.create(target)
    written = 0
    while piece := disk.read(source, position + written, _PIECE_BYTES):
        written += disk.write(target, (piece,), written)
    disk.fsync(target)


def _lower_marks(marks: FolderMarks, what: Plan) -> Job[None]:
    """Let no checkpoint of the folder claim what is about to go."""
    if what.loss is None:
        return
    for file in (marks.recovery_points, marks.high_watermarks, marks.cleaned):
        if file.values.get(what.partition, 0) > what.loss.first_offset:
            file.values[what.partition] = what.loss.first_offset
            yield from file.save()


def _cut(disk: Disk, what: Plan) -> None:
    if what.cut_path is not None:
        disk.truncate(what.cut_path, what.cut_position)
        disk.fsync(what.cut_path)
    disk.fsync_folder(what.folder)
