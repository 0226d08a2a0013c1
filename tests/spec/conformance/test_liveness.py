"""A fair lasso is found where there is one, and only there."""

import pytest

from spec.catalogue import load_catalogue
from spec.conformance.checking import explored
from spec.conformance.liveness import LIVENESS, fair_lasso

CATALOGUE = load_catalogue()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LIVENESS))
def test_the_right_rules_have_no_fair_behaviour_that_never_settles(name: str) -> None:
    model = CATALOGUE.select("Replication", "Replication/liveness", ())[0]
    found, _ = explored(model)
    assert fair_lasso(found, LIVENESS[name]) is None


@pytest.mark.slow
def test_a_behaviour_that_would_be_unfair_does_not_count() -> None:
    """Nothing is ever settled at the start, but staying there is not fair."""
    model = CATALOGUE.select("Replication", "Replication/graph-three", ())[0]
    found, _ = explored(model)
    assert fair_lasso(found, lambda cluster: cluster is not found.states[0]) is None
    assert fair_lasso(found, lambda _cluster: False) is not None
