"""`hwmark check`: lets TLC explore the specs, and tells what it found.

The work is done in `spec`. This selects what to run, shows it, and turns it into an exit status.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import attrs
from rich.console import Console

from hwmark.console import announce, live, report, say
from hwmark.explain import explain
from hwmark.tables import model_rows, mutant_rows
from spec.catalogue import SPEC_DIR, Catalogue, CatalogueError, Model, Mutant, load_catalogue
from spec.checking import (
    Limits,
    MutantResult,
    Vacuity,
    check_model,
    check_mutant,
    check_vacuity,
    exercises_its_spec,
)
from spec.ledger import Ledger
from spec.runner import JobError, Outcome, Trace, Verdict, print_trace, write_scenario

DEFAULT_SUITES = ("smoke", "gate")


@attrs.frozen
class Options:
    """What a user asked `hwmark check` for."""

    module: str | None = None
    model: str | None = None
    suite: str | None = None
    mutants: bool = False
    mutant: str | None = None
    explain: bool = False
    vacuity: bool = False
    show: bool = False
    stories: bool = False
    json: bool = False
    markdown: Path | None = None
    save_scenario: Path | None = None
    resume: Path | None = None
    specs: Path = SPEC_DIR
    limits: Limits = attrs.field(factory=Limits)


def check(options: Options) -> int:
    """Do what the options ask for; give the exit status."""
    _refuse_contradictions(options)
    catalogue = load_catalogue(options.specs)
    if options.show:
        return _list(catalogue)
    if options.vacuity:
        return _check_vacuity(catalogue, options)
    if options.mutants or options.mutant is not None:
        return _check_mutants(catalogue, options)
    return _check_models(catalogue, options)


def exit_status(verdicts: list[Verdict]) -> int:
    """Sum up verdicts: 1 if anything is violated, 2 if anything is not known, 0 if all hold."""
    if Verdict.VIOLATED in verdicts:
        return Verdict.VIOLATED.exit_status
    return max((verdict.exit_status for verdict in verdicts), default=0)


def _refuse_contradictions(options: Options) -> None:
    chosen = [
        name
        for name, given in (
            ("--mutants", options.mutants),
            ("--mutant", options.mutant is not None),
            ("--vacuity", options.vacuity),
            ("--list", options.show),
        )
        if given
    ]
    models = options.model is not None or options.suite is not None
    if len(chosen) > 1 or (chosen and models):
        raise JobError("--model or --suite, --mutants, --mutant, --vacuity: choose one of them")
    if options.explain and options.mutant is None:
        raise JobError("--explain tells the story of one mutant: name it by --mutant")
    if options.resume is not None and (chosen or options.model is not None):
        raise JobError("--resume is for models of a suite: use it with --suite")
    for path in (options.markdown, options.save_scenario):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise JobError(f"{path} cannot be written: it is a folder, or its folder is missing")


def _check_models(catalogue: Catalogue, options: Options) -> int:
    suites = (options.suite,) if options.suite else DEFAULT_SUITES
    models = catalogue.select(options.module, options.model, suites)
    if not models:
        raise CatalogueError(f"there is no model in the suite {options.suite!r}")
    results = list(_run_models(models, options))
    rows = model_rows(results, stories=options.stories)
    data = [_model_json(*result) for result in results]
    report(rows, data, as_json=options.json, markdown=options.markdown)
    for model, outcome in results:
        _tell(model.name, outcome, options)
    return exit_status([outcome.verdict for _, outcome in results])


def _run_models(models: list[Model], options: Options) -> Iterator[tuple[Model, Outcome]]:
    ledger = Ledger(options.resume) if options.resume is not None else None
    for number, model in enumerate(models, start=1):
        known = ledger.finished(model) if ledger else None
        if known is not None:
            yield model, known
            continue
        label = f"{model.name} ({number}/{len(models)})"
        with live(label, quiet=options.json) as on_progress:
            outcome = check_model(model, options.limits, on_progress, ledger=ledger)
        if ledger is not None:
            ledger.record(model, outcome)
        announce(label, outcome.verdict.value, quiet=options.json)
        yield model, outcome


def _check_mutants(catalogue: Catalogue, options: Options) -> int:
    mutants = _select_mutants(catalogue, options)
    results = []
    for number, mutant in enumerate(mutants, start=1):
        label = f"{mutant.name} ({number}/{len(mutants)})"
        with live(label, quiet=options.json) as on_progress:
            result = check_mutant(mutant, options.limits, on_progress)
        results.append(result)
        announce(
            label, "caught" if result.caught else result.outcome.verdict.value, quiet=options.json
        )
    if options.explain:
        for result in results:
            explain(result, Console(highlight=False))
    data = [_mutant_json(result) for result in results]
    report(mutant_rows(results), data, as_json=options.json, markdown=options.markdown)
    for result in results:
        _tell_mutant(result, options)
    return exit_status([result.verdict for result in results])


def _select_mutants(catalogue: Catalogue, options: Options) -> list[Mutant]:
    if options.mutant is not None:
        return [catalogue.mutant(options.mutant)]
    models = catalogue.select(options.module, None, ("smoke", "gate", "deep"))
    return [mutant for mutant in catalogue.mutants if mutant.model in models]


def _check_vacuity(catalogue: Catalogue, options: Options) -> int:
    """Look at each spec's smoke models: together they are meant to exercise everything."""
    results: dict[str, Vacuity] = {}
    models = list(filter(exercises_its_spec, catalogue.select(options.module, None, ("smoke",))))
    for spec in dict.fromkeys(model.spec for model in models):
        of_spec = [model for model in models if model.spec == spec]
        found = _watch_vacuity(spec, of_spec, options)
        if isinstance(found, Outcome):
            _tell("vacuity", found, options)
            return found.verdict.exit_status or Verdict.ERROR.exit_status
        results[spec] = found
        if not options.json:
            _print_vacuity(found, [model.name for model in of_spec])
    if options.json:
        told = {spec: _vacuity_json(found) for spec, found in results.items()}
        print(json.dumps(told, indent=2))
    return 0 if all(found.nothing for found in results.values()) else 1


