"""TLC finds nothing wrong with the specs, and explores as much of them as it is meant to.

A model's number of states is written down in its header. A change of the specs that changes it must
change it there too, so that nothing becomes reachable or unreachable without being noticed.
"""

import pytest

from spec.catalogue import Model, load_catalogue
from spec.checking import Limits, Vacuity, check_model, check_vacuity
from spec.runner import Verdict

CATALOGUE = load_catalogue()
SMOKE = CATALOGUE.select(None, None, ("smoke",))
# Those that are compared with the code are checked where their graphs are.
GATE = [each for each in CATALOGUE.select(None, None, ("gate",)) if not each.compared]

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
@pytest.mark.parametrize("spec", sorted({model.spec for model in SMOKE}))
def test_every_action_fires_and_every_guard_answers_both_ways(spec: str) -> None:
    found = vacuity(CATALOGUE.select(spec, None, ("smoke",)))
    assert found == Vacuity(silent_actions=(), one_sided_guards=())
    assert found.nothing


@pytest.mark.slow
def test_what_a_model_never_does_is_noticed() -> None:
    """Without delays there is no late message, and no answer of another epoch."""
    found = vacuity(CATALOGUE.select("Replication", "Replication/smoke", ()))
    assert not found.nothing
    assert {"HandleLateProposal", "ElectUncleanLeader"} <= set(found.silent_actions)
    assert ("AnswerIsCurrent", frozenset({True})) in found.one_sided_guards
