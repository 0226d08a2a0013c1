"""Who waits for the answer to a command, and for how long.

A command is answered once: by the controller, or because its time is over, whichever comes first.
What it asked for may still happen in the latter case.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Final, TypeAlias

from net.driving import Timers
from protocol.controller import Refuse, Reply
from protocol.errors import ErrorCode

Done: TypeAlias = Callable[[Reply | Refuse], None]

_SLACK: Final = 64


class Waiting:
    """Everybody who waits, by the correlation of their command. `Timers` ring it."""

    def __init__(self, timers: Timers) -> None:
        self.armed_ms = math.inf
        self._timers = timers
        self._done: dict[int, Done] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._done)

    def add(self, done: Done, timeout_ms: int | None) -> int:
        """Let somebody wait; returns the correlation for the command."""
        self._count += 1
        self._done[self._count] = done
        if timeout_ms is not None:
            deadline_ms = self._timers.clock_ms() + max(timeout_ms, 0)
            heapq.heappush(self._deadlines, (deadline_ms, self._count))
            self._timers.watch(self)
        return self._count

    def answer(self, answer: Reply | Refuse) -> None:
        """Tell who waits for this; nobody, if their time was over."""
        correlation = answer.correlation
        done = self._done.pop(correlation, None) if isinstance(correlation, int) else None
        if done is not None:
            done(answer)

    def refuse_all(self, error: ErrorCode, message: str) -> None:
        """Tell everybody that nothing will come."""
        for correlation in list(self._done):
            self.answer(Refuse(correlation, error, message))

    def next_deadline(self) -> int | None:
        """Tell whose time is over first."""
        heap = self._deadlines
        # Most are answered long before their time; what they leave behind must not pile up.
        if len(heap) > 2 * len(self._done) + _SLACK:
            heap[:] = [each for each in heap if each[1] in self._done]
            heapq.heapify(heap)
        while heap and heap[0][1] not in self._done:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def ring(self) -> None:
        """Tell those whose time is over."""
        now_ms = self._timers.clock_ms()
        heap = self._deadlines
        while heap and heap[0][0] <= now_ms:
            _, correlation = heapq.heappop(heap)
            self.answer(
                Refuse(
                    correlation,
                    ErrorCode.REQUEST_TIMED_OUT,
                    "it was not durable in time; it may yet be, or not",
                )
            )
