"""One timer for all machines of a node: a heap of deadlines, and one task that waits for the next.

A machine's deadline changes with nearly every event, and mostly moves away. So an entry is not
taken out when it changes: it stays, and when it comes up the machine is asked what is due. Only a
deadline that comes nearer adds an entry.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Final, Protocol

import trio

from net.clock import now_ms

_SWEEP_AT: Final = 1_000
"""The heap is looked through when it has grown to this, and to twice what it then has."""


class Timed(Protocol):
    """Somebody who has something to do at certain times."""

    armed_ms: float
    """The earliest entry that the timers have; infinity for none. Theirs to change."""

    def next_deadline(self) -> int | None:
        """Tell when something is due; None for never."""

    def ring(self) -> None:
        """Do what is due by now."""


class Timers:
    """The deadlines of a node. `run` is the task that keeps them."""

    def __init__(self, clock_ms: Callable[[], int] = now_ms) -> None:
        self.clock_ms = clock_ms
        self._heap: list[tuple[int, int, Timed]] = []
        self._count = 0
        self._sleep = trio.CancelScope()
        self._until_ms = math.inf
        self._sweep_at = _SWEEP_AT

    def watch(self, timed: Timed) -> None:
        """Hear that a deadline may have changed."""
        deadline_ms = timed.next_deadline()
        if deadline_ms is None or deadline_ms >= timed.armed_ms:
            return
        timed.armed_ms = deadline_ms
        self._count += 1
        heapq.heappush(self._heap, (deadline_ms, self._count, timed))
        if len(self._heap) > self._sweep_at:
            self._sweep()
        if deadline_ms < self._until_ms:
            self._sleep.cancel()

    def _sweep(self) -> None:
        """Drop entries that ring nobody: who comes nearer again and again leaves them behind."""
        live = {id(each[2]): each for each in self._heap if each[2].armed_ms == each[0]}
        self._heap = list(live.values())
        heapq.heapify(self._heap)
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._heap))

    def call_later(self, wait_ms: int, call: Callable[[], None]) -> OneShot:
        """Call somebody once, when this time is over, unless it is cancelled before."""
        shot = OneShot(self.clock_ms() + wait_ms, call)
        self.watch(shot)
        return shot

    def ring_due(self) -> None:
        """Ring everybody whose time has come."""
        # Only what is here now: who is always due must not keep everybody else from running.
        now = self.clock_ms()
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap))
        for deadline_ms, _, timed in due:
            if timed.armed_ms == deadline_ms:
                timed.armed_ms = math.inf
                timed.ring()
                self.watch(timed)

    @property
    def next_ms(self) -> float:
        """When somebody is to be rung next."""
        return self._heap[0][0] if self._heap else math.inf

    async def run(self) -> None:
        """Ring everybody in time, until cancelled."""
        while True:
            self.ring_due()
            with trio.CancelScope() as self._sleep:
                self._until_ms = self.next_ms
                wait_ms = self._until_ms - self.clock_ms()
                if wait_ms <= 0:
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.sleep(wait_ms / 1000)
            self._until_ms = -math.inf


class OneShot:
    """A call that is to be made once."""

    __slots__ = ("_call", "_due_ms", "armed_ms")

    def __init__(self, due_ms: int, call: Callable[[], None]) -> None:
        self.armed_ms = math.inf
        self._due_ms: int | None = due_ms
        self._call: Callable[[], None] | None = call

    def next_deadline(self) -> int | None:
        """Tell when to call; None when that is over."""
        return self._due_ms

    def ring(self) -> None:
        """Call."""
        call, self._call, self._due_ms = self._call, None, None
        if call is not None:
            call()

    def cancel(self) -> None:
        """Do not call any more."""
        self._call = self._due_ms = None
