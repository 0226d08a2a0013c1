"""A topic's settings: what it says itself, and for the rest what its broker says.

`topic_settings` gives the values that hold. What a topic itself says is a mapping of texts, as the
metadata have it, and is checked when it is set: `check_topic_settings`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import attrs
from immutables import Map

from net.errors import BadSetting
from net.settings.broker import BrokerSettings
from net.settings.kinds import BOOLEAN, DOUBLE, INT, LIST, LONG, MAX_LONG, STRING
from net.settings.setting import BrokerName, Setting, read_all, setting, settings_of
from protocol.controller.state import TopicConfig

_DAY_MS: Final = 24 * 60 * 60 * 1000
_HOUR_MS: Final = 60 * 60 * 1000

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"

_RETENTION: Final = (
    BrokerName("log.retention.ms"),
    BrokerName("log.retention.minutes", 60_000),
    BrokerName("log.retention.hours", _HOUR_MS),
)
_ROLL: Final = (BrokerName("log.roll.ms"), BrokerName("log.roll.hours", _HOUR_MS))
_THROTTLED: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


@attrs.frozen(kw_only=True)
class TopicSettings:
    """The values that hold for a topic, whoever set them."""

    cleanup_policy: tuple[str, ...] = setting(
        LIST, ("delete",), "What becomes of old records: delete, compact, or both.",
        choices=("delete", "compact"), broker="log.cleanup.policy",
    )  # fmt: skip
    compression_type: str = setting(
        STRING, "producer", "Batches are kept as the producer compressed them.",
        choices=("producer",), broker="compression.type",
    )  # fmt: skip
    delete_retention_ms: int = setting(
        LONG, _DAY_MS, "How long a compacted log keeps tombstones.",
        low=0, broker="log.cleaner.delete.retention.ms",
    )  # fmt: skip
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), "The replicas, partition:broker or *, that fetch at the throttled rate."
    )
    index_interval_bytes: int = setting(
        INT, 4096, "Bytes of log between two entries of an index.",
        low=0, broker="log.index.interval.bytes",
    )  # fmt: skip
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), "Taken because Kafka's tools set it with the follower's, which is the one obeyed."
    )
    max_compaction_lag_ms: int = setting(
        LONG, MAX_LONG, "How long a record may be left out of compaction.",
        low=1, broker="log.cleaner.max.compaction.lag.ms",
    )  # fmt: skip
    max_message_bytes: int = setting(
        INT, 1024 * 1024 + 12, "The largest batch that is taken.",
        low=61, broker="message.max.bytes",
    )  # fmt: skip
    message_timestamp_after_max_ms: int = setting(
        LONG, _HOUR_MS, "How far after the broker's clock a record's time may be.",
        low=0, broker="log.message.timestamp.after.max.ms",
    )  # fmt: skip
    message_timestamp_before_max_ms: int = setting(
        LONG, MAX_LONG, "How far before the broker's clock a record's time may be.",
        low=0, broker="log.message.timestamp.before.max.ms",
    )  # fmt: skip
    message_timestamp_type: str = setting(
        STRING, "CreateTime", "Whose clock a record's time comes from.",
        choices=("CreateTime", "LogAppendTime"), broker="log.message.timestamp.type",
    )  # fmt: skip
    min_cleanable_dirty_ratio: float = setting(
        DOUBLE, 0.5, "Which part of a log is new before it is compacted.",
        low=0, high=1, broker="log.cleaner.min.cleanable.ratio",
    )  # fmt: skip
    min_compaction_lag_ms: int = setting(
        LONG, 0, "How long a record is safe from compaction.",
        low=0, broker="log.cleaner.min.compaction.lag.ms",
    )  # fmt: skip
    min_insync_replicas: int = setting(
        INT, 1, "How many replicas in sync an acks=all write needs.", low=1, broker=MIN_ISR
    )
    retention_bytes: int = setting(
        LONG, -1, "A partition is kept at about this size; -1: any.",
        low=-1, broker="log.retention.bytes",
    )  # fmt: skip
    retention_ms: int = setting(
        LONG, 7 * _DAY_MS, "Records are kept for so long; -1: for ever.",
        low=-1, broker=_RETENTION,
    )  # fmt: skip
    segment_bytes: int = setting(
        INT, 1024**3, "A segment file that has so much is followed by a new one.",
        low=1024, broker="log.segment.bytes",
    )  # fmt: skip
    segment_index_bytes: int = setting(
        INT, 10 * 1024 * 1024, "The size of an index at which a segment ends.",
        low=16, broker="log.index.size.max.bytes",
    )  # fmt: skip
    segment_ms: int = setting(
        LONG, 7 * _DAY_MS, "A segment that is so old is followed by a new one.",
        low=1, broker=_ROLL,
    )  # fmt: skip
    unclean_leader_election_enable: bool = setting(
        BOOLEAN, False, "Whether a replica that may lack records can become leader.",
        broker=UNCLEAN,
    )  # fmt: skip


def topic_table() -> Mapping[str, Setting]:
    """Return every setting of a topic by name."""
    return settings_of(TopicSettings)


@cache
def _links() -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """For each attribute of a topic, the attributes of a broker that its default comes from."""
    return tuple(
        (
            known.field,
            tuple((each.name.replace(".", "_"), each.factor) for each in known.broker_names),
        )
        for known in topic_table().values()
        if known.broker_names
    )


def broker_default(known: Setting, broker: BrokerSettings) -> Any:
    """Return what a topic's setting is when the topic does not say."""
    for each in known.broker_names:
        value = getattr(broker, each.name.replace(".", "_"))
        if value is not None:
            return _scaled(value, each.factor)
    return known.default


