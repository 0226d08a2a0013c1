"""Reads a trace, NDJSON as `docs/traces.md` describes it, line by line and strictly.

What is not a line of the format is an error that names file and line. Nothing is judged here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from protocol.controller.trace import CONTROLLER
from protocol.replication.trace import FORMAT
from spec.runner.errors import RunnerError

Partition: TypeAlias = tuple[str, int]

MAX_LINE_CHARS = 1 << 20


class TraceError(RunnerError):
    """A file that is not a trace, or not one that the spec could tell anything about."""


@attrs.frozen
class Line:
    """One line: which broker (or the controller) did what, and what its state was afterwards."""

    where: str
    partition: Partition
    node: int
    incarnation: int
    seq: int
    action: str
    steps: tuple[dict[str, Any], ...]
    state: dict[str, Any] | None = None
    received: str | None = None
    sent: tuple[str, ...] = ()
    acked: tuple[int, ...] = ()
    refused: bool = False
    writing: int | None = None
    offset: int | None = None
    begins: tuple[int, int] | None = None

    @property
    def who(self) -> str:
        """Name the actor for a reader."""
        return "the controller" if self.node == CONTROLLER else f"broker {self.node}"


def read_trace(path: Path) -> Iterator[Line]:
    """Read a trace, one line at a time; raise `TraceError` where it is not one."""
    try:
        with path.open(encoding="utf-8") as file:
            number = 0
            while text := file.readline(MAX_LINE_CHARS):
                number += 1
                if text.strip():
                    yield parse_line(text, f"{path.name}:{number}")
    except OSError as problem:
        raise TraceError(f"{path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not UTF-8 text") from None


def parse_line(text: str, where: str) -> Line:
    """Read one line; `where` names it in messages."""
    try:
        data = json.loads(text)
    except ValueError:
        raise TraceError(f"{where}: is not JSON") from None
    if not isinstance(data, dict):
        raise TraceError(f"{where}: is not a JSON object")
    return line_of(data, where)


def line_of(data: dict[str, Any], where: str) -> Line:
    """Make a line of a JSON object, strictly."""
    if data.get("format") != FORMAT:
        raise TraceError(f"{where}: has format {data.get('format')!r}, and this reads {FORMAT}")
    try:
        return _line(data, where)
    except _BadFieldError as problem:
        raise TraceError(f"{where}: {problem}") from None


def check_sequence(lines: Iterable[Line]) -> Iterator[Line]:
    """Pass lines on, as long as each broker's are numbered without gaps."""
    expected: dict[tuple[Partition, int, int], int] = {}
    for line in lines:
        key = (line.partition, line.node, line.incarnation)
        if line.seq != expected.get(key, 0):
            raise TraceError(
                f"{line.where}: is number {line.seq} of {line.who}, and {expected.get(key, 0)} is"
                " next: lines are missing or out of order"
            )
        expected[key] = line.seq + 1
        yield line


class _BadFieldError(Exception):
    pass


def _field(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _BadFieldError(f"{name} is {value!r}, not {_KINDS[kind]}")
    return value


_KINDS = {
    bool: "true or false",
    int: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def _line(data: dict[str, Any], where: str) -> Line:
    node = _field(data, "node", int)
    steps = _field(data, "steps", list)
    for step in steps:
        if not isinstance(step, dict):
            raise _BadFieldError(f"steps has {step!r}, not an object")
        _field(step, "name", str)
        for name, kind in _STEP_FIELDS.get(step["name"], ()):
            _field(step, name, kind)
    state: dict[str, Any] | None = None
    if steps:
        state = _field(data, "state", dict)
        (_check_record if node == CONTROLLER else _check_replica)(state or {})
    return Line(
        where,
        (_field(data, "topic", str), _field(data, "partition", int)),
        node,
        _field(data, "incarnation", int),
        _field(data, "seq", int),
        _field(data, "action", str),
        tuple(steps),
        state,
        _field(data, "received", str) if "received" in data else None,
        tuple(_texts(data, "sent")),
        tuple(_numbers(data, "acked")) if "acked" in data else (),
        "refused" in data,
        _field(data, "writing", int) if "writing" in data else None,
        _field(data, "offset", int) if "offset" in data else None,
        _pair(data["begins"], "begins") if "begins" in data else None,
    )


_DECISIONS = (
    *("CommitIsr", "ElectLeader", "ElectUncleanLeader", "FenceBroker", "UnfenceBroker"),
    *("CleanRestart", "LossyRestart"),
)
_FETCH = (("follower", int), ("request", str), ("offset", int))
_STEP_FIELDS: dict[str, tuple[tuple[str, type], ...]] = {
    "Produce": (("base", int), ("end", int), ("all", bool)),
    "LeaderHandleFetch": _FETCH,
    "ExpandIsr": (("follower", int),),
    "ShrinkIsr": (("follower", int),),
    "Consume": (("end", int),),
    **dict.fromkeys(_DECISIONS, (("broker", int),)),
}


def _numbers(data: dict[str, Any], name: str) -> list[int]:
    values = _field(data, name, list)
    if not all(isinstance(each, int) for each in values):
        raise _BadFieldError(f"{name} is {values!r}, not a list of numbers")
    return list(values)


def _texts(data: dict[str, Any], name: str) -> list[str]:
    values = _field(data, name, list) if name in data else []
    if not all(isinstance(each, str) for each in values):
        raise _BadFieldError(f"{name} is {values!r}, not a list of strings")
    return list(values)


def _check_replica(state: dict[str, Any]) -> None:
    for name in ("start", "end", "hw"):
        _field(state, name, int)
    for run in _field(state, "epochs", list):
        _pair(run, "epochs")
    view = _field(state, "view", dict)
    for name in ("leader", "epoch", "version", "joiner"):
        _field(view, name, int)
    _numbers(view, "isr")
    _numbers(view, "pending")
    for node, known in _field(state, "followers", dict).items():
        _node(node)
        _pair(known, "followers")


def _check_record(state: dict[str, Any]) -> None:
    for name in ("leader", "epoch", "version", "min_isr"):
        _field(state, name, int)
    for name in ("isr", "elr", "replicas"):
        _numbers(state, name)
    for node, known in _field(state, "brokers", dict).items():
        _node(node)
        _pair(known, "brokers")


def _node(text: str) -> None:
    if not text.lstrip("-").isdigit():
        raise _BadFieldError(f"{text!r} is not a broker's number")


def _pair(value: object, name: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(x, int) for x in value):
        raise _BadFieldError(f"{name} has {value!r}, not a pair of numbers")
    return value[0], value[1]