def _watch_vacuity(spec: str, models: list[Model], options: Options) -> Vacuity | Outcome:
    with live(f"vacuity of {spec}", quiet=options.json) as on_progress:
        return check_vacuity(models, options.limits, lambda _model, report: on_progress(report))


def _print_vacuity(found: Vacuity, models: list[str]) -> None:
    console = Console(highlight=False)
    for action in found.silent_actions:
        console.print(f"the action {action} never fires")
    for rule, answers in found.one_sided_guards:
        given = " or ".join("TRUE" if answer else "FALSE" for answer in answers) or "no answer"
        console.print(f"the guard {rule} only ever gives {given}")
    if found.nothing:
        console.print("every action fires, and every guard answers both TRUE and FALSE")
    console.print(f"in {', '.join(models)}", style="dim", soft_wrap=True)


def _tell(name: str, outcome: Outcome, options: Options) -> None:
    """Print what is behind a verdict that is not good, and save its counterexample."""
    if outcome.message is not None and not options.json:
        say(f"{name}: {outcome.message}", "yellow")
    if outcome.trace is not None:
        if not options.json:
            say(f"{name}: {outcome.violation or 'the behaviour before the error'}", "bold red")
            print_trace(outcome.trace, Console(highlight=False))
        _save(outcome.trace, f"{name}: {outcome.violation}", options)


def _tell_mutant(result: MutantResult, options: Options) -> None:
    mutant, outcome = result.mutant, result.outcome
    if outcome.trace is not None and options.mutant is not None:
        _save(outcome.trace, f"{mutant.name}: {outcome.violation}", options)
    if not result.caught and not options.json:
        found = outcome.message or f"TLC found {outcome.violation or 'nothing wrong'}"
        say(f"{mutant.name}: expected {mutant.broken} to break, but {found}", "bold red")
    elif mutant.length not in (None, result.length) and not options.json:
        say(f"{mutant.name}: the counterexample had {mutant.length} states", "yellow")


def _save(trace: Trace, title: str, options: Options) -> None:
    if options.save_scenario is not None:
        write_scenario(trace, options.save_scenario, (title,))


def _list(catalogue: Catalogue) -> int:
    console = Console(highlight=False)
    for model in catalogue.models:
        console.print(f"[bold]{model.name}[/] [dim]{model.suite}[/]  {model.story}")
    for mutant in catalogue.mutants:
        console.print(f"[bold]{mutant.name}[/] [dim]breaks {mutant.broken}[/]  {mutant.story}")
    return 0


def _model_json(model: Model, outcome: Outcome) -> dict[str, object]:
    return {"model": model.name, "suite": model.suite, **outcome.to_json()}


def _mutant_json(result: MutantResult) -> dict[str, object]:
    return {
        "mutant": result.mutant.name,
        "rule": result.mutant.rule,
        "wrong": result.mutant.wrong,
        "expected": result.mutant.broken,
        "caught": result.caught,
        "length": result.length,
        **result.outcome.to_json(),
    }


def _vacuity_json(found: Vacuity) -> dict[str, object]:
    return {
        "silent_actions": list(found.silent_actions),
        "one_sided_guards": {rule: sorted(given) for rule, given in found.one_sided_guards},
    }
