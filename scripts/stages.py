"""Runs the stages of a suite and says how each went, against its budget.

What to run is in `stages.toml`. Stages run one after the other, those in a list of their own side
by side; these print what they have to say when they end. This is not a build system: stages do not
depend on each other, and a failing one does not keep the others from running. The exit status is 1
when a stage failed and 130 when interrupted.
"""

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
GRACE_S = 15


@dataclass(frozen=True)
class Stage:
    """One line of the table: what must succeed, and the seconds it should take."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    budget_s: int
    measured: bool


@dataclass(frozen=True)
class Outcome:
    """How a stage went. `failed` lists the commands that did not succeed."""

    stage: Stage
    failed: tuple[str, ...]
    seconds: float

    @property
    def late(self) -> bool:
        """Whether the stage took longer than its budget."""
        return self.seconds > self.stage.budget_s


def stage_from_table(name: str, table: dict[str, Any]) -> Stage:
    """Turn one `[stages.NAME]` table into the commands to run."""
    commands = [tuple(shlex.split(line)) for line in table.get("commands", ())]
    if "pytest" in table:
        commands.append((sys.executable, "-m", "pytest", *shlex.split(table["pytest"])))
    if "modules" in table:
        folder = table["modules"]
        files = sorted(ROOT.joinpath(folder).glob("[!_]*.py"))
        commands += [(sys.executable, "-m", f"{folder}.{file.stem}") for file in files]
    measured = "pytest" in table and table.get("coverage", True)
    return Stage(name, tuple(commands), table["budget_s"], measured)


def side_by_side(entry: str | list[str]) -> list[str]:
    """Name the stages of one entry of a suite: one, or several that run at the same time."""
    return [entry] if isinstance(entry, str) else entry


def descendants(pid: int) -> list[int]:
    """List the processes below `pid`, whatever process group they moved to."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain anything; the parent comes two after it.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, ()))
    for each in found:
        found += children.get(each, ())
    return found


