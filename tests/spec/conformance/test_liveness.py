"""A fair lasso is found where there is one, and only there."""

from typing import Any

import pytest

from spec.catalogue import Model, load_catalogue
from spec.conformance.checking import explored
from spec.conformance.explore import Exploration
from spec.conformance.liveness import fair_lasso
from spec.conformance.system import System
from spec.conformance.systems import FAMILIES
from spec.runner.config import read_config

CATALOGUE = load_catalogue()
LIVELY = [CATALOGUE.select(module, "liveness", ())[0] for module in FAMILIES]

pytestmark = pytest.mark.slow

Explored = tuple[Exploration[Any], System[Any]]


@pytest.fixture(scope="module", params=LIVELY, ids=lambda model: model.name)
def lively(request: pytest.FixtureRequest) -> tuple[Model, Explored]:
    """A model whose liveness TLC checks, explored in the code."""
    return request.param, explored(request.param)


def test_the_right_rules_have_no_fair_behaviour_that_never_settles(
    lively: tuple[Model, Explored],
) -> None:
    model, (found, system) = lively
    promised = set(read_config(model.config).properties) & system.liveness.keys()
    assert promised
    for name in sorted(promised):
        assert fair_lasso(system, found, system.liveness[name]) is None, name


def test_a_behaviour_that_would_be_unfair_does_not_count(lively: tuple[Model, Explored]) -> None:
    """Nothing is settled at the start, but staying there is not fair; never settling is."""
    _, (found, system) = lively
    assert fair_lasso(system, found, lambda state: state is not found.states[0]) is None
    assert fair_lasso(system, found, lambda _state: False) is not None


def test_every_liveness_property_is_promised_by_that_model(lively: tuple[Model, Explored]) -> None:
    model, (_, system) = lively
    assert system.liveness.keys() <= set(read_config(model.config).properties)
