"""A fair lasso is found where there is one, and only there."""

import pytest

from spec.catalogue import load_catalogue
from spec.conformance.checking import explored
from spec.conformance.explore import Exploration
from spec.conformance.liveness import LIVENESS, fair_lasso

CATALOGUE = load_catalogue()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lively() -> Exploration:
    """The model whose liveness TLC checks, explored in the code."""
    return explored(CATALOGUE.select("Replication", "Replication/liveness", ())[0])[0]


@pytest.mark.parametrize("name", sorted(LIVENESS))
def test_the_right_rules_have_no_fair_behaviour_that_never_settles(
    lively: Exploration, name: str
) -> None:
    assert fair_lasso(lively, LIVENESS[name]) is None


def test_a_behaviour_that_would_be_unfair_does_not_count(lively: Exploration) -> None:
    """Nothing is settled at the start, but staying there is not fair; never settling is."""
    assert fair_lasso(lively, lambda cluster: cluster is not lively.states[0]) is None
    assert fair_lasso(lively, lambda _cluster: False) is not None