def _scaled(value: Any, factor: int) -> Any:
    # A negative time means for ever, in any unit.
    return value if factor == 1 else min(max(value * factor, -1), MAX_LONG)


def topic_settings(said: Mapping[str, str], broker: BrokerSettings | None = None) -> TopicSettings:
    """Return the values that hold, given what the topic says; without a broker, Kafka's defaults.

    `BadSetting` for what is unknown, malformed, or does not fit the rest.
    """
    values: dict[str, Any] = {}
    if broker is not None:
        for field, sources in _links():
            for name, factor in sources:
                value = getattr(broker, name)
                if value is not None:
                    values[field] = _scaled(value, factor)
                    break
    values.update(read_all(topic_table(), said, "topic"))
    topic = TopicSettings(**values)
    for check in _CHECKS:
        check(topic)
    return topic


def check_topic_settings(said: Mapping[str, str], broker: BrokerSettings | None = None) -> None:
    """Refuse, with `BadSetting`, what a topic must not say."""
    topic_settings(said, broker)


def said_by(config: TopicConfig) -> dict[str, str]:
    """Return what a topic itself says, as the metadata have it."""
    return dict(config.other)


def protocol_config(said: Mapping[str, str], broker: BrokerSettings | None = None) -> TopicConfig:
    """Return what the controller keeps: the two settings it lives by, and every text it was given.

    The two are also among the texts if the topic has said them itself, so that it can be told
    later who has set them.
    """
    topic = topic_settings(said, broker)
    return TopicConfig(
        topic.min_insync_replicas, topic.unclean_leader_election_enable, Map(dict(said))
    )


def _check_throttled(topic: TopicSettings) -> None:
    for name, value in (
        ("leader.replication.throttled.replicas", topic.leader_replication_throttled_replicas),
        ("follower.replication.throttled.replicas", topic.follower_replication_throttled_replicas),
    ):
        if value == ("*",):
            continue
        for each in value:
            if not _THROTTLED.fullmatch(each):
                raise BadSetting(
                    f"{name}: {each!r} is no replica; write partition:broker, or * for all"
                )


def _check_lags(topic: TopicSettings) -> None:
    low, high = topic.min_compaction_lag_ms, topic.max_compaction_lag_ms
    if low > high:
        raise BadSetting(
            f"min.compaction.lag.ms={low}: above max.compaction.lag.ms={high}; make it smaller"
        )


_CHECKS: Final[tuple[Callable[[TopicSettings], None], ...]] = (_check_throttled, _check_lags)
