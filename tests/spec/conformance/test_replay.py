"""A counterexample of TLC's replays on the machines, step by step, or the parting is shown."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from spec.catalogue import Mutant, compose, load_catalogue
from spec.checking import Limits, check_mutant
from spec.conformance.replay import Parted, Replayed, replay
from spec.conformance.system import System
from spec.conformance.systems import build, family_of
from spec.runner import Function, Trace, read_scenario, write_scenario

CATALOGUE = load_catalogue()
MUTANT = CATALOGUE.mutant("KIP-101")

pytestmark = pytest.mark.tlc


@pytest.fixture(scope="module")
def counterexample() -> Trace:
    trace = check_mutant(MUTANT, Limits()).outcome.trace
    assert trace is not None
    return trace


def system(mutant: Mutant, *, right_rules: bool = False) -> System[Any]:
    rules = family_of(mutant.model).rules(None if right_rules else mutant)
    return build(mutant.model, compose(mutant), rules)


def replayed(trace: Trace, mutant: Mutant | None) -> list[Replayed | Parted]:
    return list(replay(trace, system(MUTANT, right_rules=mutant is None)))


def test_the_machines_with_the_wrong_rule_take_every_step(counterexample: Trace) -> None:
    made = replayed(counterexample, MUTANT)
    assert len(made) == len(counterexample) == MUTANT.length
    assert all(isinstance(each, Replayed) for each in made)


def test_the_machines_with_the_right_rules_part_where_the_rule_matters(
    counterexample: Trace,
) -> None:
    last = replayed(counterexample, None)[-1]
    assert isinstance(last, Parted)
    assert last.step.action == "BecomeFollower"
    assert any("log" in differing for differing in last.instead)


def test_a_scenario_file_replays_like_the_trace_it_was_written_from(
    counterexample: Trace, tmp_path: Path
) -> None:
    path = tmp_path / "kip-101.txt"
    write_scenario(counterexample, path, ("KIP-101: AckedNotLost",))
    made = replayed(read_scenario(path), MUTANT)
    assert all(isinstance(each, Replayed) for each in made)


def test_a_state_that_was_changed_by_hand_is_noticed(counterexample: Trace) -> None:
    steps = list(counterexample.steps)
    used = steps[1].state["used"]
    assert isinstance(used, Function)
    forged = {**steps[1].state, "used": Function({**used, "records": 2})}
    steps[1] = attrs.evolve(steps[1], state=forged)
    made = replayed(attrs.evolve(counterexample, steps=tuple(steps)), MUTANT)
    assert isinstance(made[-1], Parted)
    assert made[-1].step.number == 2
    assert any("used" in differing for differing in made[-1].instead)


def test_every_safety_counterexample_replays() -> None:
    for name in ("KAFKA-8836", "KIP-903", "KIP-966", "same-epoch"):
        mutant = CATALOGUE.mutant(name)
        trace = check_mutant(mutant, Limits()).outcome.trace
        assert trace is not None
        made = list(replay(trace, system(mutant)))
        assert all(isinstance(each, Replayed) for each in made), name
