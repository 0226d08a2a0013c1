"""TLC finds nothing wrong with the specs, and explores as much of them as it is meant to.

A model's number of states is written down in its header. A change of the specs that changes it must
change it there too, so that nothing becomes reachable or unreachable without being noticed.
"""

from pathlib import Path

import attrs
import pytest

from spec.catalogue import SPEC_DIR, Model, load_catalogue
from spec.checking import Limits, Vacuity, check_model, check_vacuity, model_job
from spec.runner import Verdict, load_graph, run
from spec.tla_text import operators

CATALOGUE = load_catalogue()
SMOKE = CATALOGUE.select(None, None, ("smoke",))
GATE = CATALOGUE.select(None, None, ("gate",))
GRAPHS = [model for model in SMOKE + GATE if model.name.endswith(("graph", "smoke-delays"))]

pytestmark = pytest.mark.tlc


def assert_holds_at_its_size(model: Model) -> None:
    outcome = check_model(model, Limits())
    assert (outcome.verdict, outcome.message, outcome.violation) == (Verdict.HOLDS, None, None)
    if model.walks is None:
        assert outcome.statistics.distinct == model.states
    else:
        assert outcome.statistics.generated > model.walks


@pytest.mark.parametrize("model", SMOKE, ids=lambda model: model.name)
def test_a_smoke_model_holds(model: Model) -> None:
    assert_holds_at_its_size(model)


@pytest.mark.slow
@pytest.mark.parametrize("model", GATE, ids=lambda model: model.name)
def test_a_gate_model_holds(model: Model) -> None:
    assert_holds_at_its_size(model)


def vacuity(models: list[Model]) -> Vacuity:
    found = check_vacuity(models, Limits())
    assert isinstance(found, Vacuity), found
    return found


@pytest.mark.slow
def test_every_action_fires_and_every_guard_answers_both_ways() -> None:
    found = vacuity(CATALOGUE.select("Replication", None, ("smoke",)))
    assert found == Vacuity(silent_actions=(), one_sided_guards=())
    assert found.nothing


@pytest.mark.slow
def test_what_a_model_never_does_is_noticed() -> None:
    """Without delays there is no late message, and no answer of another epoch."""
    found = vacuity(CATALOGUE.select("Replication", "Replication/smoke", ()))
    assert not found.nothing
    assert {"HandleLateProposal", "ElectUncleanLeader"} <= set(found.silent_actions)
    assert ("AnswerIsCurrent", frozenset({True})) in found.one_sided_guards


def actions_of_next() -> set[str]:
    """Name the actions that Replication's Next is made of."""
    by_name = {operator.name: operator.text for operator in operators(SPEC_DIR / "Replication.tla")}
    return {name for name in by_name if f"\\/ {name}(" in by_name["Next"]}


@pytest.mark.slow
@pytest.mark.parametrize("model", GRAPHS, ids=lambda model: model.name)
def test_the_graph_to_compare_with_the_code_is_whole_and_labelled(
    model: Model, tmp_path: Path
) -> None:
    job = attrs.evolve(model_job(model, Limits()), dump=tmp_path / "graph.dot")
    assert run(job).verdict is Verdict.HOLDS
    graph = load_graph(tmp_path / "graph.dot")
    assert len(graph.states) == model.states
    assert len(graph.initial) == 1
    assert len(graph.edges) <= 600_000
    # Neither model allows unclean elections; late messages are in the smaller one only.
    late = {"LeaderHandleLateFetch", "HandleLateProposal"} if "graph" in model.name else set()
    labels = {action for _, action, _ in graph.edges}
    assert labels == actions_of_next() - {"ElectUncleanLeader"} - late
