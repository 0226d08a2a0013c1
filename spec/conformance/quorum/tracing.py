"""Lets TLC decide whether a recorded trace of a quorum is a behaviour of `Quorum.tla`.

A trace is NDJSON as `docs/traces.md` describes it. It is judged in windows; each starts in the very
state of the spec in which TLC ended the one before, so that all windows together are one behaviour.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from protocol.quorum.trace import FORMAT, Line
from spec.catalogue import SPEC_DIR
from spec.conformance.tracing.lines import TraceError
from spec.runner import (
    Function,
    Job,
    Value,
    Verdict,
    format_value,
    function,
    parse_value,
    run,
)

MODULE = SPEC_DIR / "TraceQuorum.tla"
_UNBOUNDED = 1_000_000_000
_NOBODY = -1
_BUDGETS = ("Epoch", "Records", "Timeouts", "Contests", "Restarts", "Cuts", "Snapshots", "Delays")
_REPLACED = ("Voters", "Observers", "None", "FirstLeader", *(f"Max{name}" for name in _BUDGETS))
_CONFIG = "INIT TraceInit\nNEXT TraceNext\nINVARIANT Report\nCONSTANTS\n" + "".join(
    f"    {name} <- Trace{name}\n" for name in _REPLACED
)
_LONGEST_LINE = 1 << 20
_NUMBERS = ("epoch", "voted", "leader", "start", "end", "hw")


@attrs.frozen
class Settings:
    """How a trace is judged: lines given to TLC at once, places that a line may be early."""

    window: int = 150
    slack: int = 12
    memory_mb: int = 2_000
    time_limit_s: float | None = None


@attrs.frozen
class Result:
    """What came of it: how many lines were accepted, and the first that cannot have happened."""

    lines: int
    accepted_lines: int
    windows: int
    rejected: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the whole trace is a behaviour of the spec."""
        return self.rejected is None


@attrs.frozen
class _Step:
    """A line that TLC takes, and where it stands in the file."""

    where: str
    node: int
    action: str
    fields: Function


@attrs.frozen
class _Trace:
    voters: frozenset[int]
    observers: frozenset[int]
    steps: list[_Step]


