"""Runs TLC as a child process, and makes sure that nothing of it is left behind.

TLC runs in a process group of its own. Whatever ends the run early (a time limit, an interrupt, an
exception in a callback) ends that group too, and temporary folders go with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, cast

import attrs

from spec.runner import diagnosis
from spec.runner.config import read_config
from spec.runner.errors import JobError, ToolchainError
from spec.runner.interpreter import Interpreter
from spec.runner.job import Job, check_files, command_line, meta_dir, tmp_dir
from spec.runner.messages import read_messages
from spec.runner.outcome import Outcome, Progress, Statistics, Verdict
from spec.runner.toolchain import find_jar, find_java

_GRACE_S = 5.0
_STDERR_TAIL = 64 * 1024
# What Java exits with under ExitOnOutOfMemoryError.
_JAVA_OUT_OF_MEMORY = 3


def run(job: Job, on_progress: Callable[[Progress], None] | None = None) -> Outcome:
    """Run TLC to its end, or to the job's time limit, and say what it found.

    What is wrong with the model is in the `Outcome`. A `JobError` or `ToolchainError` means that
    TLC could not be started. `on_progress` is called from this thread, after 3 seconds and then
    once a minute: TLC 2.15 reports no more often.
    """
    check_files(job)
    java, jar = find_java(), find_jar()
    interpreter = Interpreter(read_config(job.config), job.config)
    started = time.monotonic()
    with _run_dir(job) as run_dir:
        command = command_line(job, java, jar, run_dir)
        end = _execute(command, job, run_dir, interpreter, on_progress)
        statistics = attrs.evolve(interpreter.statistics, seconds=time.monotonic() - started)
        outcome = _judge(job, interpreter, end, statistics)
        return attrs.evolve(outcome, checkpoint=_checkpoint(job, run_dir))


@attrs.frozen
class _End:
    """How the process ended."""

    status: int
    timed_out: bool
    stderr: str


def _execute(
    command: list[str],
    job: Job,
    run_dir: Path,
    interpreter: Interpreter,
    on_progress: Callable[[Progress], None] | None,
) -> _End:
    # Standard error goes to a file: it is read only if TLC fails, and a pipe would need a thread.
    error_file = run_dir / "stderr"
    with (
        error_file.open("wb") as errors,
        _started(command, job, errors.fileno()) as process,
        _time_limit(process, job.time_limit_s) as timed_out,
    ):
        for item in read_messages(cast(TextIO, process.stdout)):
            progress = interpreter.handle(item)
            if progress is not None and on_progress is not None:
                on_progress(progress)
        status = process.wait()
    return _End(status, timed_out.is_set(), _tail(error_file))


@contextlib.contextmanager
def _started(command: list[str], job: Job, errors: int) -> Iterator[subprocess.Popen[str]]:
    """Start the command, and stop its whole group on the way out, however that comes."""
    process: subprocess.Popen[str] | None = None
    try:
        # An interrupt inside Popen would leave behind a process that nobody knows yet.
        with _signals_held() as held:
            process = subprocess.Popen(
                command,
                cwd=job.module.absolute().parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        for number in held:
            signal.raise_signal(number)
        yield process
    except OSError as problem:
        if process is not None:
            raise
        raise ToolchainError(f"Java could not be started: {problem}") from None
    finally:
        if process is not None:
            stop(process)
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Note the signals that ask to end, instead of acting on them; for the main thread alone."""
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    before = {
        number: signal.signal(number, lambda number, _frame: held.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield held
    finally:
        for number, handler in before.items():
            # None stands for a handler that is not Python's, which Python cannot restore.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and its group, kindly at first; a second interrupt makes it unkind."""
    if process.poll() is not None:
        return
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(timeout=_GRACE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    # The group's number is its leader's, which cannot be reused before `wait` has seen it end.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextlib.contextmanager
def _time_limit(process: subprocess.Popen[str], seconds: float | None) -> Iterator[threading.Event]:
    """Stop the process after so many seconds; the event tells whether that happened."""
    expired = threading.Event()
    if seconds is None:
        yield expired
        return

    def expire() -> None:
        if process.poll() is None:
            expired.set()
            stop(process)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        timer.join()


@contextlib.contextmanager
def _run_dir(job: Job) -> Iterator[Path]:
    """Make a folder for this run alone, and remove it unless it holds a checkpoint to keep."""
    try:
        if job.work_dir is not None:
            job.work_dir.mkdir(parents=True, exist_ok=True)
        run_dir = Path(tempfile.mkdtemp(prefix="tlc-", dir=job.work_dir)).absolute()
    except OSError as problem:
        raise JobError(f"the working folder cannot be used: {problem}") from None
    try:
        tmp_dir(run_dir).mkdir()
        meta_dir(run_dir).mkdir()
        yield run_dir
    finally:
        shutil.rmtree(tmp_dir(run_dir), ignore_errors=True)
        kept = _checkpoint(job, run_dir)
        if kept is None or not kept.is_relative_to(run_dir):
            shutil.rmtree(run_dir, ignore_errors=True)


def _checkpoint(job: Job, run_dir: Path) -> Path | None:
    """Find a checkpoint an unfinished run left in a folder that is not temporary."""
    # TLC removes its states, checkpoint included, when it finishes. A recovered run goes on in the
    # folder of the checkpoint it came from.
    marks = sorted(meta_dir(run_dir).glob("*/*.chkpt")) if job.work_dir is not None else []
    if job.recover is not None:
        marks += sorted(job.recover.glob("*.chkpt"))
    return marks[-1].parent if marks else None


def _judge(job: Job, interpreter: Interpreter, end: _End, statistics: Statistics) -> Outcome:
    verdict, message = _verdict(job, interpreter, end)
    is_error = verdict is Verdict.ERROR
    return Outcome(
        verdict,
        statistics,
        violation=interpreter.violation if verdict is Verdict.VIOLATED else None,
        coverage=interpreter.coverage,
        message=message,
        error_trace=interpreter.trace if is_error and len(interpreter.trace) else None,
        warnings=tuple(interpreter.warnings),
        printed=interpreter.printed,
        exhaustive=job.simulate is None,
        recovered=interpreter.recovered,
    )


def _verdict(job: Job, found: Interpreter, end: _End) -> tuple[Verdict, str | None]:
    """Decide, from the most certain knowledge to the least; HOLDS only if TLC said so itself."""
    if found.violation is not None:
        return Verdict.VIOLATED, None
    if end.timed_out:
        states = f"{found.statistics.distinct:,} distinct states"
        return Verdict.UNKNOWN, f"the time limit of {job.time_limit_s:g} s was reached at {states}"
    if found.out_of_memory or end.status == _JAVA_OUT_OF_MEMORY or "OutOfMemory" in end.stderr:
        return Verdict.ERROR, diagnosis.out_of_memory(job.memory_mb)
    if found.error is not None:
        return Verdict.ERROR, found.error
    if found.config.has_behaviour and found.statistics.initial == 0:
        return Verdict.ERROR, "no state satisfies the initial predicate: nothing was checked"
    if end.status == 0 and (found.succeeded or job.simulate is not None):
        return Verdict.HOLDS, None
    last = diagnosis.last_words(end.stderr) or diagnosis.last_words("\n".join(found.raw_lines))
    return Verdict.ERROR, f"TLC ended with status {end.status} and no verdict: {last or 'silent'}"


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _STDERR_TAIL))
        return file.read().decode("utf-8", errors="replace")
