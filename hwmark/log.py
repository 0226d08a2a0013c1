"""`hwmark log`: look at the folder of a stopped broker, verify it, and repair it.

The work is done in `storage.inspect`. This takes the folder's lock, shows how far it is and what
came of it, and asks before anything is removed.
"""

from __future__ import annotations

import json as json_text
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from hwmark.console import say
from hwmark.log_dump import DumpOptions, Terminal, run_dump
from hwmark.tables import Cell, Rows
from spec.runner import JobError, ended
from storage.checkpoint import MAX_INT64, TopicPartition
from storage.disk.folder_lock import FolderInUse, FolderLock
from storage.disk.posix import PosixDisk
from storage.errors import StorageError
from storage.inspect import place, repair
from storage.inspect.findings import Finding, FolderReport, Level, PartitionReport
from storage.inspect.place import Place
from storage.inspect.read_only import ReadOnlyDisk
from storage.inspect.verify import size_bytes, verify

log_app = typer.Typer(
    name="log",
    help="Look into the folder of a stopped broker, verify and repair it.",
    no_args_is_help=True,
)

_CLOSED_PIPE: Final = 128 + signal.SIGPIPE
_USER: Final = "hwmark log repair"
_COLOURS: Final = {"fine": "green", "rebuild": "yellow", "damaged": "bold red"}
_LEVEL_COLOURS: Final = {Level.DAMAGE: "red", Level.REBUILDABLE: "yellow", Level.NOTE: "dim"}

_Path = Annotated[
    Path, typer.Argument(metavar="PATH", help="A log folder, or the folder of one partition.")
]
_Partition = Annotated[
    str | None, typer.Option(metavar="TOPIC-N", help="Only this partition of the folder.")
]


@log_app.command("dump", epilog="Exit status: 0 shown, 2 error, 130 interrupted.")
def dump_command(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A log folder, a partition's, or one file of them."),
    ],
    partition: _Partition = None,
    from_offset: Annotated[int, typer.Option(min=0, help="The first offset to show.")] = 0,
    to_offset: Annotated[
        int, typer.Option(min=0, help="The last offset to show.", show_default=False)
    ] = MAX_INT64,
    records: Annotated[bool, typer.Option("--records", help="Show the records, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Although a broker is running: its end may look torn.")
    ] = False,
) -> None:
    """Show what is in a log, batch by batch, or what any one of its files says."""
    options = DumpOptions(path, partition, from_offset, to_offset, records, json, live)
    _run(lambda: _dump(options))


