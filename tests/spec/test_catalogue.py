"""The catalogue is complete and consistent, and a badly written model or mutant is told clearly."""

from pathlib import Path

import pytest

from spec.catalogue import SPEC_DIR, CatalogueError, Model, Mutant, compose, load_catalogue
from spec.runner.config import Config, format_config, parse_config, read_config
from spec.tla_text import modules, operators, rules

CATALOGUE = load_catalogue()
SPECS = sorted({model.spec for model in CATALOGUE.models})
MODEL = "\\* A story.\n\\* module: A.tla\n\\* suite: smoke\nSPECIFICATION Spec\n"
MUTANT = "\\* A story.\n\\* module: A.tla\n\\* model: A/small\nINVARIANT Wrong\n"


def checked_properties(spec: str) -> set[str]:
    """Name every property that some model of a spec checks."""
    configs = [read_config(model.config) for model in CATALOGUE.models if model.spec == spec]
    return {name for config in configs for name in config.invariants + config.properties}


def mutants_of(spec: str) -> list[Mutant]:
    return [mutant for mutant in CATALOGUE.mutants if mutant.model.spec == spec]


def write_specs(folder: Path, model: str = MODEL, mutant: str | None = None) -> Path:
    """Lay out a folder of specs with one model and, perhaps, one mutant."""
    (folder / "models" / "A").mkdir(parents=True)
    (folder / "mutants").mkdir()
    for place in (folder, folder / "mutants"):
        (place / "A.tla").write_text("---- MODULE A ----\n====\n")
    (folder / "models" / "A" / "small.cfg").write_text(model)
    if mutant is not None:
        (folder / "mutants" / "bug.cfg").write_text(mutant)
    return folder


@pytest.mark.parametrize("spec", sorted(set(SPECS) - {"Metadata"}))
def test_every_rule_is_swapped_by_some_mutant(spec: str) -> None:
    """Also by a mutant of another spec that is built on this one."""
    module = SPEC_DIR / f"{spec}.tla"
    swapped = {
        mutant.rule for mutant in CATALOGUE.mutants if module in modules(mutant.model.module)
    }
    assert {rule.name for rule in rules(module)} - swapped == set()


@pytest.mark.parametrize("spec", SPECS)
def test_every_property_that_is_checked_is_broken_by_some_mutant(spec: str) -> None:
    assert checked_properties(spec) == {mutant.broken for mutant in mutants_of(spec)}


@pytest.mark.parametrize("spec", SPECS)
def test_every_property_that_is_defined_is_checked(spec: str) -> None:
    """An operator that nothing else uses, in a module that is checked, is a property."""
    checked = {model.module for model in CATALOGUE.models if model.spec == spec}
    texts = {module: module.read_text(encoding="utf-8") for module in checked}
    defined = {op.name: text for module, text in texts.items() for op in operators(module)}
    unused = {name for name, text in defined.items() if text.count(name) == 1}
    assert unused - checked_properties(spec) <= {"HistorySpec", "Symmetry"}


def test_every_model_that_is_explored_has_its_size_written_down() -> None:
    explored = [model for model in CATALOGUE.models if model.walks is None]
    assert [model.name for model in explored if model.states is None] == []


def test_every_wrong_rule_is_used() -> None:
    wrong = {mutant.wrong for mutant in CATALOGUE.mutants}
    helpers = {"FewVersions"}
    for module in SPEC_DIR.glob("mutants/*.tla"):
        assert {op.name for op in operators(module)} - wrong - helpers == set()


def test_a_mutant_takes_over_what_it_does_not_say_itself() -> None:
    mutant = CATALOGUE.mutant("kip-903")
    config = compose(mutant)
    assert config.constants["BrokerEpochIsCurrent"] == "<- AnyBrokerEpoch"
    assert config.constants["MaxEpoch"] == "= 3"
    assert config.constants["Replicas"] == "= {r1, r2}"
    assert config.statements["SPECIFICATION"] == ("Spec",)
    assert config.invariants == (mutant.broken,)
    assert config.properties == ()


@pytest.mark.parametrize("model", CATALOGUE.models, ids=lambda model: model.name)
def test_a_configuration_is_read_and_written_without_loss(model: Model) -> None:
    config = read_config(model.config)
    assert parse_config(format_config(config)) == config
    assert config != Config()


def test_models_are_found_by_spec_by_name_and_by_suite() -> None:
    gate = CATALOGUE.select("Replication", "gate", ())
    assert [model.name for model in gate] == ["Replication/gate"]
    smoke = CATALOGUE.select(None, "smoke-delays", ())
    assert [model.name for model in smoke] == ["Replication/smoke-delays"]
    deep = CATALOGUE.select("Replication", None, ("deep",))
    assert {model.suite for model in deep} == {"deep"}


@pytest.mark.parametrize(
    ("module", "model", "says"),
    [
        ("Replicaton", None, "there are .*Metadata, .*Replication"),
        (None, "gat", "Replication/gate"),
    ],
)
def test_a_name_that_does_not_exist_is_answered_by_those_that_do(
    module: str | None, model: str | None, says: str
) -> None:
    with pytest.raises(CatalogueError, match=says):
        CATALOGUE.select(module, model, ("smoke",))
    with pytest.raises(CatalogueError, match="KIP-101"):
        CATALOGUE.mutant("KIP-11")


@pytest.mark.parametrize(
    ("model", "mutant", "says"),
    [
        (MODEL.replace("\\* suite: smoke\n", ""), None, r"small.cfg: its header lacks .*suite"),
        (MODEL.replace("smoke", "smoky"), None, "small.cfg: suite is 'smoky', not one of smoke"),
        (MODEL.replace("A.tla", "B.tla"), None, r"small.cfg: the module .*B.tla does not exist"),
        (MODEL.replace("A story.", ""), None, "small.cfg: its first lines must tell"),
        (f"\\* states: many\n{MODEL}", None, "small.cfg: states is 'many', not a number"),
        (f"\\* simulate: lots\n{MODEL}", None, "small.cfg: simulate is not of the form"),
        (MODEL, MUTANT.replace("A/small", "A/large"), "bug.cfg: there is no model 'A/large'"),
        (MODEL, MUTANT + "INVARIANT Too\n", "bug.cfg: a mutant swaps one rule and breaks exactly"),
        (MODEL, MUTANT + "CONSTANTS A <- B C <- D\n", "bug.cfg: a mutant swaps one rule"),
    ],
)
def test_a_header_that_is_wrong_is_named_with_its_file(
    tmp_path: Path, model: str, mutant: str | None, says: str
) -> None:
    with pytest.raises(CatalogueError, match=says):
        load_catalogue(write_specs(tmp_path, model, mutant))


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="there are no models"):
        load_catalogue(tmp_path)
