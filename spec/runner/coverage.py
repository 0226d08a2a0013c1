"""What TLC's `-coverage` option counted: how often actions were taken and expressions evaluated.

The counts answer "was this ever reached?". They do not say how often a guard was TRUE: see "What
coverage can tell" in `docs/runner.md`, and `witness` for a way that does.
"""

from __future__ import annotations

import re

import attrs

from spec.runner.location import Location, find_location

_ACTION = re.compile(r"<(\w+) (.*)>: (-?\d+):(-?\d+)\Z")
_PROPERTY = re.compile(r"<(\w+) (.*)>\Z")
_EXPRESSION = re.compile(r"\s*(\|*)(line .*?): (\d+)(?::(\d+))?\Z")


@attrs.frozen(slots=True)
class ActionCoverage:
    """How many states an action generated, and how many of them nobody had found before.

    `distinct` and `generated` are None for an invariant or a property: TLC lists those among the
    actions, without counts of states. `location` is where the name is defined.
    """

    name: str
    module: str
    location: Location
    distinct: int | None
    generated: int | None


@attrs.frozen(slots=True)
class ExpressionCoverage:
    """How often an expression was evaluated on behalf of one action or property.

    `depth` counts the expressions around it that TLC listed too; an expression used by two actions
    is listed under both. `cost` is filled by newer versions of TLC.
    """

    location: Location
    depth: int
    count: int
    cost: int | None
    within: str


@attrs.frozen
class Coverage:
    """The last coverage report of a run: the earlier ones are partial sums of it."""

    actions: tuple[ActionCoverage, ...] = ()
    expressions: tuple[ExpressionCoverage, ...] = ()

    def unused_actions(self) -> tuple[str, ...]:
        """Name the actions that never led anywhere, which often means a mistake in the model."""
        return tuple(action.name for action in self.actions if action.generated == 0)

    def within(self, location: Location) -> tuple[ExpressionCoverage, ...]:
        """List the expressions within a stretch of a module, such as an operator's body."""
        return tuple(item for item in self.expressions if location.contains(item.location))


class CoverageReader:
    """Collects one coverage report from the texts of TLC's messages."""

    def __init__(self) -> None:
        self._actions: list[ActionCoverage] = []
        self._expressions: list[ExpressionCoverage] = []

    def add(self, text: str) -> None:
        """Take one line of the report; a line in a form this does not know is skipped."""
        for line in text.splitlines():
            if line.lstrip().startswith("<"):
                self._add_action(line.strip())
            else:
                self._add_expression(line)

    def coverage(self) -> Coverage:
        """Give what has been collected."""
        return Coverage(tuple(self._actions), tuple(self._expressions))

    def _add_action(self, line: str) -> None:
        match = _ACTION.match(line) or _PROPERTY.match(line)
        location = find_location(line)
        if match is None or location is None:
            return
        name, _, *counts = match.groups()
        distinct, generated = map(int, counts) if counts else (None, None)
        self._actions.append(ActionCoverage(name, location.module, location, distinct, generated))

    def _add_expression(self, line: str) -> None:
        match = _EXPRESSION.match(line)
        location = find_location(line)
        if match is None or location is None:
            return
        bars, _, count, cost = match.groups()
        within = self._actions[-1].name if self._actions else ""
        self._expressions.append(
            ExpressionCoverage(location, len(bars), int(count), int(cost) if cost else None, within)
        )
