"""Reads the behaviours that TLC's simulation wrote, one file each.

TLC 2.15 writes states only, so the steps' actions are None. Newer versions put the action into a
comment above the state, which is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spec.runner.errors import FileFormatError, ValueSyntaxError
from spec.runner.location import find_location
from spec.runner.state_text import parse_state
from spec.runner.trace import RawStep, Trace, make_trace

_HEADER = re.compile(r"-{4,} MODULE .+ -{4,}")
_STATE = re.compile(r"STATE_(\d+) ==\s*\Z")
_COMMENT = re.compile(r"\\\* <(\w+)(.*)>")
_FOOTER = re.compile(r"={4,}")
_FILE_NUMBERS = re.compile(r"_(\d+)_(\d+)\Z")


def read_simulations(prefix: Path) -> Iterator[Trace]:
    """Yield the behaviours of a simulation whose `file_prefix` this was, in the order they ran."""
    numbered = []
    for path in prefix.absolute().parent.glob("*"):
        match = _FILE_NUMBERS.search(path.name)
        if match is not None and path.name[: match.start()] == prefix.name:
            numbered.append((int(match.group(1)), int(match.group(2)), path))
    for _, _, path in sorted(numbered):
        yield read_simulation(path)


def read_simulation(path: Path) -> Trace:
    """Read one behaviour from its file."""
    return make_trace(read_steps(path))


def read_steps(path: Path) -> Iterator[RawStep]:
    """Yield one behaviour's states as they are read, without holding the whole file."""
    reader = _Reader(path)
    number = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            step = reader.take(number, line.rstrip("\n"))
            if step is not None:
                yield step
    if not reader.ended:
        raise FileFormatError(path, number + 1, "the file ends before its closing ====")


class _Reader:
    """Gathers lines into states; a state is complete when something else begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False
        self._started = False
        self._lines: list[str] = []
        self._first_line = 0
        self._comment = ""
        self._label = ""

    def take(self, number: int, line: str) -> RawStep | None:
        """Take one line; give the state that it completes, if it does."""
        if _HEADER.match(line):
            self._started = True
            return None
        if not self._started:
            if line.strip():
                raise FileFormatError(self.path, number, "expected the header of a module")
            return None
        if _COMMENT.match(line):
            self._comment = line
            return None
        if _STATE.match(line) or _FOOTER.match(line):
            self.ended = bool(_FOOTER.match(line))
            return self._complete(number)
        if line.strip():
            self._lines.append(line)
        return None

    def _complete(self, number: int) -> RawStep | None:
        lines, first = self._lines, self._first_line
        label, self._label, self._comment = self._label, self._comment, ""
        self._lines, self._first_line = [], number + 1
        if not lines and first == 0:
            return None
        try:
            state = parse_state("\n".join(lines))
        except ValueSyntaxError as problem:
            raise FileFormatError(self.path, first, str(problem)) from None
        match = _COMMENT.match(label)
        named = match is not None and match.group(1) != "Initial"
        return RawStep(state, match.group(1) if match and named else None, find_location(label))
