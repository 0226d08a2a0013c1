"""Compaction of one log from beginning to end: plan, clean, swap, and a report of what it did.

Whoever calls it sees to it that a log has one compaction at a time, and flushes the log first:
only what is durable is cleaned. Appends and reads go on meanwhile; only the swap takes a turn.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from storage.disk import jobs
from storage.log.cleanable import Plan, plan
from storage.log.log import Log
from storage.log.offset_map import MAX_KEYS
from storage.log.rewriting import Cleaned, clean
from storage.log.segment import Segment
from storage.log.swapping import swap

__all__ = ["Cleaned", "CompactionReport", "Plan", "clean", "compact", "plan", "swap"]


@attrs.frozen
class CompactionReport:
    """What a compaction did to the segments that it replaced."""

    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    records_removed: int
    """Markers included."""
    cleaned_until: int
    """The next compaction begins to look for new records here."""


Done = Callable[[CompactionReport | Exception | None], None]


def compact(
    log: Log, now_ms: int, high_watermark: int, done: Done, max_keys: int = MAX_KEYS
) -> None:
    """Compact a log if it is due, and call `done` once.

    `None` says that nothing was due, or that the log lost a segment meanwhile, to retention or a
    truncation, and compaction gave up. After an exception the log says what it said before.
    """
    planned = plan(log, now_ms, high_watermark)
    if planned is None:
        done(None)
        return

    def put(cleaned: Cleaned | Exception | None) -> None:
        if cleaned is None or isinstance(cleaned, Exception):
            done(cleaned)
        else:
            log.turns.put(swap(log, cleaned), lambda swapped: finish(cleaned, swapped))

    def finish(cleaned: Cleaned, swapped: bool | Exception) -> None:
        if isinstance(swapped, Exception):
            done(swapped)
        else:
            done(_report(cleaned) if swapped else None)

    jobs.start(log.disk, clean(log, planned, max_keys), put)


def _report(cleaned: Cleaned) -> CompactionReport:
    old = [segment for exchange in cleaned.exchanges for segment in exchange.old]
    new = [exchange.new for exchange in cleaned.exchanges]
    return CompactionReport(
        len(old),
        len(new),
        _size_bytes(old),
        _size_bytes(new),
        cleaned.records_removed,
        cleaned.end_offset,
    )


def _size_bytes(segments: list[Segment]) -> int:
    return sum(segment.size_bytes for segment in segments)
