"""The quorum's side that is written in Python says what `Quorum.tla` says, name for name.

That the graphs are equal, and the mutants are caught, `test_conform` and `test_code_mutants` show.
Here is what these rely on, and that the comparison of quorums can fail.
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from protocol.errors import InvariantViolation
from protocol.machine import Event
from protocol.quorum import Follower, Leader, Quorum, QuorumState, Rules
from spec.catalogue import SPEC_DIR, Model, load_catalogue
from spec.checking import Limits
from spec.conformance.checking import Conformance, conform, explored
from spec.conformance.explore import Exploration
from spec.conformance.quorum import FAMILY, liveness, properties
from spec.conformance.quorum.mutants import RuleSet
from spec.conformance.quorum.node import at_rest
from spec.conformance.quorum.world import Snapshot, World
from spec.conformance.system import System, snake_case
from spec.runner.config import read_config
from spec.tla_text import operators
from spec.tla_text import rules as rules_of

CATALOGUE = load_catalogue()
MODELS = [model for model in CATALOGUE.models if model.spec == "Quorum"]
ALONE = CATALOGUE.select("Quorum", "Quorum/graph-alone", ())[0]


@pytest.fixture(scope="module")
def alone() -> tuple[Exploration[World], System[World]]:
    """The smallest model that is compared, explored in the code."""
    return explored(ALONE)


def text_of(module: str, operator: str) -> str:
    by_name = {each.name: each.text for each in operators(SPEC_DIR / f"{module}.tla")}
    return by_name[operator]


def test_every_rule_of_the_spec_is_one_of_the_machine_and_the_other_way_round() -> None:
    theirs = {snake_case(each.name) for each in rules_of(SPEC_DIR / "QuorumRules.tla")}
    assert theirs == set(attrs.fields_dict(Rules))


def test_every_variable_of_the_spec_is_projected() -> None:
    text = (SPEC_DIR / "QuorumState.tla").read_text(encoding="utf-8")
    block = re.search(r"^VARIABLES\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    names = re.findall(r"^    (\w+),? +\\\*", block[1], re.MULTILINE)
    assert len(names) > 15
    system = FAMILY.build(read_config(ALONE.config), FAMILY.right)
    assert list(system.project(system.initial)) == names


def test_every_property_that_a_model_names_has_a_counterpart() -> None:
    known = {*properties.INVARIANTS, *properties.ACTION_PROPERTIES, *liveness.LIVENESS}
    named = {
        name
        for model in MODELS
        for config in (read_config(model.config),)
        for name in (*config.invariants, *config.properties)
    }
    assert named == known


def test_the_fair_steps_are_those_that_heal() -> None:
    assert set(re.findall(r"(\w+)\([nv]", text_of("Quorum", "Heal"))) - {"Premature"} == (
        liveness._FAIR
    )


def test_between_steps_nothing_waits_for_storage_and_no_time_has_passed(
    alone: tuple[Exploration[World], System[World]],
) -> None:
    found, _ = alone
    for world in found.states:
        for node in world.nodes:
            state = node.state
            assert (state.saving, state.writes, state.deferred, state.parked) == (None, (), (), ())
            assert at_rest(state) == state
            assert state.log.end_offset == len(node.entries)
            assert isinstance(state.role, Follower) == (node.fetch is not None)


def test_the_smallest_graph_has_the_size_that_tlc_found_and_takes_what_the_others_may_not(
    alone: tuple[Exploration[World], System[World]],
) -> None:
    found, system = alone
    states = {repr(system.project(world)) for world in found.states}
    assert len(states) == ALONE.states
    labels = {label[0] for _, label, _ in found.edges}
    assert {"HandleLateSnapshot", "TakeSnapshot", "Restart"} <= labels
    assert any(isinstance(each, Snapshot) for world in found.states for each in world.messages)


def test_a_lone_voter_leads_in_one_step(
    alone: tuple[Exploration[World], System[World]],
) -> None:
    _, system = alone
    steps = [(label, after) for label, after in system.successors(system.initial)]
    ((_, after),) = [step for step in steps if step[0] == ("TimeOut", (1,))]
    assert isinstance(after.node(1).state.role, Leader)
    assert after.committed == ((1, 0),)


def compared(model: Model, rules: Any = None) -> Conformance:
    result = conform(model, Limits(), rules=rules)
    assert isinstance(result, Conformance), result
    return result


@pytest.mark.tlc
@pytest.mark.slow
def test_a_rule_that_is_wrong_in_the_code_alone_makes_the_graphs_differ() -> None:
    """Snapshots of less than what is committed are safe, but they are not the spec's."""
    wrong = attrs.evolve(Rules(), snapshot_offset=lambda hw, _end: max(0, hw - 1))
    result = compared(ALONE, RuleSet(quorum=wrong))
    assert result.broken is None
    assert not result.holds
    found = result.comparison
    assert found is not None
    spec_alone = found.successors(found.spec).keys() - found.successors(found.code).keys()
    assert {action for action, _ in spec_alone} == {"TakeSnapshot"}


@pytest.mark.tlc
@pytest.mark.slow
def test_a_machine_that_would_rather_stop_is_told_by_its_invariant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(_self: Quorum, event: Event, _before: object, after: QuorumState) -> None:
        if after.log.start_offset > 0:
            raise InvariantViolation("SnapshotIsCommitted", event, "by the test")

    monkeypatch.setattr(Quorum, "check", stop)
    result = compared(ALONE)
    assert not result.holds
    assert result.broken == "SnapshotIsCommitted"
