"""A behaviour of a spec, step by step: what TLC gives as a counterexample.

It is plain data. `render` prints it, `scenario` writes it as text, and `to_json` here as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from spec.runner.location import Location, parse_location
from spec.runner.value_json import Json, from_json, to_json
from spec.runner.values import State, Value, same_value


@attrs.frozen
class Step:
    """One state of a behaviour, and the action that led to it.

    `action` is None for an initial state, and where TLC names none. `changed` names the variables
    whose value differs from the step before; in an initial state, all of them.
    """

    number: int
    action: str | None
    location: Location | None
    state: State
    changed: frozenset[str]


@attrs.frozen
class Trace:
    """A behaviour: its steps and, for one that goes on for ever, how.

    `loops_to` is the number of the step that follows the last one again, and `loop_action` the
    action that leads back. `stutters` means that the last state is never left.
    """

    steps: tuple[Step, ...] = ()
    loops_to: int | None = None
    stutters: bool = False
    loop_action: str | None = None

    def __len__(self) -> int:
        return len(self.steps)

    def to_json(self) -> dict[str, Json]:
        """Turn the trace into plain JSON data; each step lists its whole state."""
        return {
            "steps": [_step_to_json(step) for step in self.steps],
            "loops_to": self.loops_to,
            "loop_action": self.loop_action,
            "stutters": self.stutters,
        }

    @classmethod
    def from_json(cls, data: Json) -> Trace:
        """Read back what `to_json` wrote; raise `ValueError` for anything else."""
        try:
            return _trace_from_json(data)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"not a trace in JSON: {problem!r}") from None


@attrs.frozen
class RawStep:
    """A state and the action before it, not yet compared with the state before."""

    state: Mapping[str, Value]
    action: str | None = None
    location: Location | None = None


def make_trace(
    raw_steps: Iterable[RawStep],
    *,
    loops_to: int | None = None,
    stutters: bool = False,
    loop_action: str | None = None,
) -> Trace:
    """Number the steps from 1 and work out what changed in each."""
    steps: list[Step] = []
    before: State = {}
    for number, raw in enumerate(raw_steps, start=1):
        changed = changed_variables(before, raw.state)
        steps.append(Step(number, raw.action, raw.location, raw.state, changed))
        before = raw.state
    return Trace(tuple(steps), loops_to, stutters, loop_action)


def changed_variables(before: State, after: State) -> frozenset[str]:
    """Name the variables whose value is new or different."""
    return frozenset(
        name
        for name, value in after.items()
        if name not in before or not same_value(before[name], value)
    )


def _step_to_json(step: Step) -> Json:
    return {
        "number": step.number,
        "action": step.action,
        "location": str(step.location) if step.location else None,
        "changed": list[Json](sorted(step.changed)),
        "state": {name: to_json(value) for name, value in step.state.items()},
    }


def _trace_from_json(data: Json) -> Trace:
    if not isinstance(data, dict):
        raise TypeError("expected an object")
    steps, loops_to, loop_action = data["steps"], data["loops_to"], data["loop_action"]
    if not isinstance(steps, list):
        raise TypeError("expected a list of steps")
    if not (loops_to is None or isinstance(loops_to, int)):
        raise TypeError("expected loops_to to be a number")
    # What changed follows from the states, so it is worked out again rather than believed.
    return make_trace(
        [_raw_step_from_json(step) for step in steps],
        loops_to=loops_to,
        stutters=bool(data["stutters"]),
        loop_action=None if loop_action is None else str(loop_action),
    )


def _raw_step_from_json(data: Json) -> RawStep:
    if not isinstance(data, dict) or not isinstance(data["state"], dict):
        raise TypeError("expected a step with a state")
    action, location = data["action"], data["location"]
    return RawStep(
        {name: from_json(value) for name, value in data["state"].items()},
        None if action is None else str(action),
        None if location is None else parse_location(str(location)),
    )
