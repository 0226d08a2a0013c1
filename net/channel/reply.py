"""A place where a task waits for the one callback of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Reply(Generic[T]):
    """Takes an answer or a failure. If nobody waits any more, what comes is dropped."""

    __slots__ = ("_came", "_decode", "_found")

    def __init__(self, decode: Callable[[memoryview], T]) -> None:
        self._decode = decode
        self._came = trio.Event()
        self._found: list[T | Exception] = []

    def answered(self, body: memoryview) -> None:
        """Decode the answer, while its bytes are there; `MalformedRequest` goes to the channel."""
        self._found.append(self._decode(body))
        self._came.set()

    def failed(self, error: Exception) -> None:
        """Hear that there is no answer."""
        self._found.append(error)
        self._came.set()

    async def wait(self) -> T:
        """Return what came, or raise it."""
        await self._came.wait()
        (found,) = self._found
        if isinstance(found, Exception):
            raise found
        return found
