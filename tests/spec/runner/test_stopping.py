"""However a run ends early, it says so honestly, and no process and no folder is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from spec.runner import Job, Progress, Verdict, run

pytestmark = pytest.mark.tlc

ROOT = Path(__file__).parents[3]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are made, so that leftovers are seen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_time_limit_gives_unknown_and_not_holds(models: Any, temporary: Path) -> None:
    outcome = run(models.endless(time_limit_s=1.5))
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.verdict.exit_status == 2
    assert outcome.message is not None
    assert "the time limit of 1.5 s was reached" in outcome.message
    assert list(temporary.iterdir()) == []


HUGE = """
---- MODULE Huge ----
EXTENDS Integers
VARIABLE s
Init == s = {}
Next == s' = SUBSET (1..22)
====
"""


def test_running_out_of_memory_names_the_setting_to_raise(models: Any, temporary: Path) -> None:
    outcome = run(models.job("Huge", HUGE, memory_mb=32, time_limit_s=60))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.message == "TLC ran out of memory with 32 MB: raise memory_mb (--memory-mb)"
    assert list(temporary.iterdir()) == []


class _StopHereError(Exception):
    pass


def _java_of(parent: int) -> int:
    """Find the child process of a process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            return int(stat.parent.name)
    raise AssertionError("no child process")


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _make_sure_it_ends(groups: list[int]) -> None:
    # A failed test must not leave Java running.
    for group in filter(_is_alive, groups):
        os.killpg(group, signal.SIGKILL)


def test_an_exception_in_the_callback_ends_tlc(models: Any, temporary: Path) -> None:
    seen: list[int] = []

    def stop(progress: Progress) -> None:
        assert progress.generated > 0
        seen.append(_java_of(os.getpid()))
        raise _StopHereError

    try:
        with pytest.raises(_StopHereError):
            run(models.endless(), stop)
        assert not _is_alive(seen[0])
        assert list(temporary.iterdir()) == []
    finally:
        _make_sure_it_ends(seen)


def _start_command(job: Job, temporary: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "spec.runner", str(job.module), "--memory-mb", "256"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["interrupt", "terminate"],
)
def test_a_signal_ends_the_command_and_tlc(
    models: Any, temporary: Path, sent: signal.Signals, status: int
) -> None:
    command = _start_command(models.endless(), temporary)
    java = 0
    try:
        assert command.stderr is not None
        assert "states" in command.stderr.readline()
        java = _java_of(command.pid)
        assert list(temporary.iterdir()) != []
        command.send_signal(sent)
        _, errors = command.communicate()
        assert command.returncode == status
        assert "Traceback" not in errors
        assert not _is_alive(java)
        assert list(temporary.iterdir()) == []
    finally:
        command.kill()
        command.communicate()
        _make_sure_it_ends([java] if java else [])


WALK = """
---- MODULE Walk ----
EXTENDS Integers, Sequences
CONSTANT Endless
VARIABLE s
Init == s = <<>>
Next == Endless /\\ \\E i \\in 1..3 : s' = Append(s, i)
====
"""


def test_a_checkpoint_outlives_the_run_and_is_recovered(
    models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TLC checkpoints by the minute; its own switch makes that a moment, before the first report.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtlc2.TLCGlobals.chkpt=1")
    work_dir = tmp_path / "work"
    config = "INIT Init\nNEXT Next\nCONSTANT Endless = "
    job = models.job("Walk", WALK, config + "TRUE", memory_mb=256, work_dir=work_dir)
    with pytest.raises(_StopHereError):
        run(job, _stop)
    (checkpoint,) = work_dir.glob("tlc-*/states/*")
    # The recovered run only has to look at what was still to do.
    job.config.write_text(config + "FALSE", encoding="utf-8")
    outcome = run(attrs.evolve(job, recover=checkpoint))
    assert outcome.verdict is Verdict.HOLDS
    assert outcome.recovered
    assert outcome.checkpoint is None


def _stop(_progress: Progress) -> None:
    raise _StopHereError
