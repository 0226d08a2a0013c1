"""Correlation ids: one counter for all channels of a node, so that an id names one request."""

from __future__ import annotations

from typing import Final

_MOST: Final = 2**31 - 1


class Correlations:
    """Counts requests; after the largest number of 32 bits it starts again."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def take(self) -> int:
        """Return the next one."""
        self._last = 1 if self._last == _MOST else self._last + 1
        return self._last
