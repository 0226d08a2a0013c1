"""The bytes that have come on a connection, cut into frames in place.

One buffer is used again and again. It grows only as bytes really come, whatever a length says, and
becomes small again when large answers have stopped coming.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from net.wire.frames import LENGTH_BYTES, read_length

SMALL_BYTES: Final = 64 * 1024
_CALM_FRAMES: Final = 100
"""After so many frames that would have fitted, a large buffer is given back."""


class Inbox:
    """A buffer that is filled at its end and read frame by frame."""

    __slots__ = ("_buffer", "_calm", "_end", "_max_frame_bytes", "_start")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = memoryview(bytearray(SMALL_BYTES))
        self._start = self._end = 0
        self._calm = 0

    @property
    def capacity_bytes(self) -> int:
        """How large the buffer is now."""
        return len(self._buffer)

    def room(self) -> memoryview:
        """Return where the next bytes may be put; there is always some room."""
        if self._start == self._end:
            self._start = self._end = 0
            if self._calm >= _CALM_FRAMES and len(self._buffer) > SMALL_BYTES:
                self._buffer = memoryview(bytearray(SMALL_BYTES))
        if self._end == len(self._buffer):
            self._make_room()
        return self._buffer[self._end :]

    def _make_room(self) -> None:
        rest = self._buffer[self._start : self._end]
        size = len(self._buffer)
        # Half empty: moving is enough. Otherwise the frame is larger than the buffer, or nearly.
        if self._start < size // 2:
            size *= 2
        # Always a new one: somebody may be looking at a frame in the old one.
        grown = memoryview(bytearray(size))
        grown[: len(rest)] = rest
        self._buffer, self._start, self._end = grown, 0, len(rest)

    def came(self, count: int) -> None:
        """Hear that so many bytes were put into the room."""
        self._end += count

    def frames(self) -> Iterator[memoryview]:
        """Yield the frames that are whole, without their lengths; each until the next is asked for.

        `MalformedRequest` if a length is negative or larger than is allowed.
        """
        while self._end - self._start >= LENGTH_BYTES:
            size = read_length(self._buffer, self._start, self._max_frame_bytes)
            first = self._start + LENGTH_BYTES
            if self._end - first < size:
                return
            self._start = first + size
            self._calm = self._calm + 1 if size <= SMALL_BYTES // 2 else 0
            yield self._buffer[first : first + size].toreadonly()
