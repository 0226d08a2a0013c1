"""Every known bug, put into the machines by swapping one rule, breaks what it breaks in TLC.

By the same property, and by a counterexample of the same minimal length.
"""

import pytest

from spec.catalogue import CatalogueError, Mutant, load_catalogue
from spec.conformance.checking import check_code_mutant
from spec.conformance.system import Family, snake_case
from spec.conformance.systems import FAMILIES, family_of, is_in_code

CATALOGUE = load_catalogue()
IN_CODE = [mutant for mutant in CATALOGUE.mutants if is_in_code(mutant)]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", IN_CODE, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_in_the_code_as_it_is_in_the_spec(mutant: Mutant) -> None:
    result = check_code_mutant(mutant)
    assert result.broken == mutant.broken
    assert result.caught
    if mutant.length is not None:
        assert result.length == mutant.length


def test_only_what_is_no_rule_has_no_counterpart_in_the_code() -> None:
    others = {mutant.name: mutant.rule for mutant in CATALOGUE.mutants if mutant not in IN_CODE}
    assert others == {"older-version": "LeaderView", "older-version-refinement": "LeaderView"}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.module)
def test_every_wrong_rule_belongs_to_a_mutant(family: Family) -> None:
    theirs = {mutant.wrong for mutant in IN_CODE if family_of(mutant.model) is family}
    assert set(family.wrong) == theirs - {None}


def test_a_mutant_of_what_is_no_rule_is_refused() -> None:
    older = CATALOGUE.mutant("older-version")
    with pytest.raises(CatalogueError, match="LeaderViewOfOlderVersion"):
        family_of(older.model).rules(older)


def test_the_rules_have_the_same_names_on_both_sides() -> None:
    assert snake_case("MayJoinIsr") == "may_join_isr"
    assert snake_case("KeptOnBecomingFollower") == "kept_on_becoming_follower"
