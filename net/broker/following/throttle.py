"""A bound on how fast this broker copies the partitions that are throttled.

`follower.replication.throttled.rate`: a bucket of tokens, one for each byte, that holds what comes
in a second. An answer may cost more than is there: the debt is paid before anything is asked again,
so that the rate holds in the long run whatever the size of an answer. Nothing here waits or sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

P = TypeVar("P")


class Throttle(Generic[P]):
    """The bucket, shared by all fetchers of a broker. A rate of `None` bounds nothing."""

    def __init__(
        self,
        is_throttled: Callable[[P], bool],
        bytes_per_second: Callable[[], int | None],
        clock_ms: Callable[[], int],
    ) -> None:
        self._is_throttled = is_throttled
        self._rate = bytes_per_second
        self._clock_ms = clock_ms
        self._tokens = float(bytes_per_second() or 0)
        self._filled_ms = clock_ms()

    def holds(self, partition: P) -> bool:
        """Whether this partition has to wait."""
        return self.ready_ms() > self._clock_ms() and self._is_throttled(partition)

    def spent(self, partition: P, size_bytes: int) -> None:
        """Hear that so many bytes of a partition have come."""
        if size_bytes and self._rate() is not None and self._is_throttled(partition):
            self._fill()
            self._tokens -= size_bytes

    def ready_ms(self) -> int:
        """Tell when throttled partitions may be asked for again; it may lie in the past."""
        rate = self._rate()
        if rate is None:
            return 0
        self._fill()
        if self._tokens > 0:
            return self._filled_ms
        # Rounded up to the next millisecond: at that time there is at least a part of a token.
        return self._filled_ms + int(-self._tokens * 1000 / max(rate, 1)) + 1

    def _fill(self) -> None:
        now_ms = self._clock_ms()
        rate = max(self._rate() or 0, 1)
        grown = self._tokens + (now_ms - self._filled_ms) * rate / 1000
        self._tokens = min(grown, float(rate))
        self._filled_ms = now_ms
