"""The tables in which `hwmark check` tells what it found: for the terminal, and as Markdown.

A table is built once, as rows of text, and then shown in either form.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from rich import box
from rich.table import Table
from rich.text import Text

from spec.catalogue import Model
from spec.checking import MutantResult
from spec.runner import VERDICT_COLOURS, Outcome, Verdict

_WIDE = 110


@attrs.frozen
class Cell:
    """A text and the colour it has on a terminal."""

    text: str
    style: str = ""


@attrs.frozen
class Rows:
    """A table's headings, with numbers marked by a trailing `#`, and its rows.

    A heading marked by a trailing `?` is left out of a terminal that is too narrow for it.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def for_terminal(self, width: int) -> Table:
        """Build the table that rich prints."""
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        shown = [
            at for at, name in enumerate(self.headings) if width >= _WIDE or not name.endswith("?")
        ]
        for at in shown:
            number = self.headings[at].endswith("#")
            table.add_column(
                _bare(self.headings[at]), justify="right" if number else "left", overflow="fold"
            )
        for row in self.rows:
            table.add_row(*(Text(row[at].text, row[at].style) for at in shown))
        return table

    def markdown(self) -> str:
        """Write the table as Markdown."""
        lines = ["| " + " | ".join(map(_bare, self.headings)) + " |"]
        lines.append(
            "|"
            + "|".join(" ---: " if name.endswith("#") else " --- " for name in self.headings)
            + "|"
        )
        lines += ["| " + " | ".join(cell.text for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def _bare(heading: str) -> str:
    return heading.rstrip("#?")


def model_rows(results: Iterable[tuple[Model, Outcome]], *, stories: bool = False) -> Rows:
    """One row per model: what TLC said, how much it saw and, if wanted, what the model is about."""
    return Rows(
        ("model", "verdict", "distinct states#", "depth#", "seconds#")
        + (("what it explores",) if stories else ()),
        tuple(
            _model_row(model, outcome) + ((Cell(model.story),) if stories else ())
            for model, outcome in results
        ),
    )


def mutant_rows(results: Iterable[MutantResult]) -> Rows:
    """One row per mutant: the wrong rule, what caught it, and how short the story is."""
    return Rows(
        ("mutant", "rule?", "verdict", "property broken", "length#", "seconds#"),
        tuple(_mutant_row(result) for result in results),
    )


def _model_row(model: Model, outcome: Outcome) -> tuple[Cell, ...]:
    figures = outcome.statistics
    verdict = outcome.verdict.value
    if outcome.violation is not None:
        verdict = f"{verdict}: {outcome.violation.property_name or outcome.violation.kind}"
    distinct = f"{figures.distinct:,}"
    if not outcome.exhaustive:
        distinct = f"{model.walks:,} walks" if outcome.verdict is Verdict.HOLDS else "some walks"
    elif outcome.verdict is Verdict.HOLDS and model.states not in (None, figures.distinct):
        distinct += f" (was {model.states:,})"
    return (
        Cell(model.name),
        Cell(verdict, VERDICT_COLOURS[outcome.verdict]),
        Cell(distinct),
        Cell(str(figures.depth) if outcome.exhaustive else str(model.walk_steps)),
        Cell(f"{figures.seconds:.0f}"),
    )


def _mutant_row(result: MutantResult) -> tuple[Cell, ...]:
    verdict = {Verdict.HOLDS: "caught", Verdict.VIOLATED: "SURVIVED"}.get(
        result.verdict, result.verdict.value
    )
    violation = result.outcome.violation
    return (
        Cell(result.mutant.name),
        Cell(result.mutant.rule or "(none)"),
        Cell(verdict, VERDICT_COLOURS[result.verdict]),
        Cell((violation.property_name or violation.kind) if violation else "none"),
        Cell(str(result.length) if result.length is not None else ""),
        Cell(f"{result.outcome.seconds:.1f}"),
    )
