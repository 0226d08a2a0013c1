"""Recorded runs for the tests of traces, and ways to look at their lines and to change them."""

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs

from spec.conformance.tracing.lines import Line, parse_line
from spec.conformance.tracing.plan import Plan
from spec.conformance.tracing.recording import Recording
from spec.conformance.tracing.validation import Result, Settings, validate

Json = dict[str, Any]
STORMY = Plan(seed=5, lines=900, fault_every_ms=100)


@cache
def recorded(plan: Plan) -> tuple[Json, ...]:
    return tuple(Recording(plan).run())


def fresh(plan: Plan = STORMY) -> list[Json]:
    """Give a trace that may be changed."""
    return copy.deepcopy(list(recorded(plan)))


def parsed(lines: list[Json]) -> list[Line]:
    return [parse_line(json.dumps(line), str(number)) for number, line in enumerate(lines)]


def judged(lines: list[Json], **settings: Any) -> Result:
    (result,) = validate(parsed(lines), attrs.evolve(Settings(), **settings))
    return result


def names(line: Json) -> list[str]:
    return [step["name"] for step in line["steps"]]


def find(lines: list[Json], wanted: Callable[[Json], bool], after: int = 150) -> int:
    """Find the first line of a kind, when the run is well under way."""
    return next(at for at in range(after, len(lines)) if wanted(lines[at]))


def of(name: str) -> Callable[[Json], bool]:
    return lambda line: names(line)[:1] == [name]


def before(lines: list[Json], at: int) -> Json:
    """Find the line with steps of the same node before this one."""
    node = lines[at]["node"]
    earlier = (lines[i] for i in reversed(range(at)) if lines[i]["node"] == node)
    return next(line for line in earlier if line["steps"])


def renumbered(lines: list[Json]) -> list[Json]:
    """Hide from the reader that lines are missing or swapped: TLC has to find it."""
    count: dict[tuple[int, int], int] = {}
    for line in lines:
        key = (line["node"], line["incarnation"])
        line["seq"] = count.get(key, 0)
        count[key] = line["seq"] + 1
    return lines
