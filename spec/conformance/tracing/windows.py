"""Lets TLC take the steps of a trace, window by window.

A window starts in the very state in which TLC ended the window before, so the windows of a trace
are one behaviour. Within one, the order of `order` is tried first, in which there is nothing
to search. Only if TLC gets stuck there it may deviate from it, and only if that does not help
either, the window is rejected.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from spec.catalogue import SPEC_DIR
from spec.conformance.tracing.lines import TraceError
from spec.conformance.tracing.rebase import shifted_step
from spec.conformance.tracing.steps import NOWHERE, Constants, Step
from spec.runner import Function, Job, Outcome, Progress, Value, Verdict, format_value, parse_value
from spec.runner import run as run_tlc

MODULE = SPEC_DIR / "TraceReplication.tla"
_UNBOUNDED = 1_000_000_000
_REPLACED = (
    *("Replicas", "None", "MinIsr", "FirstLeader", "UncleanElection", "AcksOne", "MaxRecords"),
    *("MaxEpoch", "MaxShrinks", "MaxFaults", "MaxDelays"),
)
_CONFIG = "INIT TraceInit\nNEXT TraceNext\nINVARIANT Report\nCONSTANTS\n" + "".join(
    f"    {name} <- Trace{name}\n" for name in _REPLACED
)


class OutOfTimeError(TraceError):
    """The time limit was reached before TLC knew."""


@attrs.frozen
class Reached:
    """Where TLC got: the state of the spec after so many steps."""

    state: Function
    taken: int


@attrs.frozen
class Task:
    """What TLC is to do with a window: tell where it is after as many steps as the `targets` say.

    From `slack_from` on it may take steps up to `slack` places before their turn; from
    `relaxed_from` on it need not compare what the lines say. Steps count from 0.
    """

    targets: tuple[int, ...]
    slack: int = 0
    slack_from: int = 0
    relaxed_from: int = NOWHERE


@attrs.frozen
class Machine:
    """How TLC is run."""

    memory_mb: int = 2_000
    workers: int = 1
    time_limit_s: float | None = None
    on_progress: Callable[[Progress], None] | None = None


@attrs.frozen
class Window:
    """Some steps, and the state they start in (None: the spec's own first one).

    `first` is the index of the first step in the whole trace; `base` entries are left out.
    """

    constants: Constants
    acks_one: Sequence[int]
    steps: Sequence[Step]
    first: int
    start: Function | None
    base: int = 0

    def data(self, task: Task) -> str:
        """Write `TraceData.tla`."""
        made = self.constants
        definitions = {
            "TraceReplicas": frozenset(made.replicas),
            "TraceNone": -1,
            "TraceMinIsr": made.min_isr,
            "TraceFirstLeader": made.first_leader,
            "TraceUncleanElection": made.unclean_election,
            "TraceAcksOne": frozenset(self.acks_one),
            **{f"Trace{name}": _UNBOUNDED for name in _REPLACED if name.startswith("Max")},
            "Slack": task.slack,
            "SlackFrom": task.slack_from + 1,
            "RelaxedFrom": task.relaxed_from + 1,
            "Targets": frozenset(task.targets),
            "Start": self.start if self.start is not None else (),
        }
        lines = ["---- MODULE TraceData ----", "EXTENDS Integers, TLC"]
        lines += [f"{name} == {format_value(value)}" for name, value in definitions.items()]
        steps = ",\n".join(format_value(self.fields(step)) for step in self.steps)
        return "\n".join([*lines, f"Steps == <<\n{steps}\n>>", "====", ""])

    def fields(self, step: Step) -> Function:
        """Give a step as TLC gets it."""
        fields = shifted_step(step.fields, self.base)
        item = step.item
        after = {self._place(other.last) for other in item.after if other is not None}
        if item.unsent:
            after.add(NOWHERE)
        fields["after"] = frozenset(after)
        if fields["act"] in ("LeaderHandleFetch", "LoseAnswer"):
            fields["until"] = self._place(step.until.first if step.until else None)
        if step.late is not None:
            late = [each for each in step.late if not each.only_repeats]
            fields["late"] = frozenset(self._place(each.first) for each in late)
        return Function(fields)

    def _place(self, index: int | None) -> int:
        """Give a step's place in this window: 0 for one before it, far away for one after it."""
        if index is None or index >= self.first + len(self.steps):
            return NOWHERE
        return max(0, index - self.first + 1)


def take(window: Window, machine: Machine, task: Task | None = None) -> list[Reached] | int:
    """Let TLC take steps; give where it was at the targets, or if it came to none of them, how many
    steps it could take at most."""
    task = task or Task((len(window.steps),))
    with tempfile.TemporaryDirectory(prefix="hwmark-trace-") as folder:
        config = Path(folder, "Trace.cfg")
        config.write_text(_CONFIG, encoding="utf-8")
        Path(folder, "TraceData.tla").write_text(window.data(task), encoding="utf-8")
        job = Job(
            MODULE,
            config,
            workers=machine.workers,
            memory_mb=machine.memory_mb,
            time_limit_s=machine.time_limit_s,
            library=(Path(folder),),
        )
        outcome = run_tlc(job, on_progress=machine.on_progress)
    found = list(_reached(outcome))
    if found:
        return found
    if outcome.verdict is Verdict.UNKNOWN:
        raise OutOfTimeError(f"TLC could not tell: {outcome.message}")
    if outcome.verdict is not Verdict.HOLDS:
        raise TraceError(f"TLC could not tell: {outcome.message or outcome.violation}")
    return max(0, outcome.statistics.depth - 1)


def _reached(outcome: Outcome) -> Iterator[Reached]:
    for text in outcome.printed:
        inner = parse_value(text) if text.startswith('"[') else ()
        value: Value = parse_value(inner) if isinstance(inner, str) else ()
        if isinstance(value, Function):
            yield _read(value)


def _read(value: Function) -> Reached:
    at, ahead, state = value["at"], value["ahead"], value["state"]
    if not isinstance(at, int) or not isinstance(ahead, frozenset):
        raise TraceError("TLC printed something that is not a place in the trace")
    if not isinstance(state, Function):
        raise TraceError("TLC printed something that is not a state")
    return Reached(state, at - 1 + len(ahead))
