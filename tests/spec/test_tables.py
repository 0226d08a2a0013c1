"""The tables in docs/ are about these models and these mutants, as they are now."""

from pathlib import Path

from spec.catalogue import load_catalogue
from spec.conformance.systems import is_in_code

CATALOGUE = load_catalogue()
TABLES = Path(__file__).parents[2] / "docs" / "tables"


def rows(name: str) -> list[list[str]]:
    """Read the rows of a Markdown table, without its head."""
    lines = (TABLES / name).read_text(encoding="utf-8").splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_model_is_in_a_table_with_its_size() -> None:
    told = [row[:3] for row in rows("models.md") + rows("deep.md")]
    assert told == [
        [
            model.name,
            "holds",
            f"{model.states:,}" if model.walks is None else f"{model.walks:,} walks",
        ]
        for model in CATALOGUE.models
    ]


def test_every_mutant_is_in_a_table_with_what_caught_it() -> None:
    told = {
        name: (rule, verdict, broken, length)
        for name, rule, verdict, broken, length, _ in rows("mutants.md")
    }
    assert list(told) == [mutant.name for mutant in CATALOGUE.mutants]
    for mutant in CATALOGUE.mutants:
        rule, verdict, broken, length = told[mutant.name]
        assert (rule, verdict, broken) == (mutant.rule or "(none)", "caught", mutant.broken)
        assert mutant.length in (None, int(length))


def test_every_compared_model_is_in_a_table_and_equal() -> None:
    told = [(row[0], row[1], row[2], row[4], row[5]) for row in rows("conformance.md")]
    assert told == [
        (model.name, "equal", f"{model.states:,}", "0 / 0", "0 / 0")
        for model in CATALOGUE.models
        if model.compared
    ]


def test_every_mutant_of_a_rule_is_in_a_table_as_caught_on_both_sides() -> None:
    mutants = [mutant for mutant in CATALOGUE.mutants if is_in_code(mutant)]
    told = rows("both.md")
    assert [row[0] for row in told] == [mutant.name for mutant in mutants]
    for mutant, (_, _, verdict, broken, spec, code, _) in zip(mutants, told, strict=True):
        assert (verdict, broken) == ("caught on both sides", mutant.broken)
        assert spec == code or mutant.length is None
