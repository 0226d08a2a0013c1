"""What real TLC says about tiny specs becomes the right verdict, violation and trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from spec.runner import Function, ModelValue, Outcome, Simulation, Trace, Verdict, run

pytestmark = pytest.mark.tlc

Check = Callable[..., Outcome]
n1, n2 = ModelValue("n1"), ModelValue("n2")


def _actions(trace: Trace) -> list[str | None]:
    return [step.action for step in trace.steps]


def test_a_model_that_holds(violated: Check) -> None:
    outcome = violated("")
    assert outcome.verdict is Verdict.HOLDS
    assert outcome.verdict.exit_status == 0
    assert outcome.exhaustive
    assert outcome.violation is None
    figures = outcome.statistics
    assert (figures.generated, figures.distinct, figures.queue) == (39, 17, 0)
    assert (figures.depth, figures.initial) == (5, 1)
    assert outcome.seconds > 0


def test_an_invariant_is_named_and_its_trace_is_typed(violated: Check) -> None:
    outcome = violated("INVARIANT Small")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.verdict.exit_status == 1
    violation = outcome.violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("invariant", "Small")
    assert _actions(violation.trace) == [None, "Increment", "Increment"]
    last = violation.trace.steps[-1]
    assert last.state == {"x": 2, "s": frozenset(), "f": Function({n1: 2, n2: 0})}
    assert last.changed == {"x", "f"}
    assert last.location is not None
    assert (last.location.module, last.location.line) == ("Counter", 8)
    assert violation.trace.steps[0].changed == {"x", "f", "s"}


def test_an_invariant_violated_at_once_has_a_trace_of_one_state(violated: Check) -> None:
    violation = violated("INVARIANT NotInitial").violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("invariant", "NotInitial")
    assert [step.state["x"] for step in violation.trace.steps] == [0]


def test_a_property_violated_by_the_initial_state_is_named(violated: Check) -> None:
    violation = violated("PROPERTY StartsAtOne").violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("temporal property", "StartsAtOne")
    assert len(violation.trace) == 1


def test_an_action_property_is_named_even_among_several(violated: Check) -> None:
    violation = violated("PROPERTIES AtZero NeverDown", "FairSpec").violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("action property", "NeverDown")
    assert _actions(violation.trace)[-1] == "Reset"


def test_a_refinement_is_named_if_it_is_the_only_property(models: Any) -> None:
    text = "---- MODULE {} ----\nEXTENDS Naturals\nVARIABLE {}\n{}\n====\n"
    steps = "Spec == n = 0 /\\ [][n' = n + 1]_n"
    models.write("Abstract.tla", text.format("Abstract", "n", steps))
    body = (
        "Init == x = 0\nNext == x' = x + 2 /\\ x < 4\n"
        "A == INSTANCE Abstract WITH n <- x\nRefines == A!Spec"
    )
    config = "INIT Init\nNEXT Next\nPROPERTY Refines\n"
    outcome = run(models.job("Concrete", text.format("Concrete", "x", body), config))
    assert outcome.violation is not None
    assert str(outcome.violation) == "action property Refines: Abstract.tla:4:18 is false"


def test_a_lasso_says_where_it_loops(violated: Check) -> None:
    violation = violated("PROPERTY Beyond", "FairSpec").violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("temporal property", "Beyond")
    assert (violation.trace.loops_to, violation.trace.loop_action) == (1, "Reset")
    assert not violation.trace.stutters


def test_without_fairness_the_counterexample_stutters(violated: Check) -> None:
    violation = violated("PROPERTY Beyond").violation
    assert violation is not None
    assert violation.trace.stutters
    assert violation.trace.loops_to is None


def test_one_of_several_temporal_properties_is_not_guessed(violated: Check) -> None:
    violation = violated("PROPERTIES Beyond AtZero", "FairSpec").violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("temporal property", None)


def test_a_failed_assertion_carries_its_text(violated: Check) -> None:
    violation = violated("INVARIANT Asserted").violation
    assert violation is not None
    assert (violation.kind, violation.property_name) == ("assertion", "Asserted")
    assert violation.detail == "x is too big"
    assert len(violation.trace) == 3


def test_a_deadlock_is_a_violation_only_when_asked_for(models: Any) -> None:
    outcome = run(models.deadlock(check_deadlock=True))
    assert outcome.violation is not None
    assert outcome.violation.kind == "deadlock"
    assert [step.state["x"] for step in outcome.violation.trace.steps] == [0, 1, 2]
    assert run(models.deadlock()).verdict is Verdict.HOLDS
    assert '<<"at", 0>>' in outcome.printed
    assert len(outcome.printed) == len(set(outcome.printed))


def test_a_simulation_holds_only_for_what_it_saw(models: Any) -> None:
    job = attrs.evolve(models.counter(), simulate=Simulation(traces=3, depth=5, seed=1))
    outcome = run(job)
    assert outcome.verdict is Verdict.HOLDS
    assert not outcome.exhaustive
    assert outcome.statistics.generated > 0


def test_an_assumption_is_checked_without_any_behaviour(models: Any) -> None:
    text = "---- MODULE {} ----\nEXTENDS Naturals\nASSUME 1 + 1 = {}\n====\n"
    assert run(models.job("Right", text.format("Right", 2), "")).verdict is Verdict.HOLDS
    violation = run(models.job("Wrong", text.format("Wrong", 3), "")).violation
    assert violation is not None
    assert violation.kind == "assumption"
    assert violation.detail == "Wrong.tla:3:8 is false"
