"""Writes a trace as a scenario, a text file made to be read, kept and compared, and reads it back.

    # invariant Small
    # from Counter.tla

    (initial)
    ----
    x = 0

    Increment  @ Counter 7:11-10:24
    ----
    x = 1

Each step is its action, `----`, and the variables that changed (in the first step, all of them), in
TLA+. An endless behaviour ends with `loops to 1 by Reset` or `stutters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import attrs

from spec.runner.errors import FileFormatError, ValueSyntaxError
from spec.runner.location import Location, parse_location
from spec.runner.trace import RawStep, Trace, make_trace
from spec.runner.value_text import format_value, parse_value
from spec.runner.values import Value

_RULE = "----"
_INITIAL, _UNNAMED = "(initial)", "(unnamed)"
_ACTION = re.compile(r"(\S+)(?:\s+@ (.+))?\Z")
_ASSIGNMENT = re.compile(r"(\w+) = (.*)\Z", re.DOTALL)
_LOOP = re.compile(r"loops to (\d+)(?: by (\S+))?\Z")
_STUTTERS = "stutters"


def format_scenario(trace: Trace, header: Iterable[str] = ()) -> str:
    """Write a trace as scenario text, with the header's lines as comments on top."""
    blocks = ["".join(f"# {line}\n" for text in header for line in text.splitlines())]
    for step in trace.steps:
        name = step.action or (_INITIAL if step.number == 1 else _UNNAMED)
        where = f"  @ {step.location}" if step.location else ""
        lines = [
            f"{variable} = {format_value(value)}\n"
            for variable, value in step.state.items()
            if variable in step.changed
        ]
        blocks.append(f"{name}{where}\n{_RULE}\n{''.join(lines)}")
    if trace.loops_to is not None:
        by = f" by {trace.loop_action}" if trace.loop_action else ""
        blocks.append(f"loops to {trace.loops_to}{by}\n")
    if trace.stutters:
        blocks.append(f"{_STUTTERS}\n")
    return "\n".join(block for block in blocks if block)


def parse_scenario(text: str, name: str = "scenario") -> Trace:
    """Read scenario text back; a malformed one raises `FileFormatError` with the line."""
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            reader.take(number, stripped)
    return reader.trace(text.count("\n") + 1)


def write_scenario(trace: Trace, path: Path, header: Iterable[str] = ()) -> None:
    """Write a trace into a scenario file."""
    path.write_text(format_scenario(trace, header), encoding="utf-8")


def read_scenario(path: Path) -> Trace:
    """Read a scenario file."""
    return parse_scenario(path.read_text(encoding="utf-8"), str(path))


@attrs.define
class _Reader:
    """Takes the lines that say something, one by one."""

    name: str
    steps: list[RawStep] = attrs.field(factory=list)
    loop: tuple[int, str | None] | None = None
    stutters: bool = False
    _head: tuple[str | None, Location | None] | None = None
    _state: dict[str, Value] = attrs.field(factory=dict)

    def take(self, number: int, line: str) -> None:
        if self._head is not None:
            if line != _RULE:
                raise FileFormatError(self.name, number, f"expected {_RULE} after an action")
            action, location = self._head
            self._state = dict(self._state)
            self.steps.append(RawStep(self._state, action, location))
            self._head = None
        elif match := _ASSIGNMENT.match(line):
            self._assign(number, *match.groups())
        elif match := _LOOP.match(line):
            self.loop = (int(match.group(1)), match.group(2))
        elif line == _STUTTERS:
            self.stutters = True
        else:
            self._head = self._action(number, line)

    def _assign(self, number: int, variable: str, text: str) -> None:
        if not self.steps:
            raise FileFormatError(self.name, number, "a value before the first action")
        try:
            self._state[variable] = parse_value(text)
        except ValueSyntaxError as problem:
            raise FileFormatError(self.name, number, str(problem)) from None

    def _action(self, number: int, line: str) -> tuple[str | None, Location | None]:
        match = _ACTION.match(line)
        if match is None:
            raise FileFormatError(self.name, number, f"expected an action's name, found {line!r}")
        action, where = match.groups()
        try:
            location = parse_location(where) if where else None
        except ValueError as problem:
            raise FileFormatError(self.name, number, str(problem)) from None
        return (None if action in (_INITIAL, _UNNAMED) else action), location

    def trace(self, last_line: int) -> Trace:
        if self._head is not None:
            raise FileFormatError(self.name, last_line, f"the file ends before {_RULE}")
        loops_to, loop_action = self.loop or (None, None)
        if loops_to is not None and not 1 <= loops_to <= len(self.steps):
            raise FileFormatError(self.name, last_line, f"there is no step {loops_to} to loop to")
        return make_trace(
            self.steps, loops_to=loops_to, stutters=self.stutters, loop_action=loop_action
        )
