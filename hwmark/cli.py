"""The `hwmark` command: its options and their help. Each command's work has its own module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hwmark.check import Options, check
from hwmark.conform import Options as ConformOptions
from hwmark.conform import run_conform
from hwmark.demo import demo
from hwmark.replay import Options as ReplayOptions
from hwmark.replay import run_replay
from hwmark.validate import DEFAULT_MEMORY_MB, DEFAULT_WINDOW, run_validate
from hwmark.validate import Options as ValidateOptions
from spec.catalogue import SPEC_DIR
from spec.checking import Limits
from spec.runner import ended


def unavailable(missing: ModuleNotFoundError, extra: str) -> Callable[[], None]:
    """Make a command that says what to install."""

    def command() -> None:
        print(f"hwmark: {missing.name} is missing: pip install 'hwmark[{extra}]'", file=sys.stderr)
        raise typer.Exit(2)

    command.__doc__ = f"Not installed: it comes with the extra `{extra}`."
    return command


app = typer.Typer(
    name="hwmark",
    help="A formally specified, Kafka-like replicated log, and the tools that try to break it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_BROKER_COMMANDS = ("log", "serve", "format", "cluster", "topic", "produce", "consume")
try:
    from hwmark.cluster import cluster_app
    from hwmark.consume import consume_command
    from hwmark.log import log_app
    from hwmark.produce import produce_command
    from hwmark.serve import format_command, serve_command
    from hwmark.topic import topic_app
except ModuleNotFoundError as missing:
    # Who came for the specs alone has no storage, and everything else works.
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    for name in _BROKER_COMMANDS:
        app.command(name, context_settings=anything)(unavailable(missing, extra="broker"))
else:
    app.command("serve", epilog="Exit status: 0 stopped, 2 error, 3 failed.")(serve_command)
    app.command("format", epilog="Exit status: 0 formatted, 2 error.")(format_command)
    app.add_typer(cluster_app)
    app.add_typer(topic_app)
    app.command("produce", epilog="Exit status: 0 all delivered, 1 not, 2 error.")(produce_command)
    app.command("consume", epilog="Exit status: 0 done, 1 too few came, 2 error.")(consume_command)
    app.add_typer(log_app)

_RESUME_FOLDER = Path("runs/deep")


@app.callback()
def _group() -> None:
    """Without this, Typer would turn a single command into the whole program."""


@app.command("demo")
def demo_command() -> None:
    """Show in about a minute what hwmark does."""
    raise typer.Exit(ended("hwmark", demo))


@app.command(
    "check",
    epilog="Exit status: 0 holds, 1 violated, 2 unknown or error, 130 interrupted.",
)
def check_command(
    module: Annotated[
        str | None, typer.Argument(help="Only the models of this spec, such as Replication.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="One model, or a suite, by name.")] = None,
    suite: Annotated[
        str | None, typer.Option(help="smoke, gate or deep. [default: smoke and gate]")
    ] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Swap one rule at a time; each must be caught.")
    ] = False,
    mutant: Annotated[str | None, typer.Option(help="One mutant, by name.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Tell the mutant's story and its counterexample.")
    ] = False,
    vacuity: Annotated[
        bool, typer.Option("--vacuity", help="Find actions and guards that do nothing.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List models and mutants.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the table as Markdown.")
    ] = None,
    save_scenario: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a counterexample as a scenario.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help=f"Keep results in {_RESUME_FOLDER}, and go on from them."),
    ] = False,
    specs: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Your own copy of the specs.", show_default=False)
    ] = SPEC_DIR,
    workers: Annotated[int | None, typer.Option(min=1, help="TLC's threads.")] = None,
    memory_mb: Annotated[int | None, typer.Option(min=1, help="Java's heap.")] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="For each run of TLC.")
    ] = None,
) -> None:
    """Let TLC explore the specs: all that is reachable within each model's bounds."""
    options = Options(
        module=module,
        model=model,
        suite=suite,
        mutants=mutants,
        mutant=mutant,
        explain=explain,
        vacuity=vacuity,
        show=show,
        json=json,
        markdown=markdown,
        save_scenario=save_scenario,
        resume=_RESUME_FOLDER if resume else None,
        specs=specs,
        limits=Limits(workers, memory_mb, time_limit),
    )
    raise typer.Exit(ended("hwmark", lambda: check(options)))


@app.command(
    "conform",
    epilog="Exit status: 0 equal or caught, 1 different or not caught, 2 error, 130 interrupted.",
)
def conform_command(
    module: Annotated[
        str | None, typer.Argument(help="Only the models of this spec, such as Replication.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="One model, by name. [default: those marked as compared]"),
    ] = None,
    mutants: Annotated[
        bool,
        typer.Option("--mutants", help="Swap one rule at a time, in the spec and in the code."),
    ] = False,
    mutant: Annotated[
        str | None, typer.Option(help="One mutant, by name; shows how the code breaks.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the table as Markdown.")
    ] = None,
    save_scenario: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the code's counterexample.")
    ] = None,
    specs: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Your own copy of the specs.", show_default=False)
    ] = SPEC_DIR,
    time_limit: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="For each run of TLC.")
    ] = None,
) -> None:
    """Compare the code with the specs: the same states, the same steps between them."""
    options = ConformOptions(
        module=module,
        model=model,
        mutants=mutants,
        mutant=mutant,
        json=json,
        markdown=markdown,
        save_scenario=save_scenario,
        specs=specs,
        limits=Limits(time_limit_s=time_limit),
    )
    raise typer.Exit(ended("hwmark", lambda: run_conform(options)))


@app.command(
    "replay",
    epilog="Exit status: 0 every step taken, 1 the code parts from it, 2 error, 130 interrupted.",
)
def replay_command(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="A file that --save-scenario wrote.")
    ],
    model: Annotated[str | None, typer.Option(help="The model that it was found in.")] = None,
    mutant: Annotated[str | None, typer.Option(help="The mutant that it was found for.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    specs: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Your own copy of the specs.", show_default=False)
    ] = SPEC_DIR,
) -> None:
    """Replay a counterexample of TLC's on the machines, step by step."""
    options = ReplayOptions(scenario, model, mutant, json, specs)
    raise typer.Exit(ended("hwmark", lambda: run_replay(options)))


@app.command("validate", epilog="Exit status: 0 accepted, 1 rejected, 2 error, 130 interrupted.")
def validate_command(
    trace: Annotated[
        Path, typer.Argument(help="The trace, or a folder with the trace-*.ndjson of a run.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    window: Annotated[
        int, typer.Option(min=1, metavar="STEPS", help="How many steps TLC is given at once.")
    ] = DEFAULT_WINDOW,
    memory_mb: Annotated[int, typer.Option(min=1, help="Java's heap.")] = DEFAULT_MEMORY_MB,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="No window is begun after it."),
    ] = None,
) -> None:
    """Let TLC decide whether a recorded trace is a behaviour of the spec."""
    options = ValidateOptions(
        trace, json=json, window=window, memory_mb=memory_mb, total_time_limit_s=time_limit
    )
    raise typer.Exit(ended("hwmark", lambda: run_validate(options)))


def main() -> None:
    """Run the command that the arguments name."""
    app(args=sys.argv[1:])
