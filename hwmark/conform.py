"""`hwmark conform`: compares the machines with the specs, state by state, and tells what differs.

The work is done in `spec.conformance`. This selects what to run, shows it, and turns it into an
exit status.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hwmark.console import announce, live, report, say
from hwmark.tables import Cell, Rows
from spec.catalogue import SPEC_DIR, Catalogue, CatalogueError, Model, load_catalogue
from spec.checking import Limits, MutantResult, check_mutant
from spec.conformance.checking import CodeMutant, Conformance, check_code_mutant, conform
from spec.conformance.compare import Comparison
from spec.conformance.explore import OnReport, Report
from spec.conformance.systems import is_in_code
from spec.runner import (
    JobError,
    Outcome,
    Progress,
    State,
    Verdict,
    make_trace,
    print_trace,
    write_scenario,
)
from spec.runner.trace import RawStep, changed_variables


@attrs.frozen
class Options:
    """What a user asked `hwmark conform` for."""

    module: str | None = None
    model: str | None = None
    mutants: bool = False
    mutant: str | None = None
    json: bool = False
    markdown: Path | None = None
    save_scenario: Path | None = None
    specs: Path = SPEC_DIR
    limits: Limits = attrs.field(factory=Limits)


def run_conform(options: Options) -> int:
    """Do what the options ask for; give the exit status."""
    if options.mutant is not None and options.mutants:
        raise JobError("--mutants, --mutant: choose one of them")
    if options.model is not None and (options.mutants or options.mutant is not None):
        raise JobError("--model is for comparing, a mutant has its own: choose one of them")
    catalogue = load_catalogue(options.specs)
    if options.mutants or options.mutant is not None:
        return _conform_mutants(catalogue, options)
    return _conform_models(catalogue, options)


def _conform_models(catalogue: Catalogue, options: Options) -> int:
    models = _select(catalogue, options)
    results: list[Conformance] = []
    for number, model in enumerate(models, start=1):
        label = f"{model.name} ({number}/{len(models)})"
        with live(label, quiet=options.json) as on_tlc:
            result = conform(model, options.limits, on_tlc=on_tlc, on_report=_counted(on_tlc))
        if isinstance(result, Outcome):
            say(f"{model.name}: TLC did not end well: {result.message or result.verdict.value}")
            return result.verdict.exit_status or Verdict.ERROR.exit_status
        results.append(result)
        announce(label, "equal" if result.holds else "different", quiet=options.json)
    data = [_model_json(result) for result in results]
    report(_model_rows(results), data, as_json=options.json, markdown=options.markdown)
    for result in results:
        if not result.holds and not options.json:
            _tell(result, options)
    return 0 if all(result.holds for result in results) else 1


def _select(catalogue: Catalogue, options: Options) -> list[Model]:
    if options.model is not None:
        return catalogue.select(options.module, options.model, ())
    models = catalogue.select(options.module, None, ("smoke", "gate", "deep"))
    compared = [model for model in models if model.compared]
    if not compared:
        raise CatalogueError(f"no model of {options.module} is compared with code")
    return compared


def _conform_mutants(catalogue: Catalogue, options: Options) -> int:
    mutants = [catalogue.mutant(options.mutant)] if options.mutant else list(catalogue.mutants)
    if options.mutant is None:
        wanted = options.module
        mutants = [each for each in mutants if wanted in (None, each.model.spec)]
        mutants = [each for each in mutants if is_in_code(each)]
    pairs: list[tuple[MutantResult, CodeMutant]] = []
    for number, mutant in enumerate(mutants, start=1):
        label = f"{mutant.name} ({number}/{len(mutants)})"
        with live(label, quiet=options.json) as on_tlc:
            pair = (
                check_mutant(mutant, options.limits, on_tlc),
                check_code_mutant(mutant, _counted(on_tlc)),
            )
        pairs.append(pair)
        announce(
            label,
            "caught on both sides" if agree(*pair) else "NOT caught alike",
            quiet=options.json,
        )
    data = [_mutant_json(*pair) for pair in pairs]
    report(_mutant_rows(pairs), data, as_json=options.json, markdown=options.markdown)
    if options.mutant is not None and pairs[0][1].trace is not None:
        _show_code_trace(pairs[0][1], options)
    return 0 if all(agree(*pair) for pair in pairs) else 1


def agree(spec: MutantResult, code: CodeMutant) -> bool:
    """Whether both sides broke the same property, by paths of the same length.

    A fair lasso has no shortest length that both would find, so there the property is enough.
    """
    if not spec.caught or not code.caught:
        return False
    return spec.mutant.length is None or spec.length == code.length


def _tell(result: Conformance, options: Options) -> None:
    console = Console(highlight=False)
    if result.trace is not None:
        say(f"{result.model.name}: the code breaks {result.broken}", "bold red")
        print_trace(result.trace, console)
        if options.save_scenario is not None:
            title = f"{result.model.name}: {result.broken}, by the code"
            write_scenario(result.trace, options.save_scenario, (title,))
    elif result.comparison is not None:
        _tell_difference(result.model, result.comparison, console)


def _tell_difference(model: Model, found: Comparison, console: Console) -> None:
    """Print the shortest path to a difference, and what may follow there on either side."""
    if not found.path:
        say(f"{model.name}: the two sides begin in different states", "bold red")
        return
    say(f"{model.name}: the shortest path to a difference", "bold red")
    print_trace(make_trace(RawStep(state, action) for action, state in found.path), console)
    here = found.path[-1][1]
    spec, code = found.successors(found.spec), found.successors(found.code)
    console.print(_successors("the spec alone", here, {k: spec[k] for k in spec.keys() - code}))
    console.print(_successors("the code alone", here, {k: code[k] for k in code.keys() - spec}))
    console.print(_successors("both", here, {k: spec[k] for k in spec.keys() & code.keys()}))
    if found.differs_at in found.unstable:
        say("here the code's successors also depend on what is not projected", "yellow")


def _successors(who: str, here: State, after: dict[tuple[str, int], State]) -> Table:
    table = Table("action", "what changes", title=f"next steps of {who}", title_justify="left")
    for (action, _), state in sorted(after.items(), key=lambda item: item[0]):
        changed = ", ".join(sorted(changed_variables(here, state))) or "nothing"
        table.add_row(action, changed)
    return table


def _show_code_trace(code: CodeMutant, options: Options) -> None:
    if code.trace is None:
        return
    if options.save_scenario is not None:
        title = f"{code.mutant.name}: {code.broken}, by the code"
        write_scenario(code.trace, options.save_scenario, (title,))
    if not options.json:
        console = Console(highlight=False)
        console.print(Text(f"\nhow the code breaks {code.broken}:\n", "bold"))
        print_trace(code.trace, console)


def _model_rows(results: list[Conformance]) -> Rows:
    headings = (
        "model",
        "verdict",
        "states#",
        "edges#",
        "missing#",
        "extra#",
        "in code#",
        "edges/s#",
    )
    return Rows(headings, tuple(_model_row(result) for result in results))


def _model_row(result: Conformance) -> tuple[Cell, ...]:
    found = result.comparison
    rate = f"{result.edges_explored / max(result.seconds, 0.001):,.0f}"
    if found is None:
        broken = Cell(f"breaks {result.broken}", "red")
        return (Cell(result.model.name), broken, *[Cell("")] * 5, Cell(rate))
    spec, code = found.spec, found.code
    return (
        Cell(result.model.name),
        _verdict(result.holds, "equal", "different"),
        Cell(f"{len(spec.states):,}"),
        Cell(f"{len(spec.edges):,}"),
        Cell(f"{len(spec.states - code.states):,} / {len(spec.edges - code.edges):,}"),
        Cell(f"{len(code.states - spec.states):,} / {len(code.edges - spec.edges):,}"),
        Cell(f"{found.concrete_states:,}"),
        Cell(rate),
    )


def _verdict(good: bool, yes: str, no: str) -> Cell:
    return Cell(yes, "green") if good else Cell(no, "red")


def _mutant_rows(pairs: list[tuple[MutantResult, CodeMutant]]) -> Rows:
    headings = ("mutant", "rule?", "verdict", "property broken", "spec#", "code#", "seconds#")
    return Rows(headings, tuple(_mutant_row(*pair) for pair in pairs))


def _mutant_row(spec: MutantResult, code: CodeMutant) -> tuple[Cell, ...]:
    return (
        Cell(spec.mutant.name),
        Cell(spec.mutant.rule or "(none)"),
        _verdict(agree(spec, code), "caught on both sides", "NOT caught alike"),
        Cell(spec.mutant.broken),
        Cell(str(spec.length or "-")),
        Cell(str(code.length or "-")),
        Cell(f"{code.seconds:.1f}"),
    )


def _model_json(result: Conformance) -> dict[str, object]:
    found = result.comparison
    data: dict[str, object] = {
        "model": result.model.name,
        "equal": result.holds,
        "broken": result.broken,
        "edges_explored": result.edges_explored,
        "seconds": round(result.seconds, 3),
    }
    if found is not None:
        data |= {
            "states": len(found.spec.states),
            "edges": len(found.spec.edges),
            "concrete_states": found.concrete_states,
            "missing_states": len(found.spec.states - found.code.states),
            "extra_states": len(found.code.states - found.spec.states),
            "missing_edges": len(found.spec.edges - found.code.edges),
            "extra_edges": len(found.code.edges - found.spec.edges),
            "unstable_states": len(found.unstable),
        }
    return data


def _mutant_json(spec: MutantResult, code: CodeMutant) -> dict[str, object]:
    return {
        "mutant": spec.mutant.name,
        "rule": spec.mutant.rule,
        "expected": spec.mutant.broken,
        "agree": agree(spec, code),
        "spec": {"caught": spec.caught, "length": spec.length},
        "code": {"caught": code.caught, "length": code.length, "states": code.states},
    }


def _counted(on_progress: Callable[[Progress], None]) -> OnReport:
    """Show how far the exploration of the code is, on the bar that showed TLC's."""

    def on_report(report: Report) -> None:
        on_progress(Progress(report.edges, report.states, report.waiting, 0, None))

    return on_report
