"""`hwmark demo`: shows a newcomer, in about a minute, what this project does.

Three brokers are started, and the leader is killed while a client of somebody else's writes. Then
TLC explores the replication protocol; the code's state graph is compared with the spec's; one rule
is swapped for a bug that Kafka really had, and both find how it loses data. At last the plug is
pulled on a partition's log, a hundred times, and again with an fsync left out.
"""

from __future__ import annotations

from rich.console import Console
from rich.progress import track
from rich.text import Text

from hwmark.check import Options, check
from hwmark.conform import Options as ConformOptions
from hwmark.conform import run_conform

_SHOWN_MUTANT = "KIP-101"
_COMPARED_MODEL = "Replication/graph-three"
_CRASHES = range(100)
_FORGOTTEN = ("fsync", ".log", "flush")


def demo() -> int:
    """Kill a leader; check the small models, compare one with the code, show a bug in both."""
    _title("Three brokers, an unmodified Kafka client, and kill -9 for the leader")
    survived = _kill_a_leader()
    _title("TLC explores every behaviour of the replication protocol, within small bounds")
    held = check(Options(suite="smoke", stories=True))
    _title("The code has the same states and steps as the spec, none missing and none extra")
    equal = run_conform(ConformOptions(model=_COMPARED_MODEL))
    _title(f"The same with one rule swapped for a bug that Kafka once had: {_SHOWN_MUTANT}")
    caught = check(Options(mutant=_SHOWN_MUTANT, explain=True))
    _title("The same rule swapped in the code: the same property breaks, in as many states")
    alike = run_conform(ConformOptions(mutant=_SHOWN_MUTANT))
    _title("The plug is pulled on a log, at any operation; what was durable is there each time")
    kept = _pull_the_plug()
    _title("The same with one fsync left out")
    noticed = _pull_the_plug(*_FORGOTTEN)
    if worst := max(survived, held, equal, caught, alike, kept, noticed):
        return worst
    _title("The protocol holds, the code equals it, both catch the bug, and the log keeps its word")
    _hint("hwmark cluster up", "a cluster for any Kafka client, on this machine")
    _hint("hwmark check", "all models, a few minutes")
    _hint("hwmark conform", "the code against the spec, state by state")
    _hint("hwmark conform --mutants", "every known bug, on both sides")
    _hint("hwmark check --list", "what there is")
    _hint("hwmark log --help", "look into the files of a log")
    return 0


def _kill_a_leader() -> int:
    # Who came for the specs alone has no broker.
    from hwmark.demo_cluster import kill_a_leader
    from hwmark.loop import run_command

    return run_command(lambda: kill_a_leader(Console()))


def _pull_the_plug(*left_out: str) -> int:
    """Crash a log on a simulated disk, a hundred times; return the exit status.

    If an fsync is left out, something must be lost, and otherwise nothing.
    """
    # Who came for the specs alone has no storage.
    from storage.testing import LeftOut, run

    console = Console()
    starts = torn = 0
    for seed in track(_CRASHES, "crashes", console=console, transient=True):
        outcome = run(seed, ignore=LeftOut(*left_out) if left_out else None)
        starts, torn = starts + outcome.starts, torn + outcome.torn
        if outcome.failure:
            console.print(Text(f"seed {seed}: {outcome.failure}"))
            return 0 if left_out else 1
    console.print(f"{len(_CRASHES)} runs, {starts} starts, {torn} torn tails cut, nothing lost")
    return 1 if left_out else 0


def _title(text: str) -> None:
    Console().print(Text(f"\n{text}\n", "bold"))


def _hint(command: str, meaning: str) -> None:
    Console().print(Text(f"  {command:<26}", "cyan") + Text(meaning))
