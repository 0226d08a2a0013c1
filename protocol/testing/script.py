"""A machine that plays a script: which event has which effects, and what is due from then on.

It has no protocol in it, so that a check can ask for exactly what it wants to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from protocol.errors import InvariantViolation
from protocol.machine import NOTHING, Action, Actions, Effects, Event, Machine
from protocol.testing.vocabulary import Vocabulary

Agenda: TypeAlias = tuple[tuple[int, Event], ...]
"""What is due when."""


@attrs.frozen
class Step:
    """What an event leads to. `agenda` None: what was due stays so; `violates`: it must not be."""

    effects: Effects = NOTHING
    agenda: Agenda | None = None
    violates: bool = False


Script: TypeAlias = Mapping[Event, Step]


class ScriptedMachine(Machine[Agenda, Script]):
    """A machine whose state is its agenda, and whose rules are a script."""

    actions = Actions[Any, Any]()
    __slots__ = ()

    def __init__(self, script: Script, vocabulary: Vocabulary) -> None:
        super().__init__((), script)
        self._table = {kind: Action("Play", (), kind, play) for kind in vocabulary.kinds()}

    def next_deadline(self) -> int | None:
        """Tell when something is due next."""
        return min((at_ms for at_ms, _ in self.state), default=None)

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now."""
        return tuple(event for at_ms, event in self.state if at_ms <= now_ms)


def play(script: Script, agenda: Agenda, event: Event, now_ms: int) -> tuple[Agenda, Effects]:
    """Do what the script says. An event that it does not mention changes nothing."""
    if any(each == event and at_ms > now_ms for at_ms, each in agenda):
        # Due, but not yet: as for a real machine, nothing happens.
        return agenda, NOTHING
    step = script.get(event, Step())
    if step.violates:
        raise InvariantViolation("Script", event, "the script has it so")
    left = tuple(entry for entry in agenda if entry[1] != event)
    return left if step.agenda is None else step.agenda, step.effects
