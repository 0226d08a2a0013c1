"""Bytes that came on one connection and are not served yet; messages are read where they lie."""

from __future__ import annotations

from typing import Final

from net.server.memory import BufferPool
from net.wire.frames import LENGTH, LENGTH_BYTES

OWN_BYTES: Final = 8 * 2**10
MEDIUM_BYTES: Final = 96 * 2**10
GROWN_BYTES: Final = 256 * 2**10
"""Several messages of medium size are received, served and answered at a time."""


class Input:
    """A small buffer, and a borrowed one while a message is received that does not fit.

    Whoever sends messages of medium size gets a larger buffer of its own, as long as there are not
    too many of these, and has it until it pauses.
    """

    __slots__ = ("_borrowed", "_cold", "_end", "_own", "_pool", "_start", "_view")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._own = memoryview(bytearray(OWN_BYTES))
        self._borrowed: bytearray | None = None
        self._view = self._own
        self._start = 0
        self._end = 0
        self._cold = False

    @property
    def held_bytes(self) -> int:
        """How many bytes are here."""
        return self._end - self._start

    @property
    def has_borrowed(self) -> bool:
        """Whether a large message is being received."""
        return self._borrowed is not None

    def next_size(self) -> int | None:
        """Return how long the next message claims to be, without its length; `None` if unknown."""
        if self._end - self._start < LENGTH_BYTES:
            return None
        size: int = LENGTH.unpack_from(self._view, self._start)[0]
        return size

    def fits(self, whole_bytes: int) -> bool:
        """Whether a message can be received without more memory."""
        return whole_bytes <= len(self._view)

    def borrow(self, whole_bytes: int) -> None:
        """Get the memory for a large message, which has begun."""
        held = self._end - self._start
        if whole_bytes <= MEDIUM_BYTES and self._pool.may_grow():
            self._own = memoryview(bytearray(GROWN_BYTES))
            self._own[:held] = self._view[self._start : self._end]
            self._view, self._start, self._end = self._own, 0, held
            return
        self._borrowed = self._pool.borrow(whole_bytes)
        # Nothing but this message goes in there, so it is empty when the message is taken.
        view = memoryview(self._borrowed)[:whole_bytes]
        view[:held] = self._view[self._start : self._end]
        self._view, self._start, self._end = view, 0, held

    def room(self) -> memoryview:
        """Return where the next bytes go. It is never empty if what is held is incomplete."""
        if self._start:
            held = self._end - self._start
            if self._cold:
                self._shrink(held)
            elif held:
                self._view[:held] = self._view[self._start : self._end]
            self._start, self._end = 0, held
        return self._view[self._end :]

    def paused(self) -> None:
        """Hear that nothing came for a while."""
        self._cold = len(self._own) > OWN_BYTES

    def _shrink(self, held: int) -> None:
        """Go back to the small buffer, if what is held is no large message."""
        self._cold = False
        view = self._view
        if held <= OWN_BYTES and self._borrowed is None:
            self._own = memoryview(bytearray(OWN_BYTES))
            self._view = self._own
            self._pool.shrunk()
        self._view[:held] = view[self._start : self._end]

    def close(self) -> None:
        """Give everything back."""
        self.taken()
        if len(self._own) > OWN_BYTES:
            self._pool.shrunk()
            self._own = self._view = memoryview(bytearray())

    def came(self, count: int) -> None:
        """Hear that bytes were put there."""
        self._end += count

    def take(self, whole_bytes: int) -> memoryview:
        """Return a message that is complete, without its length."""
        start = self._start
        self._start = start + whole_bytes
        return self._view[start + LENGTH_BYTES : self._start]

    def taken(self) -> None:
        """Hear that the message taken last is not needed any more."""
        if self._borrowed is not None:
            self._pool.give_back(self._borrowed)
            self._borrowed = None
            self._view = self._own
            self._start = self._end = 0
