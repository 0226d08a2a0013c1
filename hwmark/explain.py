"""Tells the story of one mutant: the bug, the rule it gets wrong, and how that does harm.

This is for reading. The counterexample in a form for programs is saved by `--save-scenario`.
"""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from spec.catalogue import Mutant
from spec.checking import MutantResult
from spec.runner import print_trace
from spec.tla_text import Operator, modules, operators


def explain(result: MutantResult, console: Console) -> None:
    """Print a mutant's story, its two rules side by side, and its counterexample."""
    mutant = result.mutant
    console.print(Text(mutant.name, "bold"))
    console.print(Padding(Text(mutant.story), (0, 0, 1, 2)))
    if mutant.rule is not None and mutant.wrong is not None:
        _print_rule(console, "the right rule", _find(mutant, mutant.rule), "green")
        _print_rule(console, "the wrong one", _find(mutant, mutant.wrong), "red")
    broken = _find(mutant, mutant.broken)
    _print_rule(console, "what must hold", broken, "cyan")
    if result.outcome.trace is None:
        found = result.outcome.message or "TLC found no violation"
        console.print(Text(f"  {found}", "bold red"))
        return
    console.print(Text(f"  how it breaks, in {result.length} states:\n", "bold"))
    print_trace(result.outcome.trace, console)


def _print_rule(console: Console, title: str, operator: Operator | None, colour: str) -> None:
    if operator is None:
        return
    console.print(Text(f"  {title}", "bold"))
    if operator.comment:
        console.print(Padding(Text(operator.comment, "dim"), (0, 0, 0, 4)))
    console.print(Padding(Text(operator.text, colour), (0, 0, 1, 4)))


def _find(mutant: Mutant, name: str) -> Operator | None:
    """Find an operator in the mutant's module, or in those that it extends."""
    for module in modules(mutant.module, mutant.model.module.parent):
        for operator in operators(module):
            if operator.name == name:
                return operator
    return None
