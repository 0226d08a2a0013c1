"""A job becomes a command line, and an impossible one is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spec.runner import Job, JobError, Simulation, run
from spec.runner.job import command_line


def _command(job: Job) -> list[str]:
    return command_line(job, Path("/java"), Path("/tools.jar"), Path("/run"))


def test_a_run_has_folders_of_its_own_and_a_relative_module(tmp_path: Path) -> None:
    command = _command(Job(tmp_path / "M.tla", tmp_path / "M.cfg"))
    assert "-Djava.io.tmpdir=/run/tmp" in command
    assert command[command.index("-metadir") + 1] == "/run/states"
    assert command[-1] == "M.tla"
    assert "-deadlock" in command


def test_every_option_reaches_tlc(tmp_path: Path) -> None:
    job = Job(
        tmp_path / "M.tla",
        tmp_path / "M.cfg",
        workers=3,
        memory_mb=512,
        check_deadlock=True,
        coverage=True,
        dump=tmp_path / "graph",
        library=(tmp_path / "a", tmp_path / "b"),
        recover=tmp_path / "old",
        checkpoint_minutes=5,
    )
    text = " ".join(_command(job))
    assert "-Xmx512m" in text
    assert f"-DTLA-Library={tmp_path}/a:{tmp_path}/b" in text
    assert "-workers 3" in text
    assert "-coverage 1" in text
    assert f"-dump dot,actionlabels {tmp_path}/graph" in text
    assert f"-recover {tmp_path}/old" in text
    assert "-checkpoint 5" in text
    assert "-deadlock" not in text
    assert job.dump_file == tmp_path / "graph.dot"


def test_a_simulation_has_one_worker_so_that_its_seed_replays_it(tmp_path: Path) -> None:
    simulation = Simulation(traces=4, depth=9, seed=7, file_prefix=tmp_path / "t")
    text = " ".join(_command(Job(Path("M.tla"), Path("M.cfg"), simulate=simulation)))
    assert f"-simulate file={tmp_path}/t,num=4 -depth 9 -seed 7" in text
    assert "-workers 1" in text


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"memory_mb": -1}, {"time_limit_s": 0.0}, {"checkpoint_minutes": 0}]
)
def test_limits_must_be_positive(options: dict[str, Any]) -> None:
    with pytest.raises(JobError, match=f"{next(iter(options))} must be more than 0"):
        Job(Path("M.tla"), Path("M.cfg"), **options)


def test_a_simulation_cannot_be_dumped() -> None:
    with pytest.raises(JobError, match="no state graph"):
        Job(Path("M.tla"), Path("M.cfg"), dump=Path("d"), simulate=Simulation(1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"module": "Nowhere.tla"}, "module .*Nowhere.tla does not exist"),
        ({"config": "nowhere.cfg"}, "configuration .*nowhere.cfg does not exist"),
        ({"module": "M.cfg"}, "not a .tla file"),
        ({"dump": "nowhere/graph"}, "dump .* cannot be written"),
        ({"dump": "folder.dot"}, "it is a folder"),
        ({"recover": "nowhere"}, "not a folder"),
        ({"work_dir": "M.cfg"}, "working folder cannot be used"),
        ({"library": "nowhere"}, "library folder .* does not exist"),
        ({"simulate": "with,comma"}, "no comma"),
    ],
)
def test_what_is_missing_is_named_before_the_start(
    change: dict[str, str], told: str, tmp_path: Path
) -> None:
    (tmp_path / "M.tla").touch()
    (tmp_path / "M.cfg").touch()
    (tmp_path / "folder.dot").mkdir()
    options: dict[str, Any] = {"module": tmp_path / "M.tla", "config": tmp_path / "M.cfg"}
    for name, value in change.items():
        path = tmp_path / value
        wrapped = {"library": (path,), "simulate": Simulation(1, file_prefix=path)}
        options[name] = wrapped.get(name, path)
    with pytest.raises(JobError, match=told):
        run(Job(**options))
