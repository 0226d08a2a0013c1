"""The driver of one machine: events in, effects begun, deadlines kept.

It is synchronous. An event is handled at once, and effects are begun by a plain call; what takes
time (a disk, another node) comes back as another event. An event that arrives while effects are
being begun waits for its turn. It knows no machine in particular, and no disk or network.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from net.driving.timers import Timers
from protocol.errors import InvariantViolation, RemoteProtocolError
from protocol.machine import Effect, Event, Machine

_log = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine[Any, Any])


class Driver(Generic[M]):
    """Runs a machine until it is closed, or until it says that what must not happen did."""

    __slots__ = (
        "_begin",
        "_busy",
        "_queue",
        "_settled",
        "_violated",
        "armed_ms",
        "closed",
        "machine",
        "timers",
    )

    def __init__(
        self,
        machine: M,
        begin: Callable[[Effect], None],
        timers: Timers,
        violated: Callable[[InvariantViolation], None],
        settled: Callable[[], None] | None = None,
    ) -> None:
        """`settled` is called when an event, and all that it led to, has been handled."""
        self.machine = machine
        self.timers = timers
        self.closed = False
        self.armed_ms = math.inf
        self._begin = begin
        self._violated = violated
        self._settled = settled
        self._queue: deque[Event] = deque()
        self._busy = False
        timers.watch(self)

    def deliver(self, event: Event) -> None:
        """Let an event be handled: now, or after those that came before.

        A `RemoteProtocolError` comes out of here if the event is handled now; one that waited has
        nobody left to tell, and is logged.
        """
        if self.closed:
            return
        if self._busy:
            self._queue.append(event)
            return
        self._busy = True
        try:
            self._handle(event)
        finally:
            try:
                if self._queue:
                    self._drain()
            finally:
                self._busy = False
        if not self.closed:
            self.timers.watch(self)
            if self._settled is not None:
                self._settled()

    def _drain(self) -> None:
        queue = self._queue
        while queue and not self.closed:
            try:
                self._handle(queue.popleft())
            except RemoteProtocolError as error:
                _log.warning("dropped: %s", error)

    def _handle(self, event: Event) -> None:
        try:
            effects = self.machine.handle(event, self.timers.clock_ms())
        except InvariantViolation as violation:
            self.close()
            self._violated(violation)
            return
        for effect in effects:
            self._begin(effect)

    def next_deadline(self) -> int | None:
        """Tell when the machine has something to do."""
        return None if self.closed else self.machine.next_deadline()

    def ring(self) -> None:
        """Let the machine do what is due by now."""
        if self.closed:
            return
        for event in self.machine.due(self.timers.clock_ms()):
            self.deliver(event)

    def close(self) -> None:
        """Use the machine no more."""
        self.closed = True
        self._queue.clear()
