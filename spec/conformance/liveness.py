"""Liveness of an explored system: a fair behaviour in which what must happen in the end does not.

Every property here is of the form "in the end always P". Under weak fairness it is broken exactly
if there is a reachable strongly connected component that has a state in which P does not hold, and
in which every fair action is taken, or is not enabled somewhere: going round such a component for
ever is fair, and never settles in P. A state that nothing leads away from is such a component if no
fair action is enabled there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic

import attrs

from spec.conformance.explore import Exploration
from spec.conformance.system import Label, System, W

# Stands for all fair steps of a system in which they are fair together.
_HEAL: Label = ("Heal", ())


@attrs.frozen
class Lasso(Generic[W]):
    """A path to a component in which a fair behaviour may stay for ever, and the component."""

    path: list[tuple[Label | None, W]]
    cycle: frozenset[int]


def fair_lasso(
    system: System[W], found: Exploration[W], settles: Callable[[W], bool]
) -> Lasso[W] | None:
    """Find a fair behaviour that never settles, reached by the shortest path; None if none is."""
    successors: list[list[tuple[Label, int]]] = [[] for _ in found.states]
    for source, label, target in found.edges:
        if source != target:
            successors[source].append((label, target))
    bad: list[tuple[int, frozenset[int]]] = []
    for component in _components(successors):
        unsettled = [state for state in component if not settles(found.states[state])]
        if unsettled and _is_fair(system, component, successors, found.states):
            bad.append((min(unsettled), component))
    if not bad:
        return None
    nearest, component = min(bad, key=lambda each: len(found.path_to(each[0])))
    return Lasso(found.path_to(nearest), component)


def _is_fair(
    system: System[W],
    component: frozenset[int],
    successors: list[list[tuple[Label, int]]],
    states: list[W],
) -> bool:
    """Whether going round for ever gives every fair action its turn, or disables it."""
    always: set[Label] | None = None
    taken: set[Label] = set()
    for state in component:
        here = states[state]
        fair = [
            (_HEAL if system.fair_together else label, to)
            for label, to in successors[state]
            if system.is_fair(label, here)
        ]
        taken |= {label for label, to in fair if to in component}
        enabled = {label for label, _ in fair}
        always = enabled if always is None else always & enabled
    return not (always or set()) - taken


def _components(successors: list[list[tuple[Label, int]]]) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components (Tarjan, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(successors)):
        if root in order:
            continue
        work = [(root, iter(successors[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            state, rest = work[-1]
            for _, target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(successors[target])))
                    break
                if target in on_stack:
                    low[state] = min(low[state], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[state])
                if low[state] == order[state]:
                    yield _popped(state, stack, on_stack)


def _popped(root: int, stack: list[int], on_stack: set[int]) -> frozenset[int]:
    component = set()
    while True:
        state = stack.pop()
        on_stack.discard(state)
        component.add(state)
        if state == root:
            return frozenset(component)
