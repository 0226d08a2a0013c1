"""Coverage is typed, and a witness run tells what coverage cannot."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from spec.runner import Coverage, Job, JobError, Location, rule_answers, run, witness_job
from spec.runner.coverage import CoverageReader

RULES = r"""
---- MODULE Rules ----
EXTENDS Integers
VARIABLES x, y
Guard(n) == n < 3
Always(n) == n >= 0
Choice(n) == IF n > 1 THEN n ELSE n + 1
Never(n) == n > 100
Quiet == x = 1
Unasked(n) == n = 7
Init == x = 0 /\ y = 0
Grow == /\ Guard(x)
        /\ Always(x)
        /\ x' = x + 1
        /\ y' = Choice(x)
Jump == /\ Never(x) \/ Quiet
        /\ x' = 3
        /\ y' = IF Guard(y) THEN 0 ELSE 9
Stuck == x > 10 /\ x' = 0 /\ y' = 0
Next == Grow \/ Jump \/ Stuck
Positive == x >= 0
====
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A model with guards of every kind."""
    folder = tmp_path_factory.mktemp("rules")
    module, config = folder / "Rules.tla", folder / "Rules.cfg"
    module.write_text(RULES.lstrip(), encoding="utf-8")
    config.write_text("INIT Init\nNEXT Next\nINVARIANT Positive\n", encoding="utf-8")
    return Job(module, config, workers=1)


@pytest.fixture(scope="module")
def coverage(rules: Job) -> Coverage:
    """What TLC counted on that model."""
    outcome = run(attrs.evolve(rules, coverage=True))
    assert outcome.coverage is not None
    return outcome.coverage


@pytest.mark.tlc
def test_actions_are_counted(coverage: Coverage) -> None:
    counted = {item.name: (item.distinct, item.generated) for item in coverage.actions}
    assert counted == {
        "Init": (1, 1),
        "Grow": (3, 3),
        "Jump": (1, 1),
        "Stuck": (0, 0),
        "Positive": (None, None),
    }
    assert coverage.unused_actions() == ("Stuck",)
    (grow,) = (item for item in coverage.actions if item.name == "Grow")
    assert (grow.module, grow.location.line) == ("Rules", 11)


@pytest.mark.tlc
def test_the_branches_of_a_value_are_counted_apart(coverage: Coverage) -> None:
    body = Location("Rules", 6, 1, 6, 99)
    counts = {item.location.column: item.count for item in coverage.within(body)}
    assert counts[28] + counts[35] == counts[14]


@pytest.mark.tlc
def test_coverage_does_not_tell_how_often_a_guard_was_true(coverage: Coverage) -> None:
    # `x > 10` is never TRUE, and yet counts; the docs say what may be concluded.
    (guard,) = (item for item in coverage.expressions if item.location.line == 18 and item.count)
    assert guard.within == "Stuck"
    assert guard.count > 0


@pytest.mark.tlc
def test_a_witness_tells_which_answers_a_rule_gave(rules: Job, tmp_path: Path) -> None:
    watched = {"Guard": 1, "Always": 1, "Never": 1, "Quiet": 0, "Unasked": 1}
    outcome = run(witness_job(rules, watched, tmp_path))
    assert rule_answers(outcome) == {
        "Guard": {True, False},
        "Always": {True},
        "Never": {False},
        "Quiet": {True, False},
    }
    plain = run(rules).statistics
    found = outcome.statistics
    assert (found.generated, found.distinct) == (plain.generated, plain.distinct)


@pytest.mark.parametrize(
    ("rules_asked", "told"),
    [({"Bad Name": 1}, "not an operator"), ({"Guard": 1}, "already replaces")],
)
def test_a_rule_that_cannot_be_watched_is_refused(
    rules: Job, tmp_path: Path, rules_asked: dict[str, int], told: str
) -> None:
    config = tmp_path / "other.cfg"
    config.write_text("CONSTANT Guard <- WrongGuard\n", encoding="utf-8")
    with pytest.raises(JobError, match=told):
        witness_job(attrs.evolve(rules, config=config), rules_asked, tmp_path)


def test_newer_and_unknown_lines_are_read_or_skipped() -> None:
    reader = CoverageReader()
    reader.add("<F line 3, col 1 to line 3, col 1 of module M (3 9 3 20)>: 4:45")
    reader.add("  ||line 3, col 9 to line 3, col 20 of module M: 7:21")
    reader.add("something else")
    coverage = reader.coverage()
    assert [(item.name, item.generated) for item in coverage.actions] == [("F", 45)]
    (expression,) = coverage.expressions
    assert (expression.depth, expression.count, expression.cost) == (2, 7, 21)
