"""Crashes a partition's log by the thousand on a simulated disk, and checks what is left each time.

Every run is decided by its seed, so a failure is replayed with `--replay SEED`, which prints all
that was done. Each tenth seed also lets a bit rot. The status is 1 if a promise was broken, and the
seeds are listed; 130 if it was interrupted before that.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.progress import Progress  # noqa: E402

from storage.testing import Outcome, run, run_rot  # noqa: E402

ROT_EVERY = 10
SHOWN_FAILURES = 20


def outcomes_of(seed: int) -> list[Outcome]:
    """Do everything that a seed stands for."""
    return [run(seed), run_rot(seed)] if seed % ROT_EVERY == 0 else [run(seed)]


def storm(first_seed: int, runs: int, console: Console) -> tuple[list[Outcome], dict[str, int]]:
    """Do the runs; return those that failed, and how much was done until the end or Ctrl-C."""
    failed: list[Outcome] = []
    counts = {"runs": 0, "starts": 0, "torn tails": 0, "interrupted": 0}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("crashes", total=runs)
        try:
            for seed in range(first_seed, first_seed + runs):
                for outcome in outcomes_of(seed):
                    counts["starts"] += outcome.starts
                    counts["torn tails"] += outcome.torn
                    if outcome.failure:
                        failed.append(outcome)
                counts["runs"] += 1
                found = f"crashes, {len(failed)} failed" if failed else "crashes"
                progress.update(task, advance=1, description=found)
        except KeyboardInterrupt:
            counts["interrupted"] = 1
    return failed, counts


def show(failed: list[Outcome], counts: dict[str, int], console: Console) -> None:
    """Print the verdict for people."""
    done = f"{counts['runs']} runs, {counts['starts']} starts, {counts['torn tails']} torn tails"
    ended = ", interrupted" if counts["interrupted"] else ""
    console.print(f"{done}, {len(failed)} failed{ended}", highlight=False)
    for outcome in failed[:SHOWN_FAILURES]:
        console.print(f"  {outcome.seed}: {outcome.failure}", highlight=False, markup=False)
    if len(failed) > SHOWN_FAILURES:
        console.print(f"  and {len(failed) - SHOWN_FAILURES} more")
    if failed:
        command = f"python scripts/crash_storm.py --replay {failed[0].seed}"
        console.print(f"what led to it: {command}", highlight=False)


def replay(seed: int, console: Console) -> int:
    """Do the runs of one seed again and print every operation."""
    outcomes = outcomes_of(seed)
    for outcome in outcomes:
        console.print(outcome.report(), highlight=False, markup=False, soft_wrap=True)
    return int(any(outcome.failure for outcome in outcomes))


def main() -> int:
    """Parse the command line and crash."""
    parser = argparse.ArgumentParser(description="Crash a partition's log and check what is left.")
    parser.add_argument("--runs", type=int, default=1000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print all that one seed does")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        return replay(arguments.replay, Console())
    failed, counts = storm(arguments.seed, arguments.runs, Console(stderr=True))
    if arguments.json:
        seeds = [{"seed": each.seed, "failure": each.failure} for each in failed]
        print(json.dumps({**counts, "first_seed": arguments.seed, "failed": seeds}))
    else:
        show(failed, counts, Console())
    if failed:
        return 1
    return 130 if counts["interrupted"] else 0


if __name__ == "__main__":
    sys.exit(main())
