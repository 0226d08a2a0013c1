"""Explores a system breadth first: every state that can be reached, every step between them.

Breadth first, so that the first violation found is one of the shortest, as with TLC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic

import attrs

from protocol.errors import InvariantViolation
from spec.conformance.system import Label, System, W

_REPORT_EVERY = 2_000


@attrs.define
class Judge(Generic[W]):
    """Judges states and steps by some properties; remembers the first that is broken."""

    invariants: Mapping[str, Callable[[W], bool]]
    action_properties: Mapping[str, Callable[[W, W], bool]]
    broken: str | None = None

    def state(self, state: W) -> bool:
        """Whether every invariant holds in this state."""
        for name, holds in self.invariants.items():
            if not holds(state):
                self.broken = name
                return False
        return True

    def step(self, before: W, after: W) -> bool:
        """Whether every action property holds of this step."""
        for name, holds in self.action_properties.items():
            if not holds(before, after):
                self.broken = name
                return False
        return True


@attrs.frozen
class Report:
    """How far an exploration is."""

    states: int
    edges: int
    waiting: int


OnReport = Callable[[Report], None]


@attrs.define
class Exploration(Generic[W]):
    """What was found. State number 0 is the initial one; `edges` are by these numbers.

    `broken_path` leads to the first state or by the first step that a judge would not have; or to
    the state in which a machine stopped because of an invariant of its own, `stopped_by`.
    """

    states: list[W]
    came_from: list[tuple[int, Label] | None]
    edges: list[tuple[int, Label, int]] = attrs.field(factory=list)
    broken_path: list[tuple[Label | None, W]] | None = None
    stopped_by: InvariantViolation | None = None

    def path_to(self, number: int) -> list[tuple[Label | None, W]]:
        """Give a shortest path from the initial state to this one."""
        path: list[tuple[Label | None, W]] = []
        while True:
            before = self.came_from[number]
            if before is None:
                path.append((None, self.states[number]))
                return path[::-1]
            path.append((before[1], self.states[number]))
            number = before[0]


def explore(
    system: System[W],
    *,
    judge: Judge[W] | None = None,
    constraint: Callable[[W], bool] | None = None,
    keep_edges: bool = True,
    on_report: OnReport | None = None,
) -> Exploration[W]:
    """Explore all that is reachable, or until the judge objects.

    Beyond states that do not meet the constraint nothing is explored, though they count.
    """
    first = system.initial
    found = Exploration([first], [None])
    numbers = {first: 0}
    if judge is not None and not judge.state(first):
        found.broken_path = found.path_to(0)
        return found
    edge_count = 0
    for number, state in enumerate(found.states):
        if on_report is not None and number % _REPORT_EVERY == 0:
            on_report(Report(len(found.states), edge_count, len(found.states) - number))
        if constraint is not None and not constraint(state):
            continue
        for label, after in _until_it_stops(system, found, number):
            edge_count += 1
            target = numbers.get(after)
            is_new = target is None
            if target is None:
                target = numbers[after] = len(found.states)
                found.states.append(after)
                found.came_from.append((number, label))
            if keep_edges:
                found.edges.append((number, label, target))
            if judge is not None and not _accepted(judge, state, after, is_new):
                found.broken_path = [*found.path_to(number), (label, after)]
                return found
        if found.stopped_by is not None:
            found.broken_path = found.path_to(number)
            return found
    return found


def _until_it_stops(
    system: System[W], found: Exploration[W], number: int
) -> Iterator[tuple[Label, W]]:
    """Yield the steps from a state, unless a machine would rather stop than take one of them."""
    try:
        yield from system.successors(found.states[number])
    except InvariantViolation as violation:
        found.stopped_by = violation


def _accepted(judge: Judge[W], before: W, after: W, is_new: bool) -> bool:
    return judge.step(before, after) and (not is_new or judge.state(after))
