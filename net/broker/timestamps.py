"""Which times the records of a topic may have, and whose clock they come from."""

from __future__ import annotations

import attrs

from net.settings.topic import TopicSettings
from storage.batch.header import NO_TIMESTAMP


@attrs.frozen
class TimestampPolicy:
    """A topic's `message.timestamp.*` settings."""

    log_append_time: bool
    before_max_ms: int
    after_max_ms: int

    @classmethod
    def of(cls, topic: TopicSettings) -> TimestampPolicy:
        """Pick what matters here out of a topic's settings."""
        return cls(
            topic.message_timestamp_type == "LogAppendTime",
            topic.message_timestamp_before_max_ms,
            topic.message_timestamp_after_max_ms,
        )

    def accepts(self, timestamp_ms: int, now_ms: int) -> bool:
        """Whether a record may have this time; a batch is judged by its newest record."""
        if timestamp_ms == NO_TIMESTAMP:
            return True
        return now_ms - timestamp_ms <= self.before_max_ms and (
            timestamp_ms - now_ms <= self.after_max_ms
        )
