"""TLC finds nothing wrong with the specs, and explores as much of them as it is meant to.

A model's number of states is written down in its header. A change of the specs that changes it must
change it there too, so that nothing becomes reachable or unreachable without being noticed.
"""

import pytest

from spec.catalogue import Model, load_catalogue
from spec.checking import Limits, check_model
from spec.runner import Verdict

CATALOGUE = load_catalogue()
# Those that are compared with the code are checked where their graphs are.
SMOKE, GATE = (
    [each for each in CATALOGUE.select(None, None, (suite,)) if not each.compared]
    for suite in ("smoke", "gate")
)

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
