"""Folds TLC's messages into an `Outcome`: the one place that knows what TLC's numbers mean.

It is pure: it starts nothing, and is fed messages in order. Numbers it does not know are ignored,
so that a newer TLC may say more.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import attrs

from spec.runner import diagnosis
from spec.runner.config import Config
from spec.runner.coverage import Coverage, CoverageReader
from spec.runner.errors import ValueSyntaxError
from spec.runner.location import find_location
from spec.runner.messages import BUG, ERROR, WARNING, Message
from spec.runner.outcome import Progress, Statistics, Violation, ViolationKind
from spec.runner.state_text import parse_state
from spec.runner.trace import RawStep, Trace, make_trace

RAW_LINES_KEPT = 400
PRINTED_LINES_KEPT = 1000

_OUT_OF_MEMORY = frozenset({1001, 1002})
_SUCCESS = 2193
_STARTING = 2185
_PARSING_DONE = 2219
_PARSING_FAILED = frozenset({3002, 2171})
_CONFIG_ERRORS = frozenset({*range(2222, 2238), 2241, 2242, 2243, 2280, 2281, *range(5001, 5007)})
_POSITIONS = 2103
_ASSERTION = 2132
_ADVICE_ON_GARBAGE_COLLECTION = 2401
_LEADS_INTO_TRACE = frozenset({2121, 2264})

_NUMBER = r"(-?[\d,]+)"
_PROGRESS = re.compile(
    rf"Progress\((-?\d+)\) at (\S+ \S+): {_NUMBER} states generated(?: \({_NUMBER} s/min\))?,"
    rf" {_NUMBER} distinct states found(?: \({_NUMBER} ds/min\))?, {_NUMBER} states left on queue"
)
_STATS = re.compile(
    rf"{_NUMBER} states generated, {_NUMBER} distinct states found, {_NUMBER} states left"
)
_INITIAL = re.compile(rf"{_NUMBER} distinct state|with {_NUMBER} of them distinct")
_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\)")
_STEP = re.compile(r"(\d+): <(.*)>\Z")
_BACK = re.compile(r"(\d+): Back to state:? ?(?:<(.*)>)?")
_NAMED = re.compile(r"(?:nvariant|roperty) (\S+) (?:is violated|failed)")


@attrs.define
class Interpreter:
    """Takes TLC's messages one at a time, and knows at any moment what they amount to."""

    config: Config
    config_path: Path
    statistics: Statistics = attrs.field(factory=Statistics)
    succeeded: bool = False
    recovered: bool = False
    out_of_memory: bool = False
    error: str | None = None
    coverage: Coverage | None = None
    warnings: list[str] = attrs.field(factory=list)
    raw_lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=RAW_LINES_KEPT))
    _printed: dict[str, None] = attrs.field(factory=dict)
    _error_text: str = ""
    _violated: tuple[ViolationKind, str | None, str | None] | None = None
    _steps: list[RawStep] = attrs.field(factory=list)
    _loop: tuple[int, str | None] | None = None
    _stutters: bool = False
    _coverage_reader: CoverageReader | None = None
    _parsed: bool = False
    _clock: tuple[datetime, int] | None = None

    def handle(self, item: Message | str) -> Progress | None:
        """Take the next message or stray line; give the progress it reports, if it does."""
        if isinstance(item, str):
            self._stray_line(item)
            return None
        if item.code in (2200, 2209):
            return self._progress(item.text)
        known = _HANDLERS.get(item.code)
        if known is not None:
            known(self, item)
        elif item.code in _VIOLATIONS and not item.nested:
            self._violation(item)
        elif item.code in _OUT_OF_MEMORY:
            self.out_of_memory = True
        elif item.severity in (ERROR, BUG) or item.code in _CONFIG_ERRORS:
            self._error(item)
        elif item.severity == WARNING and item.code != _ADVICE_ON_GARBAGE_COLLECTION:
            self.warnings.append(diagnosis.one_line(item.text))
        return None

    @property
    def trace(self) -> Trace:
        """The behaviour TLC has printed so far."""
        loops_to, loop_action = self._loop or (None, None)
        return make_trace(
            self._steps, loops_to=loops_to, stutters=self._stutters, loop_action=loop_action
        )

    @property
    def violation(self) -> Violation | None:
        """The violation TLC has reported, if any."""
        if self._violated is None:
            return None
        kind, name, detail = self._violated
        return Violation(kind, name, self.trace, detail)

    @property
    def printed(self) -> tuple[str, ...]:
        """The first distinct lines the model itself printed."""
        return tuple(self._printed)

    def _stray_line(self, line: str) -> None:
        if "java.lang.OutOfMemoryError" in line:
            self.out_of_memory = True
        if not line.strip():
            return
        if not self._parsed:
            self.raw_lines.append(line)
        elif len(self._printed) < PRINTED_LINES_KEPT:
            self._printed.setdefault(line)

    def _progress(self, text: str) -> Progress | None:
        match = _PROGRESS.search(text)
        if match is None:
            return None
        depth, time, generated, rate, distinct, _, queue = match.groups()
        # A simulation says -1 for what it does not know.
        figures = [max(0, _number(part)) for part in (generated, distinct, queue, depth)]
        count, new, left, deep = figures
        progress = Progress(count, new, left, deep, self._rate(time, count, rate))
        self.statistics = attrs.evolve(
            self.statistics,
            generated=progress.generated,
            distinct=progress.distinct,
            queue=progress.queue,
            depth=progress.depth,
        )
        return progress

    def _rate(self, time: str, generated: int, reported: str | None) -> int | None:
        """Work out states a minute since the last report: TLC takes any gap for a minute."""
        now = datetime.fromisoformat(time)
        before, self._clock = self._clock, (now, generated)
        if before is not None and now > before[0]:
            return round((generated - before[1]) * 60 / (now - before[0]).total_seconds())
        return _number(reported) if reported else None

    def _started(self, message: Message) -> None:
        time = _TIME.search(message.text)
        self._clock = (datetime.fromisoformat(time.group(1)), 0) if time else None

    def _parsing_done(self, _message: Message) -> None:
        self._parsed = True

    def _initial(self, message: Message) -> None:
        match = _INITIAL.search(message.text)
        if match is not None:
            count = _number(match.group(1) or match.group(2))
            self.statistics = attrs.evolve(self.statistics, initial=count)

    def _stats(self, message: Message) -> None:
        match = _STATS.search(message.text)
        if match is not None:
            generated, distinct, queue = map(_number, match.groups())
            self.statistics = attrs.evolve(
                self.statistics, generated=generated, distinct=distinct, queue=queue
            )

    def _success(self, _message: Message) -> None:
        self.succeeded = True

    def _recovery(self, _message: Message) -> None:
        self.recovered = True

    def _coverage_start(self, _message: Message) -> None:
        self._coverage_reader = CoverageReader()

    def _coverage_line(self, message: Message) -> None:
        if self._coverage_reader is not None:
            self._coverage_reader.add(message.text)

    def _coverage_end(self, _message: Message) -> None:
        if self._coverage_reader is not None:
            self.coverage = self._coverage_reader.coverage()

    def _assertion(self, message: Message) -> None:
        detail = message.text.partition("second argument was:")[2] or message.text
        self._violated = ("assertion", None, diagnosis.one_line(detail).strip('"'))

    def _violation(self, message: Message) -> None:
        kind = _VIOLATIONS[message.code]
        named = _NAMED.search(message.text)
        name = named.group(1) if named else None
        if name is None and kind in ("action property", "temporal property"):
            # TLC names no temporal property, nor one that is a conjunction, as refinements are.
            name = self.config.only_property
        where = find_location(message.text.partition("\n")[0])
        self._violated = (kind, name, f"{where.point} is false" if where else None)
        if message.code in (2107, 2108):
            self._state(message.text.partition("\n")[2], None)

    def _step(self, message: Message) -> None:
        head, _, text = message.text.partition("\n")
        match = _STEP.match(head)
        self._state(text, match.group(2) if match else None)

    def _state(self, text: str, label: str | None) -> None:
        name = None if label is None or label.startswith("Initial predicate") else label.split()[0]
        try:
            state = parse_state(text)
        except ValueSyntaxError as problem:
            self.warnings.append(f"a state of the trace could not be read: {problem}")
            return
        self._steps.append(RawStep(state, name, find_location(label) if label else None))

    def _stuttering(self, _message: Message) -> None:
        self._stutters = True

    def _back_to_state(self, message: Message) -> None:
        match = _BACK.match(message.text)
        if match is not None:
            label = match.group(2)
            self._loop = (int(match.group(1)), label.split()[0] if label else None)

    def _error(self, message: Message) -> None:
        """Keep the first error: what follows is often its echo."""
        if message.code in _LEADS_INTO_TRACE or self.error is not None:
            return
        if self._violated is not None:
            if self._violated[0] == "assertion" and (named := _NAMED.search(message.text)):
                self._violated = ("assertion", named.group(1), self._violated[2])
            return
        if message.code in _PARSING_FAILED:
            self.error = diagnosis.parse_failure(list(self.raw_lines))
        elif message.code in _CONFIG_ERRORS:
            self.error = diagnosis.config_failure(message.text, self.config_path)
        else:
            self._error_text = message.text
            self.error = diagnosis.evaluation_failure(message.text, "")
            _, _, state = message.text.partition("While working on the initial state:\n")
            if state:
                self._state(state, None)

    def _positions(self, message: Message) -> None:
        if self._error_text:
            self.error = diagnosis.evaluation_failure(self._error_text, message.text)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


_VIOLATIONS: dict[int, ViolationKind] = {
    2104: "assumption",
    2107: "invariant",
    2108: "temporal property",
    2110: "invariant",
    2112: "action property",
    2114: "deadlock",
    2116: "temporal property",
}
_HANDLERS: dict[int, Callable[[Interpreter, Message], None]] = {
    _STARTING: Interpreter._started,
    _PARSING_DONE: Interpreter._parsing_done,
    _SUCCESS: Interpreter._success,
    _ASSERTION: Interpreter._assertion,
    _POSITIONS: Interpreter._positions,
    2122: Interpreter._back_to_state,
    2190: Interpreter._initial,
    2191: Interpreter._initial,
    2197: Interpreter._recovery,
    2199: Interpreter._stats,
    2201: Interpreter._coverage_start,
    2202: Interpreter._coverage_end,
    2217: Interpreter._step,
    2218: Interpreter._stuttering,
    2221: Interpreter._coverage_line,
    2772: Interpreter._coverage_line,
    2773: Interpreter._coverage_line,
    2774: Interpreter._coverage_line,
    2775: Interpreter._coverage_line,
}
