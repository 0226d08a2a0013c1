"""What a topic may ask of its log, with Kafka's names and defaults, and units in the names."""

from __future__ import annotations

from typing import Final

import attrs

UNLIMITED: Final = -1
_DAY_MS: Final = 24 * 60 * 60 * 1000


@attrs.frozen
class LogConfig:
    """Settings of one log. `UNLIMITED` where Kafka has -1."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * _DAY_MS
    index_interval_bytes: int = 4096
    index_max_bytes: int = 10 * 1024 * 1024
    max_batch_bytes: int = 1024 * 1024 + 12
    retention_bytes: int = UNLIMITED
    retention_ms: int = 7 * _DAY_MS
    delete: bool = True
    """cleanup.policy has `delete`."""
    compact: bool = False
    """cleanup.policy has `compact`."""
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    min_cleanable_ratio: float = 0.5
    producer_expiry_ms: int = _DAY_MS
    max_producers: int = 100_000

    def __attrs_post_init__(self) -> None:
        if not 1024 <= self.segment_bytes <= 2**31 - 1:
            raise ValueError(f"segment.bytes={self.segment_bytes}: use 1024 to {2**31 - 1}")
        if self.index_interval_bytes < 0 or self.index_max_bytes < 16:
            raise ValueError("index.interval.bytes is at least 0, segment.index.bytes at least 16")
        if not 0 <= self.min_cleanable_ratio <= 1:
            raise ValueError(f"min.cleanable.dirty.ratio={self.min_cleanable_ratio}: use 0 to 1")
