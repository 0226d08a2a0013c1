"""Runs the comparison and the mutants: what `hwmark conform` shows, as a library.

A model conforms when the code's graph is TLC's. A mutant is caught on this side when the code, with
the same rule swapped, breaks the same property by a counterexample of the same length.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from spec.catalogue import CatalogueError, Model, Mutant, compose
from spec.checking import Limits, model_job
from spec.conformance.compare import Comparison, Numbering, compare
from spec.conformance.explore import Exploration, Judge, OnReport, explore
from spec.conformance.liveness import fair_lasso
from spec.conformance.system import Label, System, W
from spec.conformance.systems import build, family_of
from spec.runner import Outcome, Progress, Trace, Verdict, load_graph, make_trace, run
from spec.runner.config import Config, read_config
from spec.runner.trace import RawStep


@attrs.frozen
class Conformance:
    """What came of comparing a model: the two graphs, or the property that the code breaks."""

    model: Model
    comparison: Comparison | None
    broken: str | None
    trace: Trace | None
    edges_explored: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the code's graph is the spec's, and every property holds in it."""
        return self.broken is None and self.comparison is not None and self.comparison.equal


@attrs.frozen
class CodeMutant:
    """What the code with a wrong rule came to."""

    mutant: Mutant
    broken: str | None
    trace: Trace | None
    states: int
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether the property that must break did break."""
        return self.broken == self.mutant.broken

    @property
    def length(self) -> int | None:
        """How many states the counterexample has."""
        return len(self.trace) if self.trace is not None else None


def conform(
    model: Model,
    limits: Limits,
    *,
    on_tlc: Callable[[Progress], None] | None = None,
    on_report: OnReport | None = None,
    rules: Any = None,
) -> Conformance | Outcome:
    """Compare the code with TLC's graph of a model; the outcome of TLC if that did not end well."""
    config = read_config(model.config)
    if model.walks is not None or config.statements.get("SYMMETRY"):
        raise CatalogueError(f"{model.name} has no whole state graph to compare with")
    with tempfile.TemporaryDirectory(prefix="hwmark-") as folder:
        dump = Path(folder) / "graph.dot"
        outcome = run(attrs.evolve(model_job(model, limits), dump=dump), on_tlc)
        if outcome.verdict is not Verdict.HOLDS:
            return outcome
        graph = load_graph(dump)
    system = build(model, config, rules)
    judge = _judge(system, config.invariants + config.properties)
    started_s = time.monotonic()
    found = explore(system, judge=judge, on_report=on_report)
    if found.broken_path is not None:
        trace, comparison = _trace(found.broken_path, system), None
    else:
        trace, comparison = None, compare(found, graph, system)
    seconds = time.monotonic() - started_s
    broken = found.stopped_by.name if found.stopped_by is not None else judge.broken
    return Conformance(model, comparison, broken, trace, len(found.edges), seconds)


def check_code_mutant(mutant: Mutant, on_report: OnReport | None = None) -> CodeMutant:
    """Explore the code with a mutant's wrong rule, until the property breaks or all is seen."""
    config = compose(mutant)
    system = build(mutant.model, config, family_of(mutant.model).rules(mutant))
    judge = _judge(system, (mutant.broken,))
    started_s = time.monotonic()
    lively = mutant.broken in system.liveness
    found = explore(
        system,
        judge=None if lively else judge,
        constraint=_constraint(system, config),
        keep_edges=lively,
        on_report=on_report,
    )
    path, broken = found.broken_path, judge.broken
    if lively:
        lasso = fair_lasso(system, found, system.liveness[mutant.broken])
        path, broken = (lasso.path, mutant.broken) if lasso is not None else (None, None)
    trace = _trace(path, system) if path is not None else None
    return CodeMutant(mutant, broken, trace, len(found.states), time.monotonic() - started_s)


def explored(model: Model, rules: Any = None) -> tuple[Exploration[Any], System[Any]]:
    """Explore a model's system without judging or comparing it."""
    system = build(model, read_config(model.config), rules)
    return explore(system), system


def explore_model(model: Model) -> tuple[Exploration[Any], int]:
    """Explore, judge and project a model, as a comparison would; also count the spec's states."""
    config = read_config(model.config)
    system = build(model, config)
    found = explore(system, judge=_judge(system, config.invariants + config.properties))
    numbering = Numbering(system.project(system.initial))
    return found, len({numbering.number(system.project(state)) for state in found.states})


def _judge(system: System[W], names: tuple[str, ...]) -> Judge[W]:
    known = {*system.invariants, *system.action_properties, *system.liveness}
    if unknown := set(names) - known:
        raise CatalogueError(f"no counterpart in Python: {', '.join(sorted(unknown))}")
    return Judge(
        {name: system.invariants[name] for name in names if name in system.invariants},
        {name: holds for name, holds in system.action_properties.items() if name in names},
    )


def _constraint(system: System[W], config: Config) -> Callable[[W], bool] | None:
    names = config.statements.get("CONSTRAINTS", ())
    if unknown := [name for name in names if name not in system.constraints]:
        raise CatalogueError(f"no counterpart in Python: {', '.join(unknown)}")
    chosen = [system.constraints[name] for name in names]
    return (lambda state: all(each(state) for each in chosen)) if chosen else None


def _trace(path: list[tuple[Label | None, W]], system: System[W]) -> Trace:
    return make_trace(
        RawStep(system.project(state), label[0] if label else None) for label, state in path
    )
