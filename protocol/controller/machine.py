"""The controller as a machine: its table, its invariants, and when it has something to do."""

from __future__ import annotations

from protocol.controller.actions import action
from protocol.controller.events import LeaderlessDue, SessionExpired, UncleanDue
from protocol.controller.invariants import check_step
from protocol.controller.rules import ControllerRules
from protocol.controller.state import ControllerState
from protocol.machine import Event, Machine

AT_ONCE_MS = 0


class Controller(Machine[ControllerState, ControllerRules]):
    """The pure part of a controller. Begins inactive; `BecameActive` brings its image."""

    actions = action

    __slots__ = ()

    def check(self, event: Event, before: ControllerState, after: ControllerState) -> None:
        """Hold the partitions that changed against the invariants."""
        check_step(event, before, after)

    def next_deadline(self) -> int | None:
        """Elections are due at once; otherwise the next session's end. Costs a look at each."""
        if self.state.elections:
            return AT_ONCE_MS
        if not self.state.heard_ms:
            return None
        return min(self.state.heard_ms.values()) + self.state.config.session_timeout_ms

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Sessions that have run out, the longest first; then elections, by partition."""
        state = self.state
        heard_by_ms = now_ms - state.config.session_timeout_ms
        silent = sorted(
            (heard_ms, node) for node, heard_ms in state.heard_ms.items() if heard_ms <= heard_by_ms
        )
        elections = (
            UncleanDue(topic, index) if unclean else LeaderlessDue(topic, index)
            for (topic, index), unclean in sorted(state.elections.items())
        )
        return (*(SessionExpired(node) for _, node in silent), *elections)
