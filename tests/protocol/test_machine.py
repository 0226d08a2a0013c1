"""What every machine promises, whatever it is about."""

from __future__ import annotations

import pytest

from protocol.errors import InvariantViolation
from protocol.machine import NOTHING, Actions, Effects, Event, Handled, Machine


class Counted(Event):
    """One more."""


class Unknown(Event):
    """Something that nobody has registered."""


class Counter(Machine[int, None]):
    """Counts to three, and would rather stop than count on."""

    actions = Actions[int, None]()
    __slots__ = ()

    def check(self, event: Event, before: int, after: int) -> None:
        """Three is the most."""
        if after > 3:
            raise InvariantViolation("AtMostThree", event, f"{after} comes after {before}")

    def next_deadline(self) -> int | None:
        """Never."""
        return None

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Nothing, whatever the time is."""
        return () if now_ms >= 0 else (Counted(),)


@Counter.actions("Count", Counted)
def count(rules: None, state: int, event: Counted, now_ms: int) -> tuple[int, Effects]:
    """Count."""
    del rules, event, now_ms
    return state + 1, NOTHING


def test_an_event_that_no_action_is_registered_for_is_a_mistake_of_the_caller() -> None:
    machine = Counter(0, None)
    with pytest.raises(TypeError, match="Counter knows no event Unknown"):
        machine.handle(Unknown(), 0)
    assert machine.state == 0


def test_an_event_has_one_action() -> None:
    with pytest.raises(ValueError, match="Counted has an action already"):
        Counter.actions("CountAgain", Counted)(count)


def test_a_broken_invariant_leaves_the_state_before_it_and_is_not_traced() -> None:
    told: list[Handled[int]] = []
    machine = Counter(2, None, told.append)
    machine.handle(Counted(), 7)
    with pytest.raises(InvariantViolation, match="AtMostThree is broken by Counted: 4 comes after"):
        machine.handle(Counted(), 8)
    assert machine.state == 3
    assert [(each.action.name, each.before, each.after, each.now_ms) for each in told] == [
        ("Count", 2, 3, 7)
    ]
