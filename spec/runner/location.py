"""Where something stands in a TLA+ module, in TLC's own wording.

TLC writes `line 7, col 11 to line 10, col 24 of module Counter`; people read `Counter 7:11-10:24`.
"""

from __future__ import annotations

import re

import attrs

_TLC = re.compile(
    r"line (\d+), col(?:umn)? (\d+) to line (\d+), col(?:umn)? (\d+) (?:of module|in) (\w+)",
    re.IGNORECASE,
)
_SHORT = re.compile(r"(\w+) (\d+):(\d+)-(\d+):(\d+)\Z")


@attrs.frozen(slots=True, order=True)
class Location:
    """A stretch of a module's source; lines and columns count from 1, and the end is included."""

    module: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.module} {self.line}:{self.column}-{self.end_line}:{self.end_column}"

    @property
    def point(self) -> str:
        """The start as compilers print it, which editors make clickable."""
        return f"{self.module}.tla:{self.line}:{self.column}"

    def contains(self, other: Location) -> bool:
        """Tell whether the other stretch lies within this one."""
        return (
            self.module == other.module
            and (self.line, self.column) <= (other.line, other.column)
            and (other.end_line, other.end_column) <= (self.end_line, self.end_column)
        )


def find_locations(text: str) -> list[Location]:
    """List every location TLC mentions in a text, in order."""
    return [
        Location(module, int(line), int(column), int(end_line), int(end_column))
        for line, column, end_line, end_column, module in _TLC.findall(text)
    ]


def find_location(text: str) -> Location | None:
    """Give the first location TLC mentions in a text, if any."""
    found = find_locations(text)
    return found[0] if found else None


def parse_location(text: str) -> Location:
    """Read back what `str(location)` wrote; raise `ValueError` for anything else."""
    match = _SHORT.match(text)
    if match is None:
        raise ValueError(f"not a location: {text!r}")
    module, *numbers = match.groups()
    return Location(module, *map(int, numbers))