def is_trace(path: Path) -> bool:
    """Whether a file begins as the trace of a quorum does."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = json.loads(file.readline(_LONGEST_LINE))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and first.get("spec") == "Quorum"


def validate(
    path: Path, settings: Settings | None = None, on_window: Callable[[int], None] | None = None
) -> Result:
    """Judge a trace; raise `TraceError` for what is none, or cannot be told in time."""
    settings = settings or Settings()
    trace = _read(path)
    state: Function | None = None
    accepted = windows = 0
    for first in range(0, len(trace.steps), settings.window):
        window = trace.steps[first : first + settings.window]
        taken, state = _judge(trace, window, state, settings)
        windows += 1
        accepted += taken
        if state is None:
            return Result(len(trace.steps), accepted, windows, _rejection(window, taken))
        if on_window is not None:
            on_window(accepted)
    return Result(len(trace.steps), accepted, windows)


def _rejection(window: Sequence[_Step], taken: int) -> str:
    """Name the line at which it ends, as far as an order that TLC may change can tell."""
    stuck = window[min(taken, len(window) - 1)]
    return (
        f"{stuck.where}: node {stuck.node} cannot have got there by {stuck.action}, or another"
        " node cannot by a line near it"
    )


def _judge(
    trace: _Trace, window: Sequence[_Step], start: Function | None, settings: Settings
) -> tuple[int, Function | None]:
    """Let TLC take the lines as they stand; where it is stuck, in other orders around there."""
    loose: frozenset[int] = frozenset()
    best = -1
    while True:
        taken, state = _take(trace, window, start, loose, settings)
        if state is not None or taken <= best:
            return max(taken, best), state
        best = taken
        loose |= frozenset(range(max(1, taken + 1 - settings.slack), taken + 2))


def _take(
    trace: _Trace,
    window: Sequence[_Step],
    start: Function | None,
    loose: frozenset[int],
    settings: Settings,
) -> tuple[int, Function | None]:
    """Let TLC take the lines; give how many it could, and the state after all of them."""
    with tempfile.TemporaryDirectory(prefix="hwmark-trace-") as folder:
        config = Path(folder, "Trace.cfg")
        config.write_text(_CONFIG, encoding="utf-8")
        data = _data(trace, window, start, loose, settings)
        Path(folder, "TraceData.tla").write_text(data, encoding="utf-8")
        outcome = run(
            Job(
                MODULE,
                config,
                workers=1,
                memory_mb=settings.memory_mb,
                time_limit_s=settings.time_limit_s,
                library=(Path(folder),),
            )
        )
    taken = 0
    for report in _reports(outcome.printed):
        state, count = report.get("state"), report["taken"]
        if isinstance(count, int):
            taken = max(taken, count)
        if isinstance(state, Function):
            return taken, state
    if outcome.verdict is not Verdict.HOLDS:
        raise TraceError(f"TLC could not tell: {outcome.message or outcome.violation}")
    return taken, None


def _reports(printed: Iterable[str]) -> Iterator[Function]:
    for text in printed:
        inner = parse_value(text) if text.startswith('"[') else ()
        value: Value = parse_value(inner) if isinstance(inner, str) else ()
        if isinstance(value, Function):
            yield value


def _data(
    trace: _Trace,
    window: Sequence[_Step],
    start: Function | None,
    loose: frozenset[int],
    settings: Settings,
) -> str:
    """Write `TraceData.tla`."""
    definitions: dict[str, Value] = {
        "TraceVoters": trace.voters,
        "TraceObservers": trace.observers,
        "TraceNone": _NOBODY,
        "TraceFirstLeader": _NOBODY,
        **{f"TraceMax{name}": _UNBOUNDED for name in _BUDGETS},
        "Slack": settings.slack,
        "Loose": loose,
        "Start": start if start is not None else (),
    }
    lines = ["---- MODULE TraceData ----", "EXTENDS Integers, TLC"]
    lines += [f"{name} == {format_value(value)}" for name, value in definitions.items()]
    steps = ",\n".join(format_value(step.fields) for step in window)
    return "\n".join([*lines, f"Lines == <<\n{steps}\n>>", "====", ""])


def _read(path: Path) -> _Trace:
    """Read a whole trace, strictly: a bad line is named."""
    numbered = enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    lines = [(f"{path}:{number}", _object(text, f"{path}:{number}")) for number, text in numbered]
    if not lines or lines[0][1].get("spec") != "Quorum":
        raise TraceError(f"{path}: does not begin as the trace of a quorum")
    where, first = lines[0]
    if first.get("format") != FORMAT:
        raise TraceError(f"{where}: has format {first.get('format')!r}, and this reads {FORMAT}")
    voters, observers = (frozenset(first.get(name, ())) for name in ("voters", "observers"))
    nodes = sorted(voters | observers)
    expected: dict[int, tuple[int, int]] = {}
    steps = []
    for where, line in lines[1:]:
        try:
            step = _step(where, line, nodes)
        except (KeyError, TypeError, ValueError) as problem:
            raise TraceError(f"{where}: is not a line of a trace: {problem!r}") from None
        _check_number(where, line, expected)
        if (line["incarnation"], line["seq"]) != (1, 0):
            steps.append(step)
    return _Trace(voters, observers, steps)


def _object(text: str, where: str) -> Line:
    try:
        data = json.loads(text)
    except ValueError:
        raise TraceError(f"{where}: is not JSON") from None
    if not isinstance(data, dict):
        raise TraceError(f"{where}: is not a JSON object")
    return data


def _check_number(where: str, line: Line, expected: dict[int, tuple[int, int]]) -> None:
    """See to it that no node's line is missing, and that each starts with its first."""
    last, found = expected.get(line["node"], (0, 0)), (line["incarnation"], line["seq"])
    if found not in ((last[0], last[1] + 1), (last[0] + 1, 0)):
        raise TraceError(
            f"{where}: is {found} of node {line['node']} after {last}: lines are missing"
        )
    expected[line["node"]] = found


def _step(where: str, line: Line, nodes: Sequence[int]) -> _Step:
    state = line["state"]
    if line["node"] not in nodes:
        raise ValueError(f"there is no node {line['node']}")
    known = {int(node): _number(end) for node, end in state["followers"].items()}
    fields: dict[str, Any] = {name: _number(state[name]) for name in _NUMBERS}
    fields["role"] = str(state["role"])
    fields["votes"] = frozenset(_number(voter) for voter in state["votes"])
    fields["remote"] = function({node: known.get(node, 0) for node in nodes})
    fields["runs"] = tuple(
        Function({"epoch": _number(epoch), "start": _number(start)})
        for epoch, start in state["epochs"]
    )
    restart = line["seq"] == 0
    taken = Function({"node": line["node"], "restart": restart, "state": Function(fields)})
    return _Step(where, line["node"], str(line["action"]), taken)


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
