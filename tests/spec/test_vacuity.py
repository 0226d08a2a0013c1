"""The smoke models of a spec together exercise all of it: a check of what never happens is none."""

import pytest

from spec.catalogue import Model, load_catalogue
from spec.checking import Limits, Vacuity, check_vacuity, exercises_its_spec
from spec.conformance.systems import FAMILIES

CATALOGUE = load_catalogue()
SMOKE = list(filter(exercises_its_spec, CATALOGUE.select(None, None, ("smoke",))))
SPECS = sorted({model.spec for model in SMOKE})

pytestmark = pytest.mark.tlc


def vacuity(models: list[Model]) -> Vacuity:
    found = check_vacuity(models, Limits())
    assert isinstance(found, Vacuity), found
    return found


def test_these_are_the_specs_that_have_machines() -> None:
    """What is filed under Metadata is a model of Replication, and shows a refinement alone."""
    assert set(SPECS) == FAMILIES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_every_action_fires_and_every_guard_answers_both_ways(spec: str) -> None:
    found = vacuity([model for model in SMOKE if model.spec == spec])
    assert found == Vacuity(silent_actions=(), one_sided_guards=())
    assert found.nothing


@pytest.mark.slow
def test_what_a_model_never_does_is_noticed() -> None:
    """Without delays there is no late message, and no answer of another epoch."""
    found = vacuity(CATALOGUE.select("Replication", "Replication/smoke", ()))
    assert not found.nothing
    assert {"HandleLateProposal", "ElectUncleanLeader"} <= set(found.silent_actions)
    assert ("AnswerIsCurrent", frozenset({True})) in found.one_sided_guards
