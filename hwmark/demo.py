"""`hwmark demo`: shows a newcomer, in about a minute, what this project does.

For now: TLC explores the replication protocol; then one rule is swapped for a bug that Kafka really
had, and TLC finds how it loses data.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hwmark.check import Options, check

_SHOWN_MUTANT = "KIP-101"


def demo() -> int:
    """Check the small models, then show one historic bug and its counterexample."""
    _title("TLC explores every behaviour of the replication protocol, within small bounds")
    held = check(Options(suite="smoke", stories=True))
    _title(f"The same with one rule swapped for a bug that Kafka once had: {_SHOWN_MUTANT}")
    caught = check(Options(mutant=_SHOWN_MUTANT, explain=True))
    if held == 0 and caught == 0:
        _title("The protocol holds, and the bug is caught")
        _hint("hwmark check", "all models, a few minutes")
        _hint("hwmark check --mutants", "every known bug")
        _hint("hwmark check --list", "what there is")
    return held or caught


def _title(text: str) -> None:
    Console().print(Text(f"\n{text}\n", "bold"))


def _hint(command: str, meaning: str) -> None:
    Console().print(Text(f"  {command:<26}", "cyan") + Text(meaning))
