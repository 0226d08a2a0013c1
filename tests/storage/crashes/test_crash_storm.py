"""The command that runs crashes by the thousand: its verdict, its status, its replay."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from storage.testing import Outcome


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, as a module."""
    path = Path(__file__).parents[3] / "scripts" / "crash_storm.py"
    spec = importlib.util.spec_from_file_location("crash_storm", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(path.parent))
    spec.loader.exec_module(module)
    return module


def called(storm: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["crash_storm", *arguments])
    status = storm.main()
    assert isinstance(status, int)
    return status


def test_runs_that_keep_every_promise_end_with_status_0(
    storm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(storm, monkeypatch, "--runs", "3", "--seed", "9", "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["runs"], verdict["first_seed"], verdict["failed"]) == (3, 9, [])
    assert verdict["starts"] > 3


def test_failing_seeds_are_listed_and_the_status_is_1(
    storm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcomes_of(seed: int) -> list[Outcome]:
        return [Outcome(seed, [], "lost" if seed in (4, 6) else None)]

    monkeypatch.setattr(storm, "outcomes_of", outcomes_of)
    assert called(storm, monkeypatch, "--runs", "10") == 1
    shown = capsys.readouterr().out
    assert "2 failed" in shown
    assert "4: lost" in shown
    assert "6: lost" in shown
    assert "--replay 4" in shown


def test_an_interrupted_storm_says_what_it_has_found(
    storm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcomes_of(seed: int) -> list[Outcome]:
        if seed == 3:
            raise KeyboardInterrupt
        return [Outcome(seed, [])]

    monkeypatch.setattr(storm, "outcomes_of", outcomes_of)
    assert called(storm, monkeypatch, "--runs", "10") == 130
    assert "3 runs" in capsys.readouterr().out


def test_a_replay_prints_every_operation(
    storm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(storm, monkeypatch, "--replay", "10") == 0
    shown = capsys.readouterr().out
    assert "seed 10: everything is as promised" in shown
    assert "create t-0" in shown
    assert shown.count("seed 10:") == 2
