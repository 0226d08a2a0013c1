"""Which files a partition's folder has, seen as the next start will see them, without touching any.

What an interrupted compaction or replacement has left counts as `storage.log.leftovers` would
finish it; files before the start of the log count as deleted.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from storage.disk.seam import Disk
from storage.inspect.findings import Finding, Level, SegmentFile
from storage.inspect.segment_check import SegmentCheck
from storage.log.epochs import LEADER_EPOCHS
from storage.log.leftovers import SWAP
from storage.log.segment import ABORTED, INDEX, LOG, SNAPSHOT, TIME_INDEX, file_name

SIDE_FILES: Final = (INDEX, TIME_INDEX, ABORTED)
PARTITION_METADATA: Final = "partition.metadata"
_OWN: Final = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_SWAP: Final = re.compile(r"([0-9]{20})\.log\.swap")
_LEFT: Final = re.compile(r".*\.(cleaned|deleted|tmp|swap)")


@attrs.define
class Layout:
    """The files of a partition."""

    segments: list[SegmentFile] = attrs.Factory(list)
    snapshots: list[tuple[int, str]] = attrs.Factory(list)
    orphans: list[tuple[int, str]] = attrs.Factory(list)
    """Indexes without a segment, by offset."""
    findings: list[Finding] = attrs.Factory(list)
    set_aside: list[str] = attrs.Factory(list)

    def note(self, file: str, reason: str, advice: str) -> None:
        """Add what is nobody's fault."""
        self.findings.append(Finding(Level.NOTE, file, reason, advice))


def look(disk: Disk, folder: str, start_offset: int | None) -> Layout:
    """Sort out what is in a folder."""
    layout = Layout()
    logs: dict[int, str] = {}
    side: list[tuple[int, str]] = []
    swaps: list[int] = []
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if match := _OWN.fullmatch(name):
            offset, suffix = int(match[1]), match[2]
            if suffix == LOG:
                logs[offset] = path
            elif suffix == SNAPSHOT:
                layout.snapshots.append((offset, path))
            else:
                side.append((offset, path))
        elif match := _SWAP.fullmatch(name):
            swaps.append(int(match[1]))
        elif _LEFT.fullmatch(name):
            layout.note(path, "left by an interrupted job", "the next start removes it")
        elif name not in (LEADER_EPOCHS, PARTITION_METADATA):
            layout.note(path, "no file of a log", "nobody reads it")
    for base in swaps:
        _swap(disk, folder, base, logs, layout)
    bases = sorted(logs)
    while len(bases) > 1 and start_offset is not None and bases[1] <= start_offset:
        base = bases.pop(0)
        advice = "the next start removes it"
        layout.note(logs.pop(base), f"all of it is before the start, {start_offset:,}", advice)
    layout.segments = [SegmentFile(base, logs[base]) for base in bases]
    first = bases[0] if bases else 0
    layout.orphans = [each for each in side if each[0] not in logs and each[0] >= first]
    return layout


def _swap(disk: Disk, folder: str, base: int, logs: dict[int, str], layout: Layout) -> None:
    """Let what compaction has completed take its place, if it is sound."""
    path = f"{folder}/{file_name(base, LOG + SWAP)}"
    check = SegmentCheck(
        disk, path, base, None, 0, lambda *_: None, lambda *_: None, lambda _: None
    )
    check.read()
    if check.faults:
        position, offset, reason = check.faults[0]
        advice = "`hwmark log repair` sets it aside, and the segments that it replaces stay"
        layout.findings.append(Finding(Level.DAMAGE, path, reason, advice, position, offset))
        layout.set_aside.append(path)
        return
    # What it replaces goes, and the snapshots before its end with it.
    layout.snapshots = [each for each in layout.snapshots if each[0] >= check.end_offset]
    for replaced in [each for each in logs if base <= each < max(check.end_offset, base + 1)]:
        del logs[replaced]
    logs[base] = path
    layout.note(path, "a compaction that is all but finished", "the next start finishes it")
