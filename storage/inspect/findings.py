"""What looking at a log folder brings to light, in values that can be printed or repaired."""

from __future__ import annotations

import enum

import attrs

from storage.checkpoint import TopicPartition


class Level(enum.Enum):
    """How bad it is."""

    DAMAGE = "damage"
    """Records are lost or wrong. The partition stays offline until it is cut there."""
    REBUILDABLE = "rebuildable"
    """Something is wrong that can be made again from the records, and would be trusted."""
    NOTE = "note"
    """Nothing is wrong: the next start deals with it, or somebody may want to know."""


@attrs.frozen
class Finding:
    """Something that is not as it should be: where, why, and what to do about it."""

    level: Level
    file: str
    reason: str
    advice: str
    position: int | None = None
    offset: int | None = None

    @property
    def where(self) -> str:
        """The place in words."""
        parts = [self.file]
        if self.position is not None:
            parts.append(f"byte {self.position:,}")
        if self.offset is not None:
            parts.append(f"offset {self.offset:,}")
        return ", ".join(parts)

    def to_json(self) -> dict[str, object]:
        """Give it as JSON has it."""
        return attrs.asdict(self) | {"level": self.level.value}


@attrs.frozen
class SegmentFile:
    """A segment by its file, which is not named like one while a compaction is unfinished."""

    base_offset: int
    path: str


@attrs.frozen
class Cut:
    """Where a log has to end: in the segment of this index, before this byte, at this offset."""

    index: int
    position: int
    offset: int


@attrs.define
class PartitionReport:
    """What is known of a partition after reading all of it."""

    partition: TopicPartition
    folder: str
    start_offset: int = 0
    end_offset: int = 0
    """Where the sound part ends."""
    known_end: int = 0
    """The highest offset that anything says was there; the end, if nothing is lost."""
    recovery_point: int | None = None
    size_bytes: int = 0
    """All segments, sound or not."""
    batches: int = 0
    records: int = 0
    readable_batches: int = 0
    """Behind the first damage, and still whole."""
    readable_records: int = 0
    segments: list[SegmentFile] = attrs.Factory(list)
    findings: list[Finding] = attrs.Factory(list)
    cut: Cut | None = None
    set_aside: list[str] = attrs.Factory(list)
    """Files that must not be trusted; all of them can be done without."""

    @property
    def verdict(self) -> str:
        """In a word."""
        levels = {finding.level for finding in self.findings}
        if Level.DAMAGE in levels:
            return "damaged"
        return "rebuild" if Level.REBUILDABLE in levels else "fine"

    def to_json(self) -> dict[str, object]:
        """Give it as JSON has it."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "folder": self.folder,
            "verdict": self.verdict,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "recovery_point": self.recovery_point,
            "segments": len(self.segments),
            "bytes": self.size_bytes,
            "batches": self.batches,
            "records": self.records,
            "findings": [finding.to_json() for finding in self.findings],
        }


@attrs.define
class FolderReport:
    """What is known of a log folder."""

    folder: str
    findings: list[Finding] = attrs.Factory(list)
    """Of the files that all partitions share."""
    set_aside: list[str] = attrs.Factory(list)
    partitions: list[PartitionReport] = attrs.Factory(list)

    @property
    def all_findings(self) -> list[Finding]:
        """Those of the partitions, too."""
        return self.findings + [each for part in self.partitions for each in part.findings]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return all(each.level is Level.NOTE for each in self.all_findings)

    def to_json(self) -> dict[str, object]:
        """Give it as JSON has it."""
        return {
            "folder": self.folder,
            "verdict": "fine" if self.sound else "damaged",
            "findings": [finding.to_json() for finding in self.findings],
            "partitions": [part.to_json() for part in self.partitions],
        }
