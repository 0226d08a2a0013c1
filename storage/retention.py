"""What of a log may be deleted because it is old, or because there is too much. It only tells.

Whole segments, the oldest first, and only what is committed. A log that is compacted and not
deleted has no retention. `cutting.advance_start` does what this says.
"""

from __future__ import annotations

from storage.batch.header import NO_TIMESTAMP
from storage.log.config import UNLIMITED
from storage.log.log import Log
from storage.log.segment import Segment


def retained_from(log: Log, now_ms: int, high_watermark: int) -> int:
    """Return the offset at which the log should begin: its start if nothing is too much."""
    config = log.config
    start = log.start_offset
    if not config.delete:
        return start
    excess_bytes = log.size_bytes - config.retention_bytes
    for segment in log.segments:
        if segment.end_offset > high_watermark:
            break
        too_much = config.retention_bytes != UNLIMITED and excess_bytes >= segment.size_bytes
        # The last segment may be old as a whole, but is never too much by itself.
        if not (_is_old(log, segment, now_ms) or (too_much and segment is not log.active)):
            break
        excess_bytes -= segment.size_bytes
        start = max(start, segment.end_offset)
    return start


def _is_old(log: Log, segment: Segment, now_ms: int) -> bool:
    retention_ms = log.config.retention_ms
    if retention_ms == UNLIMITED or segment.max_timestamp_ms == NO_TIMESTAMP:
        return False
    return now_ms - segment.max_timestamp_ms > retention_ms
