"""Compares an explored system with TLC's state graph: the same states, the same labelled edges.

Both sides are numbered alike: two states have the same number exactly if they are the same state of
the spec. Then a difference is a difference of two sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from spec.conformance.explore import Exploration
from spec.conformance.system import System, W
from spec.runner import Graph, State, Value

Number: TypeAlias = int
LabelledEdge: TypeAlias = tuple[Number, str, Number]


class Numbering:
    """Gives every state of the spec one number, whichever side it comes from."""

    def __init__(self, variables: Iterable[str]) -> None:
        self._values: dict[str, dict[Value, int]] = {name: {} for name in variables}
        self._states: dict[tuple[int, ...], Number] = {}
        self.states: list[State] = []

    def number(self, state: State) -> Number:
        """Give this state's number."""
        if state.keys() != self._values.keys():
            raise ValueError(f"a state with the variables {sorted(state)}")
        key = tuple(
            values.setdefault(state[name], len(values)) for name, values in self._values.items()
        )
        number = self._states.get(key)
        if number is None:
            number = self._states[key] = len(self.states)
            self.states.append(state)
        return number


@attrs.frozen
class Side:
    """One side of the comparison."""

    initial: frozenset[Number]
    states: frozenset[Number]
    edges: frozenset[LabelledEdge]


@attrs.frozen
class Comparison:
    """What came of it. `unstable` are states of the spec for which the code has several, with
    different successors: then something that is not projected matters after all."""

    spec: Side
    code: Side
    concrete_states: int
    unstable: frozenset[Number]
    numbering: Numbering
    path: tuple[tuple[str | None, State], ...] = ()
    """A shortest path to a state at which the two differ."""
    differs_at: Number | None = None

    @property
    def equal(self) -> bool:
        """Whether the two sides are the same graph."""
        return self.spec == self.code and not self.unstable

    def successors(self, side: Side) -> Mapping[tuple[str, Number], State]:
        """List what may follow the state at which the two differ."""
        return {
            (action, target): self.numbering.states[target]
            for source, action, target in side.edges
            if source == self.differs_at
        }


def compare(exploration: Exploration[W], graph: Graph, system: System[W]) -> Comparison:
    """Compare the code's graph with the spec's."""
    numbering = Numbering(system.project(system.initial))
    spec = _spec_side(graph, numbering)
    numbers = [numbering.number(system.project(state)) for state in exploration.states]
    edges = frozenset(
        (numbers[source], label[0], numbers[target]) for source, label, target in exploration.edges
    )
    code = Side(frozenset({numbers[0]}), frozenset(numbers), edges)
    unstable = _unstable(exploration, numbers)
    found = Comparison(spec, code, len(numbers), unstable, numbering)
    if found.equal:
        return found
    at = _first_difference(found, numbers)
    if at is None:
        return found
    path = [
        (label[0] if label else None, system.project(state))
        for label, state in exploration.path_to(at)
    ]
    return attrs.evolve(found, path=tuple(path), differs_at=numbers[at])


def _spec_side(graph: Graph, numbering: Numbering) -> Side:
    numbers = {name: numbering.number(state) for name, state in graph.states.items()}
    edges = frozenset(
        (numbers[source], action or "", numbers[target]) for source, action, target in graph.edges
    )
    initial = frozenset(numbers[name] for name in graph.initial)
    return Side(initial, frozenset(numbers.values()), edges)


def _unstable(exploration: Exploration[W], numbers: list[Number]) -> frozenset[Number]:
    """Find the states of the spec whose several states in the code have different successors."""
    successors: list[set[tuple[str, Number]]] = [set() for _ in numbers]
    for source, label, target in exploration.edges:
        successors[source].add((label[0], numbers[target]))
    first: dict[Number, int] = {}
    return frozenset(
        number
        for index, number in enumerate(numbers)
        if successors[first.setdefault(number, index)] != successors[index]
    )


def _first_difference(found: Comparison, numbers: list[Number]) -> int | None:
    """Find the earliest explored state whose successors are not the spec's.

    States are explored breadth first, so the first one is one of the nearest.
    """
    sources = {source for source, _, _ in found.spec.edges ^ found.code.edges} | found.unstable
    return next((index for index, number in enumerate(numbers) if number in sources), None)
