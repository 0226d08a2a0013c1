"""Every known bug, put in place of the right rule, is caught by the property that it breaks."""

import pytest

from spec.catalogue import Mutant, load_catalogue
from spec.checking import Limits, check_mutant
from spec.runner import Verdict

CATALOGUE = load_catalogue()

pytestmark = [pytest.mark.tlc, pytest.mark.slow]


@pytest.mark.parametrize("mutant", CATALOGUE.mutants, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    result = check_mutant(mutant, Limits())
    assert result.caught, result.outcome.message or result.outcome.violation
    assert result.verdict is Verdict.HOLDS
    # A lasso's length depends on how TLC found it; a safety violation's is the shortest there is.
    trace = result.outcome.trace
    assert trace is not None
    endless = trace.stutters or trace.loops_to is not None
    assert mutant.length == (None if endless else result.length)