def take_down(processes: list[subprocess.Popen[bytes]]) -> None:
    """Interrupt stages as Ctrl-C would, give them time to clean up, then kill what is left."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    below = [pid for process in processes for pid in descendants(process.pid)]
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    ends_s = time.monotonic() + GRACE_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, ends_s - time.monotonic()))
    for pid in (*(process.pid for process in processes), *below):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in processes:
        process.wait()


@dataclass
class Commands:
    """The commands that run at this moment; once stopped, no other one begins."""

    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, command: tuple[str, ...], environment: dict[str, str], output: IO[str] | None = None
    ) -> int:
        """Run one command to its end, in a process group of its own."""
        with self.lock:
            if self.stopped:
                return 130
            try:
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT if output else None,
                    process_group=0,
                )
            except FileNotFoundError:
                print(f"{command[0]}: not found", file=output or sys.stderr)
                return 127
            self.running.append(process)
        status = process.wait()
        self.running.remove(process)
        return status

    def stop(self) -> None:
        """End what runs, and what would come after it."""
        with self.lock:
            self.stopped = True
        take_down(list(self.running))


def run_stage(
    stage: Stage, coverage_folder: Path | None, commands: Commands, output: IO[str] | None = None
) -> Outcome:
    """Run all commands of a stage, whether or not an earlier one failed."""
    print(f"\n==> {stage.name} (budget {stage.budget_s} s)", file=output, flush=True)
    # The tools of this very environment come first, whether or not it was activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = os.environ | {"PATH": path}
    extra: tuple[str, ...] = ()
    if coverage_folder is not None and stage.measured:
        environment["COVERAGE_FILE"] = str(coverage_folder / f".coverage.{stage.name}")
        extra = ("--cov", "--cov-report=")
    failed = []
    started = time.monotonic()
    for command in stage.commands:
        status = commands.run((*command, *extra), environment, output)
        if status:
            failed.append(f"{shlex.join(command)} (exit status {status})")
    outcome = Outcome(stage, tuple(failed), time.monotonic() - started)
    result = "FAILED" if failed else "ok"
    print(f"<== {stage.name}: {result}, {outcome.seconds:.1f} s", file=output, flush=True)
    return outcome


def run_group(
    group: list[Stage], coverage_folder: Path | None, commands: Commands
) -> list[Outcome]:
    """Run stages side by side; one alone prints as it goes, several when they end."""

    def run_quietly(stage: Stage) -> Outcome:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            outcome = run_stage(stage, coverage_folder, commands, output)
            output.seek(0)
            text = output.read()
        with commands.lock:
            print(text, end="", flush=True)
        return outcome

    def run_aloud(stage: Stage) -> Outcome:
        return run_stage(stage, coverage_folder, commands)

    with ThreadPoolExecutor(len(group)) as lanes:
        work = run_aloud if len(group) == 1 else run_quietly
        futures = [lanes.submit(work, stage) for stage in group]
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            commands.stop()
            raise


def report_coverage(folder: Path) -> None:
    """Combine what the stages measured and print one table of branch coverage."""
    data = sorted(map(str, folder.glob(".coverage.*")))
    if not data:
        return
    print("\n==> branch coverage of all stages together", flush=True)
    coverage = (sys.executable, "-m", "coverage")
    combined = f"--data-file={folder / 'combined'}"
    commands = Commands()
    commands.run((*coverage, "combine", "--quiet", combined, *data), dict(os.environ))
    commands.run((*coverage, "report", combined), dict(os.environ))


def summarize(suite: str, outcomes: list[Outcome], total: float, budget_s: int) -> None:
    """Print the closing table, and a loud line for everything failed or late."""
    print(f"\n{'stage':<12}{'result':<10}{'seconds':>9}{'budget':>9}")
    for outcome in outcomes:
        result = "FAILED" if outcome.failed else "ok"
        mark = "  OVER BUDGET" if outcome.late else ""
        stage = outcome.stage
        print(f"{stage.name:<12}{result:<10}{outcome.seconds:>9.1f}{stage.budget_s:>9}{mark}")
    print(f"{'total':<22}{total:>9.1f}{budget_s:>9}")
    for outcome in outcomes:
        if outcome.late:
            over = f"{outcome.seconds:.1f} s, budget {outcome.stage.budget_s} s"
            print(f"WARNING: stage {outcome.stage.name} is over its budget: {over}")
    if total > budget_s:
        print(f"WARNING: make {suite} is over its budget: {total:.1f} s, budget {budget_s} s")
    for outcome in outcomes:
        for command in outcome.failed:
            print(f"FAILED: {outcome.stage.name}: {command}")
    print(f"make {suite}: {'FAILED' if any(o.failed for o in outcomes) else 'ok'}", flush=True)


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Treat a polite request to stop like Ctrl-C."""
    raise KeyboardInterrupt


def main() -> int:
    """Run the suite named on the command line."""
    parser = argparse.ArgumentParser(description="Run a suite of stages.")
    parser.add_argument("suite", help="a suite of the table")
    parser.add_argument("--table", type=Path, default=ROOT / "scripts" / "stages.toml")
    arguments = parser.parse_args()
    table = tomllib.loads(arguments.table.read_text(encoding="utf-8"))
    suite = table["suites"][arguments.suite]
    groups = [
        [stage_from_table(name, table["stages"][name]) for name in names]
        for names in map(side_by_side, suite["stages"])
    ]
    commands = Commands()
    started_s = time.monotonic()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="hwmark-coverage-") as scratch:
            folder = Path(scratch) if suite.get("coverage") else None
            outcomes = [
                outcome for group in groups for outcome in run_group(group, folder, commands)
            ]
            total_s = time.monotonic() - started_s
            if folder is not None:
                report_coverage(folder)
    except KeyboardInterrupt:
        print(f"\nmake {arguments.suite}: interrupted", file=sys.stderr)
        return 130
    summarize(arguments.suite, outcomes, total_s, suite["budget_s"])
    return 1 if any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
