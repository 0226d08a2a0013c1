"""An interrupt that comes while TLC is being started is held until there is something to stop."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spec.runner import Job
from spec.runner import process as runner_process


def test_signals_are_held_and_handlers_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with runner_process._signals_held() as held:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert held == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_during_the_start_stops_what_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child itself interrupts us, and Popen is made to return only after it has."""
    marker = tmp_path / "interrupted"
    child = f"""
import os, pathlib, signal
os.kill(os.getppid(), signal.SIGINT)
pathlib.Path({str(marker)!r}).touch()
signal.pause()
"""
    pids = []
    real = subprocess.Popen

    def slow_popen(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        process = real(*arguments, **options)
        pids.append(process.pid)
        while not marker.exists():
            pass
        return process

    monkeypatch.setattr(subprocess, "Popen", slow_popen)
    job = Job(tmp_path / "M.tla", tmp_path / "M.cfg")
    command = [sys.executable, "-c", child]
    with (
        pytest.raises(KeyboardInterrupt),
        (tmp_path / "stderr").open("wb") as errors,
        runner_process._started(command, job, errors.fileno()),
    ):
        pytest.fail("the interrupt was lost")
    assert not Path(f"/proc/{pids[0]}").exists()