@log_app.command(
    "verify", epilog="Exit status: 0 nothing is wrong, 1 damage, 2 error, 130 interrupted."
)
def verify_command(
    path: _Path,
    partition: _Partition = None,
    records: Annotated[bool, typer.Option("--records", help="Decode every record, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Read everything and say what is wrong. It changes nothing."""
    _run(lambda: _verify(path, partition, records=records, json=json))


@log_app.command("repair", epilog="Exit status: 0 repaired or nothing to do, 1 not done, 2 error.")
def repair_command(
    path: _Path,
    partition: _Partition = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Yes, cut damaged logs before their first damage.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and do not ask.")] = False,
) -> None:
    """Cut damaged logs before their first damage. What is cut off is kept."""
    _run(lambda: _repair(path, partition, truncate=truncate, ask=not (yes or json), json=json))


def _run(command: Callable[[], int]) -> None:
    raise typer.Exit(ended("hwmark", lambda: _until_the_pipe_closes(command)))


def _until_the_pipe_closes(command: Callable[[], int]) -> int:
    """End as a shell expects when its reader, such as `head`, has seen enough."""
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # Else Python tries to write the rest when it ends, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except StorageError as problem:
        raise JobError(str(problem)) from problem
    return status


def _dump(options: DumpOptions) -> int:
    with ReadOnlyDisk() as disk:
        folder = _log_folder_of(disk, options)
        if options.live:
            return _dumped(disk, options)
        try:
            lock = FolderLock(folder, shared=True)
        except FolderInUse as problem:
            raise JobError(f"{problem}, or say --live to look although it is written") from problem
        with lock:
            return _dumped(disk, options)


def _dumped(disk: ReadOnlyDisk, options: DumpOptions) -> int:
    """Print it; where the output goes elsewhere, a bar shows how far it is."""
    if disk.is_folder(str(options.path)):
        total_bytes = size_bytes(disk, _find(disk, options.path, options.partition))
    else:
        total_bytes = disk.size(str(options.path))
    with _bar("dumping", total_bytes, quiet=sys.stdout.isatty()) as on_bytes:
        disk.on_read = on_bytes
        return run_dump(disk, options)


def _log_folder_of(disk: ReadOnlyDisk, options: DumpOptions) -> str:
    path = options.path
    if disk.is_folder(str(path)):
        return place.find(disk, str(path), options.partition).log_folder
    disk.size(str(path))
    parent = path.parent
    is_partition = TopicPartition.from_folder_name(parent.resolve().name) is not None
    return str(parent.resolve().parent if is_partition else parent)


def _verify(path: Path, partition: str | None, *, records: bool, json: bool) -> int:
    with ReadOnlyDisk() as disk:
        where = _find(disk, path, partition)
        with FolderLock(where.log_folder, shared=True):
            report = _verified(disk, where, records=records, quiet=json)
    if json:
        print(json_text.dumps(report.to_json(), indent=2))
    else:
        _print_report(report)
    return 0 if report.sound else 1


def _find(disk: ReadOnlyDisk, path: Path, partition: str | None) -> Place:
    """Find what is there; `.` has a name, too."""
    return place.find(disk, str(path if path.name else path.resolve()), partition)


def _verified(disk: ReadOnlyDisk, where: Place, *, records: bool, quiet: bool) -> FolderReport:
    with _bar("verifying", size_bytes(disk, where), quiet=quiet) as on_bytes:
        return verify(disk, where, on_bytes, decode=records)


@contextmanager
def _bar(what: str, total_bytes: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how many bytes are read by now, on a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        BarColumn(bar_width=30),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    disable = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        task = progress.add_task("", total=total_bytes)
        yield lambda read_bytes: progress.advance(task, read_bytes)


def _print_report(report: FolderReport) -> None:
    console = Terminal()
    headings = (
        *("partition", "verdict", "offsets", "segments#", "batches#", "records#", "bytes#"),
    )
    rows = tuple(_row(part) for part in report.partitions)
    console.print(Rows(headings, rows).for_terminal(console.width), soft_wrap=False)
    for finding in report.all_findings:
        _print_finding(console, finding)


def _row(part: PartitionReport) -> tuple[Cell, ...]:
    offsets = f"{part.start_offset:,} to {part.end_offset - 1:,}"
    return (
        Cell(part.partition.folder_name),
        Cell(part.verdict, _COLOURS[part.verdict]),
        Cell(offsets if part.end_offset > part.start_offset else f"none, next {part.end_offset:,}"),
        Cell(f"{len(part.segments):,}"),
        Cell(f"{part.batches:,}"),
        Cell(f"{part.records:,}"),
        Cell(f"{part.size_bytes:,}"),
    )


def _print_finding(console: Console, finding: Finding) -> None:
    colour = _LEVEL_COLOURS[finding.level]
    line = Text(f"\n{finding.level.value}: ", colour) + Text(
        finding.where, "bold" if colour != "dim" else colour
    )
    console.print(line)
    console.print(Text(f"  {finding.reason}", colour))
    console.print(Text(f"  {finding.advice}", "dim"))


def _repair(path: Path, partition: str | None, *, truncate: bool, ask: bool, json: bool) -> int:
    if not truncate:
        raise JobError("repair can only cut logs before their damage: say --truncate to want that")
    with ReadOnlyDisk() as disk:
        where = _find(disk, path, partition)
        with FolderLock(where.log_folder, _USER):
            report = _verified(disk, where, records=False, quiet=json)
            plan = repair.plan(disk, report)
            if not json:
                _print_plan(plan)
            if plan.empty:
                return _tell_repaired(plan, report, json=json)
            if ask and not typer.confirm("\ndo it?", err=True):
                say("nothing was done", "yellow")
                return 1
            writing = PosixDisk()
            try:
                repair.run(writing, plan)
            finally:
                writing.close()
            disk.close()
            after = _verified(disk, where, records=False, quiet=json)
            return _tell_repaired(plan, after, json=json)


def _tell_repaired(plan: repair.FolderPlan, after: FolderReport, *, json: bool) -> int:
    if json:
        print(json_text.dumps({"done": plan.to_json(), "after": after.to_json()}, indent=2))
    elif not plan.empty:
        print()
        _print_report(after)
    return 0 if after.sound else 1


def _print_plan(plan: repair.FolderPlan) -> None:
    console = Terminal()
    if plan.empty:
        console.print(Text("nothing is wrong, and nothing was done", "green"))
    for each in plan.partitions:
        console.print(Text(each.partition.folder_name, "bold"))
        if each.loss is None:
            console.print("  no record is lost")
        else:
            _print_loss(console, each.loss)
        if each.cut_path is not None:
            name = Path(each.cut_path).name
            console.print(f"  {name} is cut to {each.cut_position:,} bytes", markup=False)
        if each.whole_files:
            kinds = Counter("".join(Path(path).suffixes) for path in each.whole_files)
            counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
            console.print(f"  whole files that go: {counts}", markup=False)
        console.print(f"  what goes is kept in {each.kept_in}", markup=False)
    for path in plan.shared_files:
        console.print(Text(f"{path} is set aside in {plan.kept_in}"))


def _print_loss(console: Console, loss: repair.Loss) -> None:
    count = loss.end_offset - loss.first_offset
    offsets = f"the {count:,} offsets from {loss.first_offset:,} to {loss.end_offset - 1:,}"
    console.print(
        Text(
            f"  the log loses {loss.size_bytes:,} bytes: " + (offsets if count else "no offset"),
            "red",
        )
    )
    console.print(
        f"  of them {loss.readable_records:,} records in {loss.readable_batches:,} batches still"
        " read well"
    )
