"""The controllers of `recording`: one is active, and another takes over from what was committed.

What is decided is committed at once, unless the controller is doomed: then its next decision is in
its trace and in nobody's metadata, and the next controller starts without it.
"""

from __future__ import annotations

from typing import Any

from protocol.controller import Controller, ControllerConfig, ControllerState
from protocol.controller.effects import AppendRecords
from protocol.controller.events import BecameActive, RecordsCommitted
from protocol.controller.state import Image
from protocol.controller.trace import ControllerTracer
from protocol.machine import Event, Handled
from protocol.replication.trace import Line
from spec.conformance.tracing.plan import Plan


class Controllers:
    """Whoever is the active controller; `image` is what was committed."""

    def __init__(self, plan: Plan, lines: list[Line]) -> None:
        self.image = Image()
        self.epoch = 0
        self.doomed = False
        self._plan = plan
        self._lines = lines
        self._told: list[Handled[Any]] = []
        self._offset = 0
        self._last_epoch = 0
        self._begins = (0, 0)
        self._take_over(0)

    def command(self, event: Event, received: str | None, now_ms: int) -> tuple[list[object], bool]:
        """Handle something; give the answers, and whether there is a new image."""
        answers: list[object] = []
        news = False
        for effect in self._handle(event, received, now_ms):
            if not isinstance(effect, AppendRecords):
                answers.append(effect)
                continue
            if self.doomed:
                self.doomed = False
                self.epoch += 1
                self._take_over(now_ms)
                return [], False
            self._offset = effect.base_offset + len(effect.records)
            self._last_epoch = self.epoch
            answers += self._handle(RecordsCommitted(self._offset), None, now_ms)
            self.image = self._active.state.image
            news = True
        return answers, news

    def next_deadline(self) -> int | None:
        """Tell when something is due."""
        return self._active.next_deadline()

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now."""
        return self._active.due(now_ms)

    def _take_over(self, now_ms: int) -> None:
        config = ControllerConfig(session_timeout_ms=300)
        state = ControllerState(config)
        self._active = Controller(state, self._plan.controller_rules, self._told.append)
        self._tracer = ControllerTracer()
        self._begins = (self._offset, self._last_epoch)
        self._handle(BecameActive(self.image, self._offset), None, now_ms)

    def _handle(self, event: Event, received: str | None, now_ms: int) -> tuple[Any, ...]:
        effects = self._active.handle(event, now_ms)
        said: Line = {"incarnation": self.epoch, "begins": list(self._begins)}
        for effect in effects:
            if isinstance(effect, AppendRecords):
                said["offset"] = effect.base_offset
        for told in self._told:
            for line in self._tracer.lines(told, received):
                # Written before its records are sent to anybody: none that lasts is missing.
                self._lines.append(line | said)
        self._told.clear()
        return effects
