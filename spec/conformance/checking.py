"""Runs the comparison and the mutants: what `hwmark conform` shows, as a library.

A model conforms when the code's graph is TLC's. A mutant is caught on this side when the code, with
the same rule swapped, breaks the same property by a counterexample of the same length.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from spec.catalogue import CatalogueError, Model, Mutant, compose
from spec.checking import Limits, model_job
from spec.conformance.cluster import Cluster, Label
from spec.conformance.compare import Comparison, Numbering, compare
from spec.conformance.constants import Constants, read_constants
from spec.conformance.explore import Exploration, OnReport, explore
from spec.conformance.liveness import LIVENESS, fair_lasso
from spec.conformance.mutants import RuleSet, rule_set
from spec.conformance.node import Node
from spec.conformance.projection import Projection
from spec.conformance.properties import ACTION_PROPERTIES, INVARIANTS, Bounds, Properties
from spec.conformance.steps import Steps
from spec.runner import Outcome, Progress, Trace, Verdict, load_graph, make_trace, run
from spec.runner.config import Config, read_config
from spec.runner.trace import RawStep

# The constraints that models name, for the side that is written in Python.
CONSTRAINTS: dict[str, Callable[[Cluster], bool]] = {
    "FewVersions": lambda cluster: cluster.decided.partition.version <= 6,
}


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
    rules: RuleSet | None = None,
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
    constants = read_constants(config)
    steps = _steps(constants, rules or RuleSet())
    judge = _judge(constants, steps, config.invariants + config.properties)
    started_s = time.monotonic()
    found = explore(steps, judge=judge, on_report=on_report)
    projection = Projection(constants)
    if found.broken_path is not None:
        trace, comparison = _trace(found.broken_path, projection), None
    else:
        trace, comparison = None, compare(found, graph, projection)
    seconds = time.monotonic() - started_s
    broken = found.stopped_by.name if found.stopped_by is not None else judge.broken
    return Conformance(model, comparison, broken, trace, len(found.edges), seconds)


def check_code_mutant(mutant: Mutant, on_report: OnReport | None = None) -> CodeMutant:
    """Explore the code with a mutant's wrong rule, until the property breaks or all is seen."""
    config = compose(mutant)
    constants = read_constants(config)
    steps = _steps(constants, rule_set(mutant))
    judge = _judge(constants, steps, (mutant.broken,))
    started_s = time.monotonic()
    lively = mutant.broken in LIVENESS
    found = explore(
        steps,
        judge=None if lively else judge,
        constraint=_constraint(config),
        keep_edges=lively,
        on_report=on_report,
    )
    path, broken = found.broken_path, judge.broken
    if lively:
        lasso = fair_lasso(found, LIVENESS[mutant.broken])
        path, broken = (lasso.path, mutant.broken) if lasso is not None else (None, None)
    trace = _trace(path, Projection(constants)) if path is not None else None
    return CodeMutant(mutant, broken, trace, len(found.states), time.monotonic() - started_s)


def explored(model: Model, rules: RuleSet | None = None) -> tuple[Exploration, Steps]:
    """Explore a model's cluster without judging or comparing it."""
    steps = _steps(read_constants(read_config(model.config)), rules or RuleSet())
    return explore(steps), steps


def explore_model(model: Model) -> tuple[Exploration, int]:
    """Explore, judge and project a model, as a comparison would; also count the spec's states."""
    config = read_config(model.config)
    constants = read_constants(config)
    steps = _steps(constants, RuleSet())
    judge = _judge(constants, steps, config.invariants + config.properties)
    found = explore(steps, judge=judge)
    projection, numbering = Projection(constants), Numbering()
    return found, len({numbering.number(projection(cluster)) for cluster in found.states})


def _steps(constants: Constants, rules: RuleSet) -> Steps:
    return Steps(constants, rules.replica, rules.controller)


def _judge(constants: Constants, steps: Steps, names: tuple[str, ...]) -> Properties:
    unknown = set(names) - set(INVARIANTS) - set(ACTION_PROPERTIES) - set(LIVENESS)
    if unknown:
        raise CatalogueError(f"no counterpart in Python: {', '.join(sorted(unknown))}")
    return Properties(
        _bounds(constants, steps),
        tuple(name for name in names if name in INVARIANTS),
        tuple(name for name in names if name in ACTION_PROPERTIES),
    )


def _bounds(constants: Constants, steps: Steps) -> Bounds:
    def read_limit(node: Node) -> int:
        return steps.rules.read_limit(node.state.log, node.state.high_watermark)

    def candidates(cluster: Cluster) -> frozenset[int]:
        decided = cluster.decided
        return steps.decisions.rules.candidates(decided.partition, decided.fenced)

    return Bounds(
        constants.min_isr,
        constants.max_records,
        constants.max_epoch,
        constants.max_faults,
        constants.acks_one,
        read_limit,
        candidates,
    )


def _constraint(config: Config) -> Callable[[Cluster], bool] | None:
    names = config.statements.get("CONSTRAINTS", ())
    unknown = [name for name in names if name not in CONSTRAINTS]
    if unknown:
        raise CatalogueError(f"no counterpart in Python: {', '.join(unknown)}")
    chosen = [CONSTRAINTS[name] for name in names]
    return (lambda cluster: all(each(cluster) for each in chosen)) if chosen else None


def _trace(path: list[tuple[Label | None, Cluster]], projection: Projection) -> Trace:
    return make_trace(
        RawStep(projection(cluster), label[0] if label else None) for label, cluster in path
    )
