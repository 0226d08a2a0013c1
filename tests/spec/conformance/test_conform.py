"""The machines have the spec's state graph: no state and no labelled edge too many or too few.

And the comparison can fail: a rule that is wrong on one side alone makes the two differ, and the
path to the difference is shown.
"""

import re
from collections.abc import Mapping

import attrs
import pytest

from protocol.errors import InvariantViolation
from protocol.machine import Event
from protocol.replication import Replica, ReplicaState, Rules
from spec.catalogue import SPEC_DIR, CatalogueError, Model, load_catalogue
from spec.checking import Limits
from spec.conformance.checking import Conformance, conform, explored
from spec.conformance.compare import Numbering, compare
from spec.conformance.replication.mutants import RuleSet
from spec.conformance.system import Family
from spec.conformance.systems import FAMILIES, family_of
from spec.runner import Graph
from spec.tla_text import operators

CATALOGUE = load_catalogue()
COMPARED = [model for model in CATALOGUE.models if model.compared]
SMALLEST = CATALOGUE.select("Replication", "Replication/graph-three", ())[0]

pytestmark = [pytest.mark.tlc, pytest.mark.slow]


def compared(model: Model, rules: RuleSet | None = None) -> Conformance:
    found = conform(model, Limits(), rules=rules)
    assert isinstance(found, Conformance), found
    return found


@pytest.fixture(scope="module")
def results() -> Mapping[str, Conformance]:
    return {model.name: compared(model) for model in COMPARED}


@pytest.mark.parametrize("model", COMPARED, ids=lambda model: model.name)
def test_the_code_has_exactly_the_states_and_edges_of_the_spec(
    model: Model, results: Mapping[str, Conformance]
) -> None:
    result = results[model.name]
    assert result.broken is None
    found = result.comparison
    assert found is not None
    assert found.spec.states - found.code.states == frozenset()
    assert found.code.states - found.spec.states == frozenset()
    assert found.spec.edges - found.code.edges == frozenset()
    assert found.code.edges - found.spec.edges == frozenset()
    assert found.spec.initial == found.code.initial
    assert result.holds


@pytest.mark.parametrize("model", COMPARED, ids=lambda model: model.name)
def test_what_is_not_projected_does_not_matter(
    model: Model, results: Mapping[str, Conformance]
) -> None:
    found = results[model.name].comparison
    assert found is not None
    assert found.unstable == frozenset()
    assert found.concrete_states >= len(found.code.states)


@pytest.mark.parametrize("model", COMPARED, ids=lambda model: model.name)
def test_the_graph_is_the_one_that_the_model_promises(
    model: Model, results: Mapping[str, Conformance]
) -> None:
    found = results[model.name].comparison
    assert found is not None
    assert len(found.spec.states) == model.states
    assert len(found.spec.initial) == 1
    assert len(found.spec.edges) <= 600_000


def test_that_says_something_because_states_of_the_spec_are_several_in_the_code(
    results: Mapping[str, Conformance],
) -> None:
    found = results[SMALLEST.name].comparison
    assert found is not None
    assert found.concrete_states > len(found.code.states)


def actions_of_next(family: Family) -> set[str]:
    """Name the actions that the Next of a family's module is made of."""
    module = SPEC_DIR / f"{family.module}.tla"
    by_name = {operator.name: operator.text for operator in operators(module)}
    called = re.findall(r"\\/ (\w+)", by_name["Next"])
    return by_name.keys() & set(called)


EACH_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.module)


@EACH_FAMILY
def test_every_action_of_the_spec_is_compared(
    family: Family, results: Mapping[str, Conformance]
) -> None:
    labels = {
        action
        for result in results.values()
        if result.comparison is not None and family_of(result.model) is family
        for _, action, _ in result.comparison.code.edges
    }
    assert labels == actions_of_next(family)


@EACH_FAMILY
def test_every_action_of_the_spec_is_mirrored_by_an_action_of_the_machines(
    family: Family,
) -> None:
    mirrored = {
        name for machine in family.machines for action in machine.actions for name in action.mirrors
    }
    assert mirrored | family.environment == actions_of_next(family)
    assert not mirrored & family.environment


def test_a_rule_that_is_wrong_in_the_code_alone_breaks_a_property_or_the_comparison() -> None:
    """A follower that joins too early is a legal state nowhere; here TLC's graph lacks it."""
    early = attrs.evolve(Rules(), may_join_isr=lambda *_: True)
    result = compared(SMALLEST, RuleSet(replica=early))
    assert not result.holds


def test_a_difference_that_breaks_no_property_is_shown_by_the_shortest_path_to_it() -> None:
    """A leader that never takes laggards out is safe, but it is not the spec's."""
    patient = attrs.evolve(Rules(), may_leave_isr=lambda *_: False)
    result = compared(SMALLEST, RuleSet(replica=patient))
    found = result.comparison
    assert result.broken is None
    assert found is not None
    assert not result.holds
    assert found.code.edges < found.spec.edges
    # One record must be there before a follower can lag: the initial state, and Produce.
    assert [action for action, _ in found.path] == [None, "Produce"]
    spec_alone = found.successors(found.spec).keys() - found.successors(found.code).keys()
    assert {action for action, _ in spec_alone} == {"ShrinkIsr"}


def test_a_step_that_depends_on_what_is_not_projected_is_noticed() -> None:
    """Two states of the code that project alike, and one of them lacks a step of the other."""
    found, system = explored(SMALLEST)
    nothing = Graph(states={}, initial=frozenset(), edges=frozenset())
    whole = compare(found, nothing, system)
    assert whole.unstable == frozenset()
    numbering = Numbering(system.project(system.initial))
    by_number: dict[int, list[int]] = {}
    for index, cluster in enumerate(found.states):
        by_number.setdefault(numbering.number(system.project(cluster)), []).append(index)
    twin = next(indexes[1] for indexes in by_number.values() if len(indexes) > 1)
    dropped = next(edge for edge in found.edges if edge[0] == twin and edge[2] != twin)
    found.edges = [edge for edge in found.edges if edge != dropped]
    assert len(compare(found, nothing, system).unstable) == 1


def test_a_model_without_a_whole_graph_is_refused() -> None:
    for name in ("Replication/simulation", "Replication/gate-three"):
        model = CATALOGUE.select(None, name, ())[0]
        with pytest.raises(CatalogueError, match="no whole state graph"):
            conform(model, Limits())


def test_a_machine_that_would_rather_stop_is_told_by_its_invariant_and_the_path_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the code had been edited: its own check says what is wrong, before any property."""

    def stop(_self: Replica, event: Event, _before: object, after: ReplicaState) -> None:
        if after.high_watermark > 0:
            raise InvariantViolation("HwInLogRange", event, "by the test")

    monkeypatch.setattr(Replica, "check", stop)
    result = compared(SMALLEST)
    assert not result.holds
    assert result.broken == "HwInLogRange"
    assert result.trace is not None
    # A record, and what two of three replicas have of it, comes before a high watermark of 1.
    assert result.trace.steps[1].action == "Produce"
