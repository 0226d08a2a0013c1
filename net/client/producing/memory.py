"""The bytes that records on their way may take together. Who comes first is served first."""

from __future__ import annotations

from collections import deque

import trio

from net.client.errors import BufferExhausted, RecordTooLarge


class Memory:
    """A bound on memory, to take from and to give back to."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.free_bytes = limit_bytes
        self._waiting: deque[tuple[int, trio.Event]] = deque()

    @property
    def is_short(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def take_now(self, size_bytes: int) -> bool:
        """Take if there is room and nobody waits; say whether it was taken."""
        if size_bytes > self.limit_bytes:
            raise RecordTooLarge(f"{size_bytes} bytes, where the buffer has {self.limit_bytes}")
        if self._waiting or size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    async def take(self, size_bytes: int, timeout_ms: int) -> None:
        """Wait for room; `BufferExhausted` if none comes in time."""
        if self.take_now(size_bytes):
            return
        ticket = (size_bytes, trio.Event())
        self._waiting.append(ticket)
        try:
            with trio.fail_after(timeout_ms / 1000):
                await ticket[1].wait()
        except trio.TooSlowError:
            self._withdraw(ticket)
            raise BufferExhausted(f"no {size_bytes} bytes came free in {timeout_ms} ms") from None
        except BaseException:
            self._withdraw(ticket)
            raise

    def _withdraw(self, ticket: tuple[int, trio.Event]) -> None:
        if ticket[1].is_set():
            self.give(ticket[0])
        else:
            self._waiting.remove(ticket)
            self._serve()

    def give(self, size_bytes: int) -> None:
        """Give back."""
        self.free_bytes += size_bytes
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free_bytes:
            size_bytes, served = self._waiting.popleft()
            self.free_bytes -= size_bytes
            served.set()
