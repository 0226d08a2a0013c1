"""Long checks can be interrupted and gone on with, and never trust a result of another text."""

from pathlib import Path

import attrs
import pytest

from spec.catalogue import CatalogueError, Model, load_catalogue
from spec.checking import Limits, check_model, model_job
from spec.ledger import Ledger
from spec.runner import Outcome, Statistics, Verdict

SPEC = """---- MODULE A ----
EXTENDS Naturals
VARIABLE x
Spec == x = 0 /\\ [][x < 4 /\\ x' = x + 1]_x
====
"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    folder = tmp_path / "specs"
    (folder / "models" / "A").mkdir(parents=True)
    (folder / "A.tla").write_text(SPEC)
    (folder / "models" / "A" / "small.cfg").write_text(
        "\\* Counts.\n\\* module: A.tla\n\\* suite: deep\nSPECIFICATION Spec\n"
    )
    return load_catalogue(folder).models[0]


@pytest.mark.tlc
def test_a_model_that_holds_is_not_run_again(model: Model, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.finished(model) is None
    outcome = check_model(model, Limits(), ledger=ledger)
    ledger.record(model, outcome)
    again = Ledger(tmp_path / "ledger").finished(model)
    assert again is not None
    assert again.verdict is Verdict.HOLDS
    assert again.statistics == outcome.statistics
    assert again.statistics.distinct == 5


def test_a_changed_spec_is_checked_anew(model: Model, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(model, Outcome(Verdict.HOLDS, Statistics(distinct=5)))
    model.module.write_text(SPEC.replace("x < 4", "x < 5"))
    assert ledger.finished(model) is None
    model.module.write_text(SPEC)
    assert ledger.finished(model) is not None
    model.config.write_text("\\* states: 5\n" + model.config.read_text())
    assert ledger.finished(model) is not None
    model.config.write_text(model.config.read_text() + "CHECK_DEADLOCK FALSE\n")
    assert ledger.finished(model) is None
    assert ledger.finished(attrs.evolve(model, walks=7)) is None


@pytest.mark.parametrize("verdict", [Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.ERROR])
def test_only_what_holds_is_remembered(verdict: Verdict, model: Model, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(model, Outcome(verdict, Statistics()))
    assert ledger.finished(model) is None


def test_an_unfinished_run_goes_on_from_its_last_checkpoint(model: Model, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    job = ledger.resumable(model, model_job(model, Limits()))
    assert job.recover is None
    assert job.work_dir is not None
    checkpoint = job.work_dir / "tlc-1" / "states" / "26-11-16"
    checkpoint.mkdir(parents=True)
    (checkpoint / "queue.chkpt").touch()
    assert ledger.resumable(model, job).recover == checkpoint
    changed = attrs.evolve(model, config=model.config)
    model.module.write_text(SPEC.replace("x < 4", "x < 5"))
    assert ledger.resumable(changed, job).recover is None
    assert not checkpoint.exists()


def test_a_damaged_ledger_is_told_and_kept(model: Model, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.folder.mkdir()
    for text in ("{", "[]"):
        (ledger.folder / "ledger.json").write_text(text)
        with pytest.raises(CatalogueError, match=r"ledger.json .*remove it"):
            ledger.finished(model)
