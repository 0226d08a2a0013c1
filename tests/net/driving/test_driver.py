"""The driver keeps the contract of `protocol.machine`, and wrong ones are seen not to."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from net.driving import Driver, Timers
from protocol.errors import InvariantViolation, RemoteProtocolError
from protocol.machine import NOTHING, Actions, Effect, Effects, Event, Machine
from protocol.testing import CONTROLLER, REPLICATION, Check, ContractBroken, checks
from tests.net.driving.adapters import Adapter, ControllerAdapter, run


@pytest.mark.parametrize("check", checks(REPLICATION), ids=str)
def test_the_driver_keeps_the_contract_with_a_replica(check: Check) -> None:
    run(check, Adapter)


@pytest.mark.parametrize("check", checks(CONTROLLER), ids=str)
def test_the_driver_keeps_the_contract_with_a_controller(check: Check) -> None:
    run(check, ControllerAdapter)


class NoQueue(Driver[Machine[Any, Any]]):
    """Handles an event amid the effects of another."""

    __slots__ = ()

    def deliver(self, event: Event) -> None:
        self._busy = False
        super().deliver(event)


class Undead(Driver[Machine[Any, Any]]):
    """Goes on after a violation."""

    __slots__ = ()

    def close(self) -> None:
        self._queue.clear()


class Forgetful(Driver[Machine[Any, Any]]):
    """Asks for the deadline at the start alone."""

    __slots__ = ()

    def deliver(self, event: Event) -> None:
        self.timers, timers = _Deaf(self.timers.clock_ms), self.timers
        super().deliver(event)
        self.timers = timers


class _Deaf(Timers):
    def watch(self, timed: object) -> None:
        pass


def broken_by(kind: type[Driver[Machine[Any, Any]]]) -> set[int]:
    """Put a driver through the suite; return the rules that it breaks."""

    class Wrong(ControllerAdapter):
        def make(self, machine: Machine[Any, Any]) -> Driver[Machine[Any, Any]]:
            return kind(machine, self.begin, self.timers, self.violations.append)

    found = set()
    for check in checks(CONTROLLER):
        try:
            run(check, Wrong)
        except ContractBroken as broken:
            found.add(broken.rule)
    return found


@pytest.mark.parametrize(("kind", "rule"), [(NoQueue, 1), (Undead, 5), (Forgetful, 3)])
def test_a_wrong_driver_is_seen_through_the_same_adapter(
    kind: type[Driver[Machine[Any, Any]]], rule: int
) -> None:
    assert rule in broken_by(kind)


class Asked(Event):
    """Somebody asks."""


class Wrong(Event):
    """Somebody sends what nobody sends."""


class Impossible(Event):
    """What must never happen."""


class Answer(Effect):
    """What asking leads to."""


class Small(Machine[int, None]):
    """Counts what it was asked."""

    actions = Actions[int, None]()
    __slots__ = ()

    def admit(self, event: Event) -> None:
        if isinstance(event, Wrong):
            raise RemoteProtocolError("nobody sends this")
        if isinstance(event, Impossible):
            raise InvariantViolation("Small", event, "it came")

    def next_deadline(self) -> int | None:
        return None

    def due(self, now_ms: int) -> tuple[Event, ...]:
        del now_ms
        return ()


@Small.actions("Ask", Asked)
def ask(rules: None, state: int, event: Asked, now_ms: int) -> tuple[int, Effects]:
    del rules, event, now_ms
    return state + 1, (Answer(),)


@Small.actions("Wrong", Wrong)
def wrong(rules: None, state: int, event: Wrong, now_ms: int) -> tuple[int, Effects]:
    del rules, event, now_ms
    return state, NOTHING


@Small.actions("Impossible", Impossible)
def impossible(rules: None, state: int, event: Impossible, now_ms: int) -> tuple[int, Effects]:
    del rules, event, now_ms
    return state, NOTHING


def small(
    begin: Callable[[Effect], None],
    violated: Callable[[InvariantViolation], None] = lambda _: None,
) -> Driver[Small]:
    return Driver(Small(0, None), begin, Timers(lambda: 0), violated)


def test_who_sends_what_nobody_sends_is_told_and_the_machine_goes_on() -> None:
    begun: list[Effect] = []
    driver = small(begun.append)
    with pytest.raises(RemoteProtocolError, match="nobody sends this"):
        driver.deliver(Wrong())
    driver.deliver(Asked())
    assert len(begun) == 1


def test_what_waited_has_nobody_left_to_tell_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: list[Effect] = []

    def begin(effect: Effect) -> None:
        begun.append(effect)
        if len(begun) == 1:
            driver.deliver(Wrong())
            driver.deliver(Asked())

    driver = small(begin)
    with caplog.at_level(logging.WARNING):
        driver.deliver(Asked())
    assert "nobody sends this" in caplog.text
    assert len(begun) == 2


def test_a_violation_is_told_once_and_nothing_is_handled_after_it() -> None:
    told: list[InvariantViolation] = []
    begun: list[Effect] = []
    driver = small(begun.append, told.append)
    driver.deliver(Impossible())
    driver.deliver(Impossible())
    driver.deliver(Asked())
    assert [each.name for each in told] == ["Small"]
    assert begun == []
    assert driver.next_deadline() is None


def test_who_is_closed_amid_effects_handles_nothing_more() -> None:
    begun: list[Effect] = []

    def begin(effect: Effect) -> None:
        begun.append(effect)
        driver.deliver(Asked())
        driver.close()

    driver = small(begin)
    driver.deliver(Asked())
    assert len(begun) == 1


def test_an_effect_that_cannot_be_begun_does_not_leave_the_driver_busy() -> None:
    begun: list[Effect] = []

    def begin(effect: Effect) -> None:
        begun.append(effect)
        if len(begun) == 1:
            raise OSError("cannot")

    driver = small(begin)
    with pytest.raises(OSError, match="cannot"):
        driver.deliver(Asked())
    driver.deliver(Asked())
    assert len(begun) == 2
