"""`submit` without threads: work is done in the calling thread, before `submit` returns.

Work that a callback submits is done after that callback has returned, not inside it, so that a job
of ten thousand steps needs no deeper a stack than one of two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def finish(work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
    """Do `work`, and give its result or its exception to `done`."""
    try:
        result: T | Exception = work()
    except Exception as error:
        result = error
    done(result)


class AtOnce:
    """The work that waits for the callback which submitted it."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._busy = False

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do `work`, and whatever it leads to, unless a caller further up is about to."""
        self._waiting.append((work, done))
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                finish(*self._waiting.popleft())
        finally:
            self._busy = False
