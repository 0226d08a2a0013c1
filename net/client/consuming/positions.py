"""Where a consumer is in each partition, and what it waits for there."""

from __future__ import annotations

from net.client.consuming.fetched import Fetched


class Position:
    """One partition of a consumer."""

    __slots__ = (
        "epoch",
        "error",
        "fetched",
        "fetching",
        "generation",
        "high_watermark",
        "offset",
        "partition",
        "paused",
        "preferred",
        "preferred_until_ms",
        "reset_ms",
        "retry_ms",
        "topic",
        "validated_epoch",
    )

    def __init__(self, topic: str, partition: int, reset_ms: int | None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset: int | None = None
        """The next record to be given; None until it is looked up."""
        self.epoch = -1
        """The leader epoch of the record before."""
        self.validated_epoch = -1
        """The leader's epoch in which the position is known to be good."""
        self.reset_ms = reset_ms
        """The time whose offset is to be looked up; -1 and -2 for the ends."""
        self.paused = False
        self.fetched: Fetched | None = None
        self.fetching = False
        self.generation = 0
        """Raised when the position jumps: answers to earlier questions are not for it."""
        self.high_watermark = -1
        self.error: Exception | None = None
        self.retry_ms = 0
        self.preferred = -1
        self.preferred_until_ms = 0

    def jump(self, offset: int | None, reset_ms: int | None = None, epoch: int = -1) -> None:
        """Go elsewhere, and forget what was fetched."""
        self.offset = offset
        self.reset_ms = reset_ms
        self.epoch = epoch
        self.validated_epoch = -1
        self.fetched = None
        self.fetching = False
        self.error = None
        self.retry_ms = 0
        self.preferred = -1
        self.generation += 1

    def may_fetch(self, now_ms: int) -> bool:
        """Whether more is wanted, and nothing is in the way."""
        return (
            self.offset is not None
            and not self.paused
            and not self.fetching
            and self.fetched is None
            and self.error is None
            and self.retry_ms <= now_ms
        )
