"""What a run of TLC came to: a verdict, and the figures and the counterexample behind it."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Literal

import attrs

from spec.runner.coverage import Coverage
from spec.runner.trace import Trace
from spec.runner.value_json import Json


class Verdict(enum.Enum):
    """The answer to "does the model hold?"; UNKNOWN means that TLC was stopped before it knew."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"
    ERROR = "error"

    @property
    def exit_status(self) -> int:
        """The status a command ends with: 0 holds, 1 violated, 2 unknown or error."""
        return {Verdict.HOLDS: 0, Verdict.VIOLATED: 1}.get(self, 2)


ViolationKind = Literal[
    "invariant", "action property", "temporal property", "deadlock", "assertion", "assumption"
]


@attrs.frozen
class Progress:
    """How far TLC has come. In a simulation only `generated` is known; the others are 0."""

    generated: int
    distinct: int
    queue: int
    depth: int
    states_per_minute: int | None


@attrs.frozen
class Statistics:
    """The figures of a whole run, or of the part that ran before it was stopped."""

    generated: int = 0
    distinct: int = 0
    queue: int = 0
    depth: int = 0
    initial: int | None = None
    seconds: float = 0.0


@attrs.frozen
class Violation:
    """What was violated, and the behaviour that shows it.

    `property_name` is None where TLC does not say which one, as for one of several temporal
    properties. `detail` says more: the text of an `Assert`, or the place of the conjunct that is
    false.
    """

    kind: ViolationKind
    property_name: str | None
    trace: Trace
    detail: str | None = None

    def __str__(self) -> str:
        name = f" {self.property_name}" if self.property_name else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.kind}{name}{detail}"


@attrs.frozen
class Outcome:
    """Everything a run of TLC gave.

    `message` explains an ERROR or an UNKNOWN in one line. `error_trace` is the behaviour that led
    to an error of evaluation, if TLC printed one. `exhaustive` is False for a simulation, which
    sees only some behaviours, so that its HOLDS is weaker. `printed` are the first distinct lines
    the model itself printed. `checkpoint` is a folder from which a later job may `recover`.
    """

    verdict: Verdict
    statistics: Statistics
    violation: Violation | None = None
    coverage: Coverage | None = None
    message: str | None = None
    error_trace: Trace | None = None
    warnings: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    exhaustive: bool = True
    recovered: bool = False
    checkpoint: Path | None = None

    @property
    def seconds(self) -> float:
        """How long the run took, Java's start included."""
        return self.statistics.seconds

    @property
    def trace(self) -> Trace | None:
        """The behaviour to show, whether it leads to a violation or to an error."""
        return self.violation.trace if self.violation else self.error_trace

    def to_json(self) -> dict[str, Json]:
        """Turn the outcome into plain JSON data, without the coverage."""
        return {
            "verdict": self.verdict.value,
            "message": self.message,
            "exhaustive": self.exhaustive,
            "recovered": self.recovered,
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
            "statistics": attrs.asdict(self.statistics),
            "violation": _violation_to_json(self.violation),
            "error_trace": self.error_trace.to_json() if self.error_trace else None,
            "warnings": list[Json](self.warnings),
            "printed": list[Json](self.printed),
        }


def _violation_to_json(violation: Violation | None) -> Json:
    if violation is None:
        return None
    return {
        "kind": violation.kind,
        "property_name": violation.property_name,
        "detail": violation.detail,
        "trace": violation.trace.to_json(),
    }
