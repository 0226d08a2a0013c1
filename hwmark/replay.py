"""`hwmark replay`: a counterexample of TLC's, taken step by step by the machines.

The scenario's header says which mutant or model it comes from; both can also be given.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.text import Text

from spec.catalogue import SPEC_DIR, Catalogue, CatalogueError, Mutant, compose, load_catalogue
from spec.conformance.replay import Parted, Replayed, replay
from spec.conformance.system import System
from spec.conformance.systems import build, family_of
from spec.runner import format_value, read_scenario
from spec.runner.config import read_config
from spec.runner.errors import FileFormatError

_ORIGIN = re.compile(r"# ([\w./-]+):")


@attrs.frozen
class Options:
    """What a user asked `hwmark replay` for."""

    scenario: Path
    model: str | None = None
    mutant: str | None = None
    json: bool = False
    specs: Path = SPEC_DIR


def run_replay(options: Options) -> int:
    """Replay a scenario; 0 if the code takes every step, 1 if it parts from it."""
    system, origin = _origin(load_catalogue(options.specs), options)
    trace = read_scenario(options.scenario)
    if not trace.steps:
        raise FileFormatError(options.scenario, 1, "a scenario without a single step")
    console = Console(highlight=False, quiet=options.json, soft_wrap=True)
    console.print(Text(f"{options.scenario.name}: {len(trace)} states, on {origin}", "bold"))
    parted: Parted | None = None
    taken = 0
    for made in replay(trace, system):
        if isinstance(made, Replayed):
            taken += 1
            _print_step(console, made)
        else:
            parted = made
            _print_parting(console, made)
    if options.json:
        print(json.dumps(_to_json(options, origin, taken, len(trace), parted), indent=2))
    elif parted is None:
        console.print(Text("the code takes every step of it", "green"))
    return 0 if parted is None else 1


def _origin(catalogue: Catalogue, options: Options) -> tuple[System[Any], str]:
    """Compose the machines with the constants and rules that the scenario was found with."""
    if options.mutant is not None:
        return _of_mutant(catalogue.mutant(options.mutant))
    name = options.model
    if name is None:
        first = options.scenario.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0]
        match = _ORIGIN.match(first)
        if match is None:
            raise CatalogueError(
                f"{options.scenario}: its first line does not say what it comes from, as in "
                "'# KIP-101: ...'; say it by --mutant or --model"
            )
        name = match[1]
        for mutant in catalogue.mutants:
            if mutant.name == name:
                return _of_mutant(mutant)
    model = catalogue.select(None, name, ())[0]
    system = build(model, read_config(model.config))
    return system, f"the machines with the bounds of {model.name}"


def _of_mutant(mutant: Mutant) -> tuple[System[Any], str]:
    swapped = f"{mutant.rule} swapped for {mutant.wrong}" if mutant.rule else "the right rules"
    rules = family_of(mutant.model).rules(mutant)
    return build(mutant.model, compose(mutant), rules), f"the machines with {swapped}"


def _print_step(console: Console, made: Replayed) -> None:
    if made.label is None:
        console.print(Text(f"  {made.step.number:>3}  (initial)"))
        return
    name, brokers = made.label
    who = ", ".join(f"r{number}" for number in brokers)
    changed = ", ".join(sorted(made.step.changed)) or "nothing"
    line = Text(f"  {made.step.number:>3}  {name}({who})")
    console.print(line + Text(f"  changes {changed}", "dim"))


def _print_parting(console: Console, parted: Parted) -> None:
    step = parted.step
    console.print(Text(f"  {step.number:>3}  {step.action}: the code does not take it", "bold red"))
    for differing in parted.instead[:3]:
        for name, (theirs, ours) in differing.items():
            console.print(f"       {name}: the scenario has {format_value(theirs)}")
            console.print(f"       {' ' * len(name)}  the code has     {format_value(ours)}")
    if not parted.instead:
        console.print(f"       it could take {', '.join(parted.possible) or 'no step at all'}")


def _to_json(
    options: Options, origin: str, taken: int, length: int, parted: Parted | None
) -> dict[str, object]:
    data: dict[str, object] = {
        "scenario": str(options.scenario),
        "on": origin,
        "states": length,
        "taken": taken,
        "accepted": parted is None,
    }
    if parted is not None:
        data["parts_at"] = {"step": parted.step.number, "action": parted.step.action}
    return data
