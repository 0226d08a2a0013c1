"""Settings of logs. Most are the defaults of a topic's setting, under Kafka's other name for it."""

from __future__ import annotations

from typing import Final

import attrs

from net.settings.kinds import DOUBLE, INT, LIST, LONG, MAX_INT, MAX_LONG, STRING
from net.settings.setting import Dynamic, setting

_DAY_MS: Final = 24 * 60 * 60 * 1000
_LIVE: Final = Dynamic.CLUSTER_WIDE


@attrs.frozen(slots=False, kw_only=True)
class LogSettings:
    """Segments, retention, compaction, flushes, and what a batch may be."""

    log_segment_bytes: int = setting(
        INT, 1024**3, "A segment file that has so much is followed by a new one.",
        low=1024, dynamic=_LIVE,
    )  # fmt: skip
    log_roll_ms: int | None = setting(
        LONG, None, "A segment that is so old is followed by a new one; before `log.roll.hours`.",
        low=1, dynamic=_LIVE,
    )  # fmt: skip
    log_roll_hours: int = setting(INT, 168, "The same in hours.", low=1)
    log_index_interval_bytes: int = setting(
        INT, 4096, "Bytes of log between two entries of an index.", low=0, dynamic=_LIVE
    )
    log_index_size_max_bytes: int = setting(
        INT, 10 * 1024 * 1024, "The size of an index at which a segment ends.",
        low=16, dynamic=_LIVE,
    )  # fmt: skip
    log_retention_ms: int | None = setting(
        LONG, None, "Records are kept for so long; -1 for ever; before `log.retention.minutes`.",
        low=-1, dynamic=_LIVE,
    )  # fmt: skip
    log_retention_minutes: int | None = setting(
        INT, None, "The same in minutes; before `log.retention.hours`.", low=-1
    )
    log_retention_hours: int = setting(INT, 168, "The same in hours.", low=-1)
    log_retention_bytes: int = setting(
        LONG, -1, "A partition is kept at about this size; -1: any.", low=-1, dynamic=_LIVE
    )
    log_retention_check_interval_ms: int = setting(
        LONG, 300_000, "How often logs are looked through for what is too old or too much.", low=1
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        LIST, ("delete",), "What becomes of old records: delete, compact, or both.",
        choices=("delete", "compact"), dynamic=_LIVE,
    )  # fmt: skip
    log_cleaner_backoff_ms: int = setting(
        LONG, 15_000, "How often logs are looked through for what can be compacted.", low=1
    )
    log_cleaner_delete_retention_ms: int = setting(
        LONG, _DAY_MS, "How long a compacted log keeps tombstones.", low=0, dynamic=_LIVE
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG, 0, "How long a record is safe from compaction.", low=0, dynamic=_LIVE
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG, MAX_LONG, "How long a record may be left out of compaction.", low=1, dynamic=_LIVE
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE, 0.5, "Which part of a log is new before it is compacted.",
        low=0, high=1, dynamic=_LIVE,
    )  # fmt: skip
    log_flush_interval_messages: int = setting(
        LONG, MAX_LONG,
        "After how many records a log is flushed; with 1 a write counts only when it is durable.",
        low=1,
    )  # fmt: skip
    log_flush_interval_ms: int | None = setting(
        LONG, None, "After which time a log is flushed.", low=1
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        LONG, 60_000, "How often recovery points are written to disk.", low=1
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        LONG, 60_000, "How often log starts are written to disk.", low=1
    )
    log_message_timestamp_type: str = setting(
        STRING, "CreateTime", "Whose clock a record's time comes from.",
        choices=("CreateTime", "LogAppendTime"), dynamic=_LIVE,
    )  # fmt: skip
    log_message_timestamp_before_max_ms: int = setting(
        LONG, MAX_LONG, "How far before the broker's clock a record's time may be.",
        low=0, dynamic=_LIVE,
    )  # fmt: skip
    log_message_timestamp_after_max_ms: int = setting(
        LONG, 60 * 60 * 1000, "How far after the broker's clock a record's time may be.",
        low=0, dynamic=_LIVE,
    )  # fmt: skip
    message_max_bytes: int = setting(
        INT, 1024 * 1024 + 12, "The largest batch that is taken.",
        low=61, high=MAX_INT, dynamic=_LIVE,
    )  # fmt: skip
    compression_type: str = setting(
        STRING, "producer", "Batches are kept as the producer compressed them.",
        choices=("producer",),
    )  # fmt: skip
    producer_id_expiration_ms: int = setting(
        INT, _DAY_MS, "A producer that has not written for so long is forgotten.", low=1
    )
    producer_id_expiration_check_interval_ms: int = setting(
        INT, 600_000, "How often producers that can be forgotten are looked for.", low=1
    )
