"""Replays a scenario on the machines: each step that TLC took, taken by the code.

A scenario is a behaviour of the spec: states, and the actions between them. From each state the
code must have a step of that name to the next one. Where it has none, the replay ends and tells
what the code could have done instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from spec.conformance.system import Label, System, W
from spec.runner import State, Step, Trace, Value, same_value


@attrs.frozen
class Replayed:
    """A step that the code took as well, with its parameters; the first has none."""

    step: Step
    label: Label | None


@attrs.frozen
class Parted:
    """A step that the code did not take: `instead` is what that action would have led to.

    Each is given by the variables in which it differs from the scenario: theirs, then the code's.
    """

    step: Step
    instead: tuple[Mapping[str, tuple[Value, Value]], ...]
    possible: tuple[str, ...]


def replay(trace: Trace, system: System[W]) -> Iterator[Replayed | Parted]:
    """Yield what the code makes of each step, up to the first that it does not take."""
    reached: list[tuple[Label | None, W]] = [(None, system.initial)]
    for step in trace.steps:
        matching = [
            (label, state)
            for label, state in reached
            if (label is None or label[0] == step.action)
            and same_state(system.project(state), step.state)
        ]
        if not matching:
            yield _parted(step, reached, system)
            return
        yield Replayed(step, matching[0][0])
        # Several states of the code may project onto this one; the next step may be any one's.
        following = {
            (next_label, after): None
            for _, each in matching
            for next_label, after in system.successors(each)
        }
        reached = list(following)


def same_state(left: State, right: State) -> bool:
    """Whether two states of the spec are the same."""
    return left.keys() == right.keys() and all(same_value(left[name], right[name]) for name in left)


def _parted(step: Step, reached: list[tuple[Label | None, W]], system: System[W]) -> Parted:
    instead = []
    for label, each in reached:
        if label is None or label[0] == step.action:
            state = system.project(each)
            instead.append(
                {
                    name: (step.state[name], state[name])
                    for name in state
                    if name in step.state and not same_value(state[name], step.state[name])
                }
            )
    possible = sorted({label[0] for label, _ in reached if label is not None})
    return Parted(step, tuple(instead), tuple(possible))
