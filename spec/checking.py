"""Runs the models and mutants of the catalogue through TLC, and judges what came of it.

A model passes when TLC finds nothing. A mutant passes when TLC finds a violation of the very
property it names, by a counterexample that is minimal: mutants run with one worker, because only
then TLC searches breadth first in a strict sense.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import attrs

from spec.catalogue import Model, Mutant, compose
from spec.ledger import Ledger
from spec.runner import Job, Outcome, Progress, Simulation, Verdict, rule_answers, run, witness_job
from spec.runner.config import format_config
from spec.tla_text import Operator, guards, modules

OnProgress = Callable[[Progress], None]
# A walk is replayed by its seed, so a violation that a simulation finds can be found again.
_SIMULATION_SEED = 2012


@attrs.frozen
class Limits:
    """How hard to try: the machine's share that a run of TLC may take."""

    workers: int | None = None
    memory_mb: int | None = None
    time_limit_s: float | None = None


@attrs.frozen
class MutantResult:
    """What TLC said of a mutant, and whether that is what was expected."""

    mutant: Mutant
    outcome: Outcome

    @property
    def caught(self) -> bool:
        """Whether the property that must break did break."""
        violation = self.outcome.violation
        return violation is not None and violation.property_name == self.mutant.broken

    @property
    def length(self) -> int | None:
        """How many states the counterexample has."""
        return len(self.outcome.trace) if self.outcome.trace is not None else None

    @property
    def verdict(self) -> Verdict:
        """HOLDS if the mutant was caught, VIOLATED if it survived, or why neither is known."""
        if self.caught:
            return Verdict.HOLDS
        found = self.outcome.verdict
        return Verdict.VIOLATED if found in (Verdict.HOLDS, Verdict.VIOLATED) else found


@attrs.frozen
class Vacuity:
    """What a set of models never exercises: a check of it would mean nothing."""

    silent_actions: tuple[str, ...]
    one_sided_guards: tuple[tuple[str, frozenset[bool]], ...]

    @property
    def nothing(self) -> bool:
        """Whether everything was exercised."""
        return not self.silent_actions and not self.one_sided_guards


def model_job(model: Model, limits: Limits) -> Job:
    """Describe the run of TLC that checks a model."""
    simulation = None
    if model.walks is not None and model.walk_steps is not None:
        simulation = Simulation(model.walks, depth=model.walk_steps, seed=_SIMULATION_SEED)
    return Job(
        model.module,
        model.config,
        workers=None if simulation else limits.workers,
        memory_mb=limits.memory_mb,
        time_limit_s=limits.time_limit_s,
        simulate=simulation,
    )


def check_model(
    model: Model,
    limits: Limits,
    on_progress: OnProgress | None = None,
    *,
    ledger: Ledger | None = None,
) -> Outcome:
    """Let TLC explore a model; with a ledger, from where an interrupted run came to."""
    job = model_job(model, limits)
    return run(ledger.resumable(model, job) if ledger else job, on_progress)


def check_mutant(
    mutant: Mutant, limits: Limits, on_progress: OnProgress | None = None
) -> MutantResult:
    """Let TLC look for the shortest behaviour in which a mutant's wrong rule does harm."""
    with tempfile.TemporaryDirectory(prefix="hwmark-") as folder:
        config = Path(folder) / f"{mutant.name}.cfg"
        config.write_text(format_config(compose(mutant)), encoding="utf-8")
        job = Job(
            mutant.module,
            config,
            workers=1,
            memory_mb=limits.memory_mb,
            time_limit_s=limits.time_limit_s,
            library=(mutant.model.module.parent,),
        )
        return MutantResult(mutant, run(job, on_progress))


def exercises_its_spec(model: Model) -> bool:
    """Whether it is a model of the spec that it is filed under, and not of another's refinement."""
    return model.module.parent / f"{model.spec}.tla" in modules(model.module)


def check_vacuity(
    models: list[Model],
    limits: Limits,
    on_progress: Callable[[Model, Progress], None] | None = None,
) -> Vacuity | Outcome:
    """Find the actions that never fire and the guards that only ever give one answer.

    What one of the models exercises is exercised. The outcome of a run that did not end well is
    returned as it is: it tells why nothing is known.
    """
    watched = guards(models[0].module)
    fired: dict[str, int] = {}
    answers: dict[str, frozenset[bool]] = {rule.name: frozenset() for rule in watched}
    for model in models:
        outcome = _watch(model, watched, limits, on_progress)
        if outcome.verdict is not Verdict.HOLDS or outcome.coverage is None:
            return outcome
        for action in outcome.coverage.actions:
            if action.generated is not None:
                fired[action.name] = fired.get(action.name, 0) + action.generated
        for rule, given in rule_answers(outcome).items():
            answers[rule] |= given
    return Vacuity(
        tuple(sorted(name for name, times in fired.items() if times == 0)),
        tuple((rule, given) for rule, given in answers.items() if len(given) < 2),
    )


def _watch(
    model: Model,
    watched: list[Operator],
    limits: Limits,
    on_progress: Callable[[Model, Progress], None] | None,
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="hwmark-") as folder:
        parameters = {rule.name: len(rule.parameters) for rule in watched}
        job = witness_job(model_job(model, limits), parameters, Path(folder))
        # TLC's registers, in which answers are noted, belong to one worker each.
        job = attrs.evolve(job, workers=1, coverage=True)
        return run(job, (lambda progress: on_progress(model, progress)) if on_progress else None)
