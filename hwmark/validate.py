"""`hwmark validate`: lets TLC decide whether a recorded trace is a behaviour of the spec.

The work is done in `spec.conformance.tracing`. This shows how far it is, and what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from rich.console import Console

from hwmark.console import say
from hwmark.tables import Cell, Rows
from spec.conformance.quorum import tracing as quorum
from spec.conformance.tracing.lines import Partition
from spec.conformance.tracing.validation import OnWindow, Result, Settings, validate
from spec.conformance.tracing.windows import Machine
from spec.runner import VERDICT_COLOURS, Verdict

DEFAULT_WINDOW = Settings().window
DEFAULT_MEMORY_MB = Machine().memory_mb
TIME_LIMIT_S = 600.0
"""For one window of a quorum's trace, whose steps TLC has to look for."""


@attrs.frozen
class Options:
    """What a user asked `hwmark validate` for."""

    trace: Path
    json: bool = False
    window: int = DEFAULT_WINDOW
    memory_mb: int = DEFAULT_MEMORY_MB
    time_limit_s: float | None = None
    total_time_limit_s: float | None = None


def run_validate(options: Options) -> int:
    """Validate a trace; give the exit status: 0 accepted, 1 rejected, 2 not all was judged."""
    if quorum.is_trace(options.trace):
        return _run_quorum(options)
    machine = Machine(memory_mb=options.memory_mb, time_limit_s=options.time_limit_s)
    settings = Settings(
        window=options.window, machine=machine, time_limit_s=options.total_time_limit_s
    )
    with _progress(quiet=options.json) as on_window:
        results = validate(options.trace, settings, on_window)
    if options.json:
        print(json.dumps([_as_json(result) for result in results], indent=2))
    else:
        _print(results)
    if any(result.rejection for result in results):
        return 1
    return 0 if all(result.accepted for result in results) else 2


def _run_quorum(options: Options) -> int:
    settings = quorum.Settings(
        memory_mb=options.memory_mb, time_limit_s=options.time_limit_s or TIME_LIMIT_S
    )
    tell = None if options.json else lambda lines: say(f"quorum: {lines:,} lines accepted")
    result = quorum.validate(options.trace, settings, tell)
    verdict = "accepted" if result.accepted else "rejected"
    if options.json:
        told = {"spec": "Quorum", "verdict": verdict, **attrs.asdict(result)}
        print(json.dumps([told], indent=2))
        return 0 if result.accepted else 1
    headings = ("spec", "verdict", "lines#", "lines accepted#", "windows#")
    colour = VERDICT_COLOURS[Verdict.HOLDS if result.accepted else Verdict.VIOLATED]
    counts = (result.lines, result.accepted_lines, result.windows)
    row = (Cell("Quorum"), Cell(verdict, colour), *(Cell(f"{count:,}") for count in counts))
    console = Console(highlight=False)
    console.print(Rows(headings, (row,)).for_terminal(console.width))
    if result.rejected is not None:
        console.print(result.rejected, style="bold red", soft_wrap=True)
    return 0 if result.accepted else 1


@contextmanager
def _progress(*, quiet: bool) -> Iterator[OnWindow | None]:
    """Show how many steps are accepted by now, on a terminal; elsewhere one line a window."""
    if quiet:
        yield None
        return
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda partition, steps: say(f"{_name(partition)}: {steps:,} steps accepted")
        return
    with console.status("TLC takes the first steps") as status:
        yield lambda partition, steps: status.update(
            f"{_name(partition)}: {steps:,} steps accepted"
        )


def _print(results: list[Result]) -> None:
    rows = tuple(_row(result) for result in results)
    console = Console(highlight=False)
    headings = ("partition", "verdict", "lines#", "steps accepted#", "windows#")
    console.print(Rows(headings, rows).for_terminal(console.width))
    for result in results:
        if result.rejection is not None:
            console.print(f"{result.rejection}", style="bold red", soft_wrap=True)
            for reason in result.rejection.reasons:
                console.print(f"  {reason}", soft_wrap=True, markup=False)
        elif result.unjudged is not None:
            why = f"{_name(result.partition)}: {result.unjudged}"
            console.print(why, style="bold", soft_wrap=True, markup=False)


def _row(result: Result) -> tuple[Cell, ...]:
    verdict = Verdict.VIOLATED if result.rejection else Verdict.UNKNOWN
    verdict = Verdict.HOLDS if result.accepted else verdict
    return (
        Cell(_name(result.partition)),
        Cell(_verdict(result), VERDICT_COLOURS[verdict]),
        Cell(f"{result.lines:,}"),
        Cell(f"{result.steps:,}"),
        Cell(f"{result.windows:,}"),
    )


def _verdict(result: Result) -> str:
    if result.rejection is not None:
        return "rejected"
    return "not judged" if result.unjudged is not None else "accepted"


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _as_json(result: Result) -> dict[str, object]:
    rejection = result.rejection
    return {
        "topic": result.partition[0],
        "partition": result.partition[1],
        "verdict": _verdict(result),
        "unjudged": result.unjudged,
        "lines": result.lines,
        "steps_accepted": result.steps,
        "windows": result.windows,
        "reordered": result.reordered,
        "rejection": None
        if rejection is None
        else {
            "line": rejection.line.where,
            "node": rejection.line.node,
            "steps": [step["name"] for step in rejection.line.steps],
            "message": str(rejection),
            "reasons": list(rejection.reasons),
        },
    }
