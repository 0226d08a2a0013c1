"""Validates a trace: is what the brokers did a behaviour of `Replication.tla`?

A trace is split by partition, put into an order (`order`), turned into steps (`steps`)
and given to TLC in windows (`windows`). What is accepted is a behaviour of the spec from its
first state on. What is rejected is not one, in any order of the brokers' lines that TLC tried: see
`Settings` for how many that are. `docs/traces.md` says what neither of the two means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.explain import explain
from spec.conformance.tracing.lines import (
    Line,
    Partition,
    TraceError,
    check_sequence,
    read_trace,
)
from spec.conformance.tracing.order import Order
from spec.conformance.tracing.rebase import first_entries, oldest_record, shifted_state, spare
from spec.conformance.tracing.steps import Encoder, Step
from spec.conformance.tracing.windows import Machine, OutOfTimeError, Reached, Task, Window, take
from spec.runner import Function, Value

_NO_STATE: Function | None = None


@attrs.frozen
class Settings:
    """How a trace is validated.

    `window` is how many steps TLC is given at once, `lookahead` how many lines are read before one
    is judged. Where TLC gets stuck, it goes `slack` steps back, and may from there on take each
    step up to `slack` places before its turn; `search_s` bounds how long it looks, because there
    may be very many orders.
    """

    window: int = 1_000
    lookahead: int = 1_000
    slack: int = 12
    search_s: float = 60.0
    machine: Machine = attrs.field(factory=Machine)


@attrs.frozen
class Rejection:
    """Where a trace stops to be a behaviour of the spec, and why as far as can be told.

    `line` cannot be, with `first_line` if that is how a restarted broker came back.
    """

    line: Line
    first_line: Line | None
    accepted_steps: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        what = " and ".join(step["name"] for step in self.line.steps)
        also = f" with {self.first_line.where}" if self.first_line else ""
        return f"{self.line.where}: {self.line.who} cannot have done {what}{also}"


@attrs.frozen
class Result:
    """What came of one partition; `reordered` tells how often the first order did not do."""

    partition: Partition
    lines: int
    steps: int
    windows: int
    reordered: int
    rejection: Rejection | None

    @property
    def accepted(self) -> bool:
        """Whether all of it is a behaviour of the spec."""
        return self.rejection is None


OnWindow = Callable[[Partition, int], None]


def validate(
    trace: Path | Iterable[Line],
    settings: Settings | None = None,
    on_window: OnWindow | None = None,
) -> list[Result]:
    """Validate every partition of a trace; raise `TraceError` if it is not one.

    `on_window` is told after each window how many steps of a partition are accepted.
    """
    settings = settings or Settings()
    lines = read_trace(trace) if isinstance(trace, Path) else trace
    checks: dict[Partition, Check] = {}
    for line in check_sequence(lines):
        check = checks.get(line.partition)
        if check is None:
            check = checks[line.partition] = Check(line, settings, on_window)
        else:
            check.feed(line)
    if not checks:
        raise TraceError("the trace is empty")
    return [check.finish() for check in checks.values()]


class Check:
    """The validation of one partition."""

    def __init__(self, created: Line, settings: Settings, on_window: OnWindow | None) -> None:
        if created.node != CONTROLLER or [s["name"] for s in created.steps] != ["Create"]:
            raise TraceError(f"{created.where}: a partition's first line is not its creation")
        self._partition = created.partition
        self._settings = settings
        self._on_window = on_window
        self._encoder = Encoder(created)
        self._order = Order()
        self._lines = 0
        self._steps: list[Step] = []
        self._first = 0
        self._state = _NO_STATE
        self._prefix: tuple[Value, ...] = ()
        self._base = 0
        self._windows = 0
        self._reordered = 0
        self._rejection: Rejection | None = None
        self._feed(created)
        self._order.take()

    def feed(self, line: Line) -> None:
        """Take the next line; windows are validated as soon as enough is known."""
        if self._rejection is not None:
            return
        self._feed(line)
        settings = self._settings
        while self._order.waiting > settings.window + settings.lookahead:
            if not self._fill(settings.window) or not self._validate(settings.window):
                break

    def finish(self) -> Result:
        """Validate what is left, and give the result."""
        going_on = self._rejection is None
        while going_on and self._fill(self._settings.window, at_end=True):
            going_on = self._validate(self._settings.window)
        return Result(
            self._partition,
            self._lines,
            self._first,
            self._windows,
            self._reordered,
            self._rejection,
        )

    def _feed(self, line: Line) -> None:
        self._lines += 1
        self._order.feed(line)

    def _fill(self, count: int, *, at_end: bool = False) -> bool:
        """Have `count` steps to go on with, or at the end of the trace as many as there are."""
        while len(self._steps) < count:
            item = self._order.take()
            if item is None:
                if at_end and self._order.give_up():
                    continue
                return at_end and bool(self._steps)
            steps = self._encoder.steps(item)
            if steps:
                item.first = self._first + len(self._steps)
                item.last = item.first + len(steps) - 1
                self._steps += steps
            else:
                item.let_go()
        return True

    def _window(self, count: int) -> Window:
        """Make a window of the next steps, without the entries that do not matter in it."""
        steps = self._steps[:count]
        if self._state is not None:
            base = spare(self._state, steps, self._base)
            if base > self._base:
                more = first_entries(self._state, base - self._base)
                self._prefix = (*self._prefix[: self._base], *more)
            self._state = shifted_state(self._state, self._prefix, self._base, base)
            self._base = base
        oldest = oldest_record(self._state) if self._state is not None else 0
        acks_one = [record for record in self._encoder.acks_one if record >= oldest]
        constants = self._encoder.constants
        return Window(constants, acks_one, steps, self._first, self._state, self._base)

    def _validate(self, count: int) -> bool:
        """Let TLC take the next steps; tell whether it could."""
        window = self._window(min(count, len(self._steps)))
        self._windows += 1
        reached = take(window, self._settings.machine)
        if isinstance(reached, int):
            self._stuck(window, reached)
        else:
            self._accept(reached[0], len(window.steps))
        if self._on_window is not None:
            self._on_window(self._partition, self._first)
        return self._rejection is None

    def _accept(self, reached: Reached, count: int) -> None:
        self._state = reached.state
        self._first += count
        for step in self._steps[:count]:
            step.item.let_go()
        del self._steps[:count]

    def _stuck(self, window: Window, taken: int) -> None:
        """In the order proposed, TLC can take only so many steps of a window: try others."""
        end = min(len(window.steps), taken + self._settings.slack)
        reasons: list[str] = []
        if not window.steps[taken].item.unsent:
            found = self._search(window, taken, end)
            if isinstance(found, Reached):
                self._reordered += 1
                self._accept(found, end)
                return
            if found is None:
                reasons.append(f"other orders were tried for {self._settings.search_s:g} s only")
        reasons += explain(window, taken, self._settings.machine)
        self._first += taken
        item = window.steps[taken].item
        self._rejection = Rejection(item.line, item.restarted, self._first, tuple(reasons))

    def _search(self, window: Window, taken: int, end: int) -> Reached | int | None:
        """Let TLC take the steps up to `end` in some other order; None if time ran out."""
        settings = self._settings
        machine = attrs.evolve(settings.machine, time_limit_s=settings.search_s)
        task = Task((end,), settings.slack, max(0, taken - settings.slack))
        try:
            found = take(attrs.evolve(window, steps=window.steps[:end]), machine, task)
        except OutOfTimeError:
            return None
        return found if isinstance(found, int) else found[0]
