"""The command `python -m spec.runner Module.tla`: checks a model and prints what TLC found.

Exit statuses: 0 the model holds; 1 it is violated; 2 unknown (a time limit) or an error; 130
interrupted; 143 terminated. Results go to standard output, progress and errors to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from spec.runner.ending import ended
from spec.runner.errors import JobError
from spec.runner.job import Job, Simulation
from spec.runner.outcome import Outcome, Progress, Verdict
from spec.runner.process import run
from spec.runner.progress import Bar, describe
from spec.runner.render import VERDICT_COLOURS, print_trace
from spec.runner.scenario import write_scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or the process's own; give its exit status."""
    options = _parser().parse_args(arguments)
    return ended("spec.runner", lambda: _check(options))


def _check(options: argparse.Namespace) -> int:
    job = _job(options)
    _check_writable(options.save_trace, options.save_scenario)
    outcome = _run(job, quiet=options.quiet)
    _save(outcome, job, options)
    _report(outcome, job, as_json=options.json)
    return outcome.verdict.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spec.runner",
        description="Check a TLA+ model with TLC.",
        epilog="Exit status: 0 holds, 1 violated, 2 unknown or error, 130 interrupted.",
    )
    parser.add_argument("module", type=Path, help="the module to check, a .tla file")
    parser.add_argument("--config", type=Path, help="its .cfg file (the module's name)")
    parser.add_argument("--workers", type=int, help="threads (as many as there are cores)")
    parser.add_argument("--memory-mb", type=int, help="Java's heap (a quarter of the machine's)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this long")
    parser.add_argument(
        "--deadlock", action="store_true", help="a state without successor is wrong"
    )
    parser.add_argument("--library", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument(
        "--coverage", action="store_true", help="count how often actions were taken"
    )
    parser.add_argument("--dump", type=Path, metavar="FILE.dot", help="write the state graph")
    parser.add_argument("--work-dir", type=Path, help="keep checkpoints here (a temporary folder)")
    parser.add_argument("--checkpoint-minutes", type=int, metavar="N", help="minutes between them")
    parser.add_argument("--recover", type=Path, metavar="CHECKPOINT", help="go on from one")
    _add_simulation(parser)
    parser.add_argument(
        "--save-trace", type=Path, metavar="FILE.json", help="write a counterexample"
    )
    parser.add_argument("--save-scenario", type=Path, metavar="FILE.txt", help="the same, as text")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _add_simulation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("random simulation, instead of every behaviour")
    group.add_argument("--simulate", type=int, metavar="TRACES", help="this many behaviours")
    group.add_argument("--depth", type=int, default=100, help="of up to this many states (100)")
    group.add_argument("--seed", type=int, help="the same seed gives the same behaviours")
    group.add_argument("--simulation-files", type=Path, metavar="PREFIX", help="write them here")


def _job(options: argparse.Namespace) -> Job:
    simulation = None
    if options.simulate is not None:
        simulation = Simulation(
            options.simulate, options.depth, options.seed, options.simulation_files
        )
    return Job(
        module=options.module,
        config=options.config or options.module.with_suffix(".cfg"),
        workers=options.workers,
        memory_mb=options.memory_mb,
        work_dir=options.work_dir,
        time_limit_s=options.time_limit,
        check_deadlock=options.deadlock,
        coverage=options.coverage,
        dump=options.dump,
        simulate=simulation,
        library=tuple(options.library),
        recover=options.recover,
        checkpoint_minutes=options.checkpoint_minutes,
    )


def _check_writable(*paths: Path | None) -> None:
    # Better told now than after an hour of checking.
    for path in paths:
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise JobError(f"{path} cannot be written: it is a folder, or its folder is missing")


def _run(job: Job, *, quiet: bool) -> Outcome:
    if quiet:
        return run(job)
    console = Console(stderr=True)
    label = job.config.stem
    if not console.is_terminal:
        return run(job, lambda progress: _print_progress(label, progress))
    with Bar(console) as bar:
        bar.update(label)
        return run(job, lambda progress: bar.update(label, progress))


def _print_progress(label: str, progress: Progress) -> None:
    print(f"{label}: {describe(progress)}", file=sys.stderr, flush=True)


def _save(outcome: Outcome, job: Job, options: argparse.Namespace) -> None:
    trace = outcome.trace
    if trace is None:
        return
    if options.save_trace is not None:
        text = json.dumps(trace.to_json(), indent=2) + "\n"
        options.save_trace.write_text(text, encoding="utf-8")
    if options.save_scenario is not None:
        what = str(outcome.violation or outcome.message)
        header = (what, f"from {job.module.name} with {job.config.name}")
        write_scenario(trace, options.save_scenario, header)


def _report(outcome: Outcome, job: Job, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(outcome.to_json(), indent=2))
        return
    console = Console(highlight=False)
    _print_verdict(console, outcome, job)
    if outcome.trace is not None:
        print_trace(outcome.trace, console)
    figures = outcome.statistics
    counts = f"{figures.generated:,} states generated, {figures.distinct:,} distinct"
    line = f"{counts}, depth {figures.depth}, {figures.seconds:.1f} s"
    console.print(line, style="dim", soft_wrap=True)
    for warning in outcome.warnings:
        console.print(Text(f"warning: {warning}"), soft_wrap=True)
    if outcome.checkpoint is not None:
        console.print(Text(f"to go on: --recover {outcome.checkpoint}"), soft_wrap=True)
    _print_coverage(console, outcome)


def _print_verdict(console: Console, outcome: Outcome, job: Job) -> None:
    text = Text(f"{job.config.stem}: ")
    text.append(outcome.verdict.name, VERDICT_COLOURS[outcome.verdict])
    if outcome.violation is not None:
        text.append(f": {outcome.violation}")
    if outcome.message is not None:
        text.append(f": {outcome.message}")
    if outcome.verdict is Verdict.HOLDS and not outcome.exhaustive:
        text.append(" in every behaviour that was simulated")
    console.print(text, soft_wrap=True)


def _print_coverage(console: Console, outcome: Outcome) -> None:
    for action in outcome.coverage.actions if outcome.coverage else ():
        if action.generated is not None:
            counts = f"{action.generated:,} generated, {action.distinct:,} new"
            console.print(Text(f"  {action.name}: {counts}"), soft_wrap=True)
