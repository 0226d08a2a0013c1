"""The memory that requests may take: how many bytes of them there are, and buffers for large ones.

A connection has a small buffer of its own. A request that does not fit is given memory before the
rest of it is read: what its length claims has been granted, or is not allocated. Whoever finds
nothing left waits, first come, first served, so that a large request is not overtaken for ever.
"""

from __future__ import annotations

from typing import Final, Protocol

from net.server.counters import ServerCounters

_SMALLEST: Final = 64 * 2**10
_LARGEST_KEPT: Final = 4 * 2**20
_KEPT_BYTES: Final = 16 * 2**20
_MOST_GROWN: Final = 128


class Waiter(Protocol):
    """Somebody who waits for memory."""

    def granted(self, size_bytes: int) -> None:
        """Hear that the memory is there."""


class RequestQueue:
    """Counts the bytes of requests that are being received or whose answers are not sent."""

    def __init__(self, max_bytes: int, small_bytes: int, counters: ServerCounters) -> None:
        self._max_bytes = max_bytes
        self._small_bytes = small_bytes
        self._counters = counters
        self._waiting: dict[Waiter, int] = {}

    @property
    def starving(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def is_small(self, size_bytes: int) -> bool:
        """Whether a request is let in without waiting, if it is the only one of its connection."""
        return size_bytes <= self._small_bytes

    def take(self, size_bytes: int, alone: bool) -> bool:
        """Count a request, if there is room for it or nothing else is in flight."""
        counters = self._counters
        total = counters.queued_bytes + size_bytes
        fits = total <= self._max_bytes or not counters.queued_bytes
        if (fits and not self._waiting) or (alone and size_bytes <= self._small_bytes):
            counters.queued_bytes = total
            return True
        return False

    def wait(self, waiter: Waiter, size_bytes: int) -> None:
        """Stand in line; `granted` is called when the request has been counted."""
        self._counters.queue_waits += 1
        self._waiting[waiter] = size_bytes

    def leave(self, waiter: Waiter) -> None:
        """Wait no more; it is no error not to wait."""
        if self._waiting.pop(waiter, None) is not None:
            self._let_in()

    def give_back(self, size_bytes: int) -> None:
        """Count a request no more."""
        self._counters.queued_bytes -= size_bytes
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        counters, waiting = self._counters, self._waiting
        while waiting:
            waiter, size_bytes = next(iter(waiting.items()))
            total = counters.queued_bytes + size_bytes
            if total > self._max_bytes and counters.queued_bytes:
                return
            counters.queued_bytes = total
            del waiting[waiter]
            waiter.granted(size_bytes)


class BufferPool:
    """Lends buffers for large requests, and keeps some of those that come back."""

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._grown = 0

    def may_grow(self) -> bool:
        """Let a connection have a larger buffer of its own, if few enough have one."""
        if self._grown >= _MOST_GROWN:
            return False
        self._grown += 1
        return True

    def shrunk(self) -> None:
        """Hear that a connection has done with its larger buffer."""
        self._grown -= 1

    def borrow(self, size_bytes: int) -> bytearray:
        """Return a buffer of at least this size; what is in it is left from before."""
        if size_bytes > _LARGEST_KEPT:
            return bytearray(size_bytes)
        size_bytes = max(_SMALLEST, 1 << (size_bytes - 1).bit_length())
        free = self._free.get(size_bytes)
        if free:
            self._kept_bytes -= size_bytes
            return free.pop()
        return bytearray(size_bytes)

    def give_back(self, buffer: bytearray) -> None:
        """Take a buffer that nobody uses any more."""
        size_bytes = len(buffer)
        if size_bytes <= _LARGEST_KEPT and self._kept_bytes + size_bytes <= _KEPT_BYTES:
            self._kept_bytes += size_bytes
            self._free.setdefault(size_bytes, []).append(buffer)
