"""Validates a trace: is what the brokers did a behaviour of `Replication.tla`?

A trace is split by partition, put into an order (`order`), turned into steps (`steps`)
and given to TLC in windows (`windows`). It is one file, or a folder with one for each process.
What is accepted is a behaviour of the spec from its first state on. What is rejected is not one, in
any order of the brokers' lines that TLC tried: see `Settings` for how many that are.
`docs/traces.md` says what neither of the two means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.explain import explain
from spec.conformance.tracing.folder import Folder
from spec.conformance.tracing.lines import (
    Line,
    Partition,
    TraceError,
    check_sequence,
    read_trace,
)
from spec.conformance.tracing.order import Order
from spec.conformance.tracing.rebase import first_entries, oldest_record, shifted_state, spare
from spec.conformance.tracing.steps import Encoder, Step, UncoveredError
from spec.conformance.tracing.windows import Machine, OutOfTimeError, Reached, Task, Window, take
from spec.runner import Function, Value

_NO_STATE: Function | None = None


@attrs.frozen
class Settings:
    """How a trace is validated.

    `window` is how many steps TLC is given at once, `lookahead` how many lines are read before one
    is judged. Where TLC gets stuck, it goes `slack` steps back, and may from there on take each
    step up to `slack` places before its turn; `search_s` bounds how long it looks, because there
    may be very many orders. After `time_limit_s` no window is begun: what is left is not judged.
    """

    window: int = 1_000
    lookahead: int = 1_000
    slack: int = 12
    search_s: float = 60.0
    time_limit_s: float | None = None
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
        topic, index = self.line.partition
        return (
            f"{self.line.where}: {self.line.who} cannot have done {what}{also} on {topic}-{index}"
        )


@attrs.frozen
class Result:
    """What came of one partition; `reordered` tells how often the first order did not do.

    `unjudged` says why the rest was not judged, if it was not: time is up, or the spec does not
    cover it. All steps before that are accepted.
    """

    partition: Partition
    lines: int
    steps: int
    windows: int
    reordered: int
    rejection: Rejection | None
    unjudged: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether all of it is a behaviour of the spec."""
        return self.rejection is None and self.unjudged is None


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
    clock = Clock(settings.time_limit_s)
    if isinstance(trace, Path) and trace.is_dir():
        return list(_validate_folder(Folder(trace), settings, clock, on_window))
    lines = read_trace(trace) if isinstance(trace, Path) else trace
    checks: dict[Partition, Check] = {}
    for line in check_sequence(lines):
        check = checks.get(line.partition)
        if check is None:
            check = checks[line.partition] = Check(line, settings, clock, on_window)
        else:
            check.feed(line)
    if not checks:
        raise TraceError("the trace is empty")
    return [check.finish() for check in checks.values()]


def _validate_folder(
    folder: Folder, settings: Settings, clock: Clock, on_window: OnWindow | None
) -> Iterator[Result]:
    """Validate one partition after the other; what one of them has wrong is no other's fault."""
    if not folder.partitions:
        raise TraceError("the trace is empty")
    for partition in folder.partitions:
        check: Check | None = None
        try:
            clock.check()
            lines = folder.lines(partition)
            check = Check(lines[0], settings, clock, on_window)
            for line in lines[1:]:
                check.read(line)
            yield check.finish()
        except UncoveredError as problem:
            yield check.finish_before(str(problem)) if check else _nothing(partition, problem)
        except TraceError as problem:
            yield check.so_far(str(problem)) if check else _nothing(partition, problem)


def _nothing(partition: Partition, problem: TraceError) -> Result:
    return Result(partition, 0, 0, 0, 0, None, str(problem))


class Clock:
    """How much time is left."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._end_s = None if limit_s is None else time.monotonic() + limit_s

    def check(self) -> None:
        """Raise `OutOfTimeError` if there is none."""
        if self._end_s is not None and time.monotonic() >= self._end_s:
            raise OutOfTimeError(f"{self._limit_s:g} s were over before this")

    def bounded(self, limit_s: float | None) -> float | None:
        """Give the smaller one of a limit and what is left."""
        if self._end_s is None:
            return limit_s
        left_s = max(1.0, self._end_s - time.monotonic())
        return left_s if limit_s is None else min(limit_s, left_s)


class Check:
    """The validation of one partition."""

    def __init__(
        self, created: Line, settings: Settings, clock: Clock, on_window: OnWindow | None
    ) -> None:
        if created.node != CONTROLLER or [s["name"] for s in created.steps] != ["Create"]:
            raise TraceError(f"{created.where}: a partition's first line is not its creation")
        self._partition = created.partition
        self._settings = settings
        self._clock = clock
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
        self._unjudged: str | None = None
        self._feed(created)
        self._begin()

    def read(self, line: Line) -> None:
        """Take the next line, and wait for more."""
        self._feed(line)

    def feed(self, line: Line) -> None:
        """Take the next line; windows are validated as soon as enough is known."""
        if self._rejection is not None or self._unjudged is not None:
            return
        self._feed(line)
        settings = self._settings
        while self._order.waiting > settings.window + settings.lookahead:
            if not self._fill(settings.window) or not self._validate(settings.window):
                break

    def finish(self) -> Result:
        """Validate what is left, and give the result."""
        going_on = self._rejection is None and self._unjudged is None
        while going_on and self._fill(self._settings.window, at_end=True):
            going_on = self._validate(self._settings.window)
        return self.so_far(self._unjudged)

    def finish_before(self, unjudged: str) -> Result:
        """Validate what comes before a line that the spec does not cover."""
        while self._steps and self._validate(self._settings.window):
            pass
        return self.so_far(None if self._rejection else self._unjudged or unjudged)

    def so_far(self, unjudged: str | None) -> Result:
        """Give what is known by now."""
        return Result(
            self._partition,
            self._lines,
            self._first,
            self._windows,
            self._reordered,
            self._rejection,
            unjudged,
        )

    def _feed(self, line: Line) -> None:
        self._lines += 1
        self._order.feed(line)

    def _begin(self) -> None:
        """Pass over the creation, which is the first state and no step."""
        item = self._order.take()
        if item is not None:
            item.last = -1

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
                # Who comes after this comes after what was taken before it.
                item.last = self._first + len(self._steps) - 1
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
        try:
            self._clock.check()
            self._judge(window)
        except OutOfTimeError as problem:
            self._unjudged = str(problem)
            return False
        if self._on_window is not None:
            self._on_window(self._partition, self._first)
        return self._rejection is None

    def _judge(self, window: Window) -> None:
        self._windows += 1
        reached = take(window, self._machine(self._settings.machine.time_limit_s))
        if isinstance(reached, int):
            self._stuck(window, reached)
        else:
            self._accept(reached[0], len(window.steps))

    def _machine(self, limit_s: float | None) -> Machine:
        return attrs.evolve(self._settings.machine, time_limit_s=self._clock.bounded(limit_s))

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
        machine = self._machine(settings.search_s)
        task = Task((end,), settings.slack, max(0, taken - settings.slack))
        try:
            found = take(attrs.evolve(window, steps=window.steps[:end]), machine, task)
        except OutOfTimeError:
            return None
        return found if isinstance(found, int) else found[0]
