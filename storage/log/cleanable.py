"""Which part of a log compaction may rewrite, and whether it is worth it. It only tells.

What may still change is left alone: the segment that is written, what is not committed, what an
open transaction may still abort, and what is younger than the topic wants. So is what a crash could
make recovery read again with the producers of an older snapshot: that would miss the markers which
compaction has removed. Flush a log first, then ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import attrs

from storage.batch.header import NO_TIMESTAMP
from storage.log.log import Log
from storage.log.replay import snapshots_of
from storage.log.segment import Segment


@attrs.frozen
class Plan:
    """The segments to rewrite, from the first of the log on, and what in them is new."""

    segments: tuple[Segment, ...]
    first_dirty_offset: int
    """Everything before this offset has been cleaned before."""
    now_ms: int
    snapshot: str
    """The producers' state from which a start after a crash goes on: not within these segments."""
    cuts: int

    @property
    def end_offset(self) -> int:
        """Where the part ends."""
        return self.segments[-1].end_offset

    def holds(self, log: Log) -> bool:
        """Whether the log still begins with these segments, and they are as they were."""
        count = len(self.segments)
        return (
            self.cuts == log.cuts
            and len(log.segments) > count
            and all(map(_is, self.segments, log.segments))
        )


def _is(one: Segment, other: Segment) -> bool:
    return one is other


def plan(log: Log, now_ms: int, high_watermark: int) -> Plan | None:
    """Say what to clean; `None` if there is nothing, or not enough yet."""
    if not log.config.compact or log.cutting:
        return None
    snapshot = _newest_durable_snapshot(log)
    if snapshot is None:
        return None
    end_offset = min(log.producers.last_stable_offset(high_watermark), snapshot[0])
    segments = tuple(
        takewhile(
            lambda segment: segment.end_offset <= end_offset and _is_settled(log, segment, now_ms),
            log.segments[:-1],
        )
    )
    first_dirty_offset = _first_dirty_offset(log)
    dirty = [segment for segment in segments if segment.end_offset > first_dirty_offset]
    if not dirty or not (_is_worth_it(log, segments, dirty) or _is_overdue(log, dirty, now_ms)):
        return None
    return Plan(segments, first_dirty_offset, now_ms, snapshot[1], log.cuts)


def _newest_durable_snapshot(log: Log) -> tuple[int, str] | None:
    """The last snapshot that a start after a crash would take."""
    limit = min(log.recovery_point, log.known_high_watermark)
    return next((each for each in reversed(snapshots_of(log)) if each[0] <= limit), None)


def _first_dirty_offset(log: Log) -> int:
    cleaned = log.marks.cleaned.values.get(log.partition, 0)
    return log.start_offset if cleaned > log.end_offset else max(cleaned, log.start_offset)


def _is_settled(log: Log, segment: Segment, now_ms: int) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    return lag_ms <= 0 or segment.max_timestamp_ms <= now_ms - lag_ms


def _is_worth_it(log: Log, segments: Sequence[Segment], dirty: Sequence[Segment]) -> bool:
    dirty_bytes, all_bytes = _size_bytes(dirty), _size_bytes(segments)
    return dirty_bytes > log.config.min_cleanable_ratio * all_bytes


def _is_overdue(log: Log, dirty: Sequence[Segment], now_ms: int) -> bool:
    """Whether something new has waited longer than the topic allows."""
    limit_ms = now_ms - log.config.max_compaction_lag_ms
    return limit_ms > 0 and any(0 < _first_timestamp_ms(each) < limit_ms for each in dirty)


def _first_timestamp_ms(segment: Segment) -> int:
    if segment.first_timestamp_ms == NO_TIMESTAMP:
        # A segment that was opened without being read does not know it.
        return next((header.max_timestamp_ms for _, header in segment.walk(0)), NO_TIMESTAMP)
    return segment.first_timestamp_ms


def _size_bytes(segments: Sequence[Segment]) -> int:
    return sum(segment.size_bytes for segment in segments)
