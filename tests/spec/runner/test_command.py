"""The command prints a verdict, saves what was asked for, and ends with the documented status."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spec.runner import Bar, Job, Progress, Trace, read_scenario
from spec.runner.command import main


def _arguments(job: Job, *more: str) -> list[str]:
    return [str(job.module), "--config", str(job.config), "--workers", "1", *more]


@pytest.mark.tlc
def test_a_violation_is_printed_and_saved(models: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trace_file, scenario_file = models.folder / "t.json", models.folder / "t.txt"
    saving = ["--save-trace", str(trace_file), "--save-scenario", str(scenario_file)]
    status = main(_arguments(models.counter("INVARIANT Small"), *saving))
    assert status == 1
    printed = capsys.readouterr()
    assert "counter: VIOLATED: invariant Small" in printed.out
    assert "f[n1]  0 -> 1" in printed.out
    assert "\x1b[" not in printed.out + printed.err
    trace = Trace.from_json(json.loads(trace_file.read_text(encoding="utf-8")))
    assert trace == read_scenario(scenario_file)
    assert len(trace) == 3


@pytest.mark.tlc
def test_json_alone_is_on_standard_output(models: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dump = models.folder / "graph.dot"
    assert main(_arguments(models.counter(), "--json", "--coverage", "--dump", str(dump))) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "holds"
    assert data["statistics"]["distinct"] == 17
    assert dump.is_file()


@pytest.mark.tlc
def test_an_error_of_the_model_is_one_line(models: Any, capsys: pytest.CaptureFixture[str]) -> None:
    job = models.job("Bad", "---- MODULE Bad ----\nVARIABLE x\nInit == x = y\n====\n")
    assert main(_arguments(job, "--quiet")) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "Bad: ERROR: Bad.tla:3:13: Unknown operator: `y'."
    assert printed.err == ""


@pytest.mark.tlc
def test_a_simulation_says_what_it_saw(models: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_arguments(models.counter(), "--simulate", "2", "--depth", "3")) == 0
    assert "HOLDS in every behaviour that was simulated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--config", "nowhere.cfg"], "the configuration nowhere.cfg does not exist"),
        (["--workers", "0"], "workers must be more than 0"),
        (["--dump", "nowhere/graph"], "cannot be written"),
        (["--save-trace", "nowhere/t.json"], "cannot be written"),
    ],
)
def test_a_mistake_of_the_user_is_one_line(
    models: Any, capsys: pytest.CaptureFixture[str], more: Sequence[str], told: str
) -> None:
    assert main(_arguments(models.counter(), *more)) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("spec.runner: ")
    assert told in errors
    assert errors.count("\n") == 1


def test_no_java_and_no_jar_are_one_line(
    models: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HWMARK_TLA2TOOLS", str(tmp_path / "nowhere.jar"))
    job = models.counter()
    assert main(_arguments(job)) == 2
    assert "which is not a file" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "")
    assert main(_arguments(job)) == 2
    assert "needs Java 17" in capsys.readouterr().err


PROGRESS = Progress(generated=1234, distinct=600, queue=50, depth=7, states_per_minute=9000)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_bar_is_shown_on_a_terminal_alone(is_terminal: bool) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=120)
    with Bar(console) as bar:
        bar.update("smoke")
        bar.update("smoke", PROGRESS)
    text = "1,234 states, 600 distinct, 50 queued, depth 7, 9,000/min"
    assert (text in shown.getvalue()) == is_terminal
    assert bool(shown.getvalue()) == is_terminal
