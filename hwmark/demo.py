"""`hwmark demo`: shows a newcomer, in about a minute, what this project does.

For now: TLC explores the replication protocol; the code's state graph is compared with the spec's;
then one rule is swapped for a bug that Kafka really had, and both find how it loses data.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hwmark.check import Options, check
from hwmark.conform import Options as ConformOptions
from hwmark.conform import run_conform

_SHOWN_MUTANT = "KIP-101"
_COMPARED_MODEL = "Replication/graph-three"


def demo() -> int:
    """Check the small models, compare one with the code, then show a historic bug in both."""
    _title("TLC explores every behaviour of the replication protocol, within small bounds")
    held = check(Options(suite="smoke", stories=True))
    _title("The code has the same states and steps as the spec, none missing and none extra")
    equal = run_conform(ConformOptions(model=_COMPARED_MODEL))
    _title(f"The same with one rule swapped for a bug that Kafka once had: {_SHOWN_MUTANT}")
    caught = check(Options(mutant=_SHOWN_MUTANT, explain=True))
    _title("The same rule swapped in the code: the same property breaks, in as many states")
    alike = run_conform(ConformOptions(mutant=_SHOWN_MUTANT))
    if not (held or equal or caught or alike):
        _title("The protocol holds, the code equals it, and both catch the bug")
        _hint("hwmark check", "all models, a few minutes")
        _hint("hwmark conform", "the code against the spec, state by state")
        _hint("hwmark conform --mutants", "every known bug, on both sides")
        _hint("hwmark check --list", "what there is")
    return held or equal or caught or alike


def _title(text: str) -> None:
    Console().print(Text(f"\n{text}\n", "bold"))


def _hint(command: str, meaning: str) -> None:
    Console().print(Text(f"  {command:<26}", "cyan") + Text(meaning))
