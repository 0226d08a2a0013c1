"""`hwmark log dump`: what a log's files say, line by line as it is read.

The reading is done in `storage.inspect.dump`. This lays it out for a terminal, or as one JSON
object a line. Bytes are shown so that they cannot move a cursor, and not longer than a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs
from rich.console import Console
from rich.text import Text

from storage.batch.header import NO_PRODUCER
from storage.batch.records import Record
from storage.checkpoint import MAX_INT64
from storage.disk.seam import Buffer, Disk
from storage.errors import InvalidBatch
from storage.inspect import dump, place
from storage.inspect.dump import CODEC_NAMES, Row, SeenBatch, SeenFault

_SHOWN_BYTES: Final = 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LINE: Final = "{:>17} {:>10} {:>8} {:>6} {:>7} {:6} {:>14} {:>11}  {:24} {:5} {}"
_HEADINGS: Final = (
    *("offsets", "position", "bytes", "epoch", "records", "codec"),
    *("producer:epoch", "sequences", "largest time", "crc", ""),
)


@attrs.frozen
class DumpOptions:
    """What a user asked `hwmark log dump` for."""

    path: Path
    partition: str | None = None
    from_offset: int = 0
    to_offset: int = MAX_INT64
    records: bool = False
    json: bool = False
    live: bool = False


def run_dump(disk: Disk, options: DumpOptions) -> int:
    """Show a file, a partition or a whole folder."""
    printer = _JsonPrinter() if options.json else _TextPrinter()
    path = str(options.path)
    if disk.is_folder(path):
        where = place.find(disk, path, options.partition)
        for partition in where.partitions:
            folder = where.folder_of(partition)
            for segment in dump.segments(disk, folder, options.from_offset, options.to_offset):
                _dump_segment(disk, segment, options, printer)
    elif dump.segment_base(path) is not None:
        _dump_segment(disk, path, options, printer)
    else:
        printer.rows(path, dump.rows(disk, path))
    return 0


def _dump_segment(disk: Disk, path: str, options: DumpOptions, printer: _Printer) -> None:
    printer.segment(path, disk.size(path))
    for seen in dump.batches(disk, path, options.from_offset, options.to_offset):
        if isinstance(seen, SeenFault):
            printer.fault(seen)
            continue
        printer.batch(seen)
        if not (options.records and seen.crc_fits):
            continue
        try:
            for record in dump.records_of(disk, seen):
                if options.from_offset <= record.offset <= options.to_offset:
                    printer.record(seen, record)
        except InvalidBatch as invalid:
            reason = f"no records from here on: {invalid}"
            printer.fault(SeenFault(seen.path, seen.position, reason, seen.header.size_bytes))


class _JsonPrinter:
    """One object a line."""

    def segment(self, path: str, size_bytes: int) -> None:
        _print_json({"kind": "segment", "file": path, "size_bytes": size_bytes})

    def batch(self, seen: SeenBatch) -> None:
        _print_json({"kind": "batch", **seen.to_json()})

    def fault(self, seen: SeenFault) -> None:
        _print_json({"kind": "fault", **seen.to_json()})

    def record(self, _seen: SeenBatch, record: Record) -> None:
        _print_json(
            {
                "kind": "record",
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": shown(record.key),
                "key_bytes": _length(record.key),
                "value": shown(record.value),
                "value_bytes": _length(record.value),
                "headers": [[shown(name), shown(value)] for name, value in record.headers],
            }
        )

    def rows(self, _path: str, rows: Iterator[Row]) -> None:
        for row in rows:
            _print_json(row)


class _TextPrinter:
    """Columns, with a line of headings above each segment. What is wrong is red."""

    def __init__(self) -> None:
        self._console = Terminal()
        self._first = True

    def segment(self, path: str, size_bytes: int) -> None:
        if not self._first:
            print()
        self._first = False
        self._console.print(Text(f"{path}  {size_bytes:,} bytes", "bold"))
        if size_bytes:
            self._console.print(Text(_LINE.format(*_HEADINGS).rstrip(), "dim"))

    def batch(self, seen: SeenBatch) -> None:
        header = seen.header
        producer, sequences = "-", "-"
        if header.producer_id != NO_PRODUCER:
            producer = f"{header.producer_id}:{header.producer_epoch}"
            if header.base_sequence >= 0:
                sequences = f"{header.base_sequence}-{header.last_sequence}"
        line = _LINE.format(
            f"{header.base_offset}-{header.last_offset}",
            seen.position,
            header.size_bytes,
            header.leader_epoch,
            header.record_count,
            CODEC_NAMES.get(header.codec, f"? {header.codec}"),
            producer,
            sequences,
            time_text(header.max_timestamp_ms),
            "ok" if seen.crc_fits else "WRONG",
            _remarks(seen),
        ).rstrip()
        if seen.crc_fits and seen.fault is None:
            # Most lines are good, and plain printing is what keeps up with a disk.
            print(line)
        else:
            self._console.print(Text(line, "red"))

    def fault(self, seen: SeenFault) -> None:
        text = f"byte {seen.position:,}: {seen.reason}; {seen.left_bytes:,} bytes are not shown"
        self._console.print(Text(text, "bold red"))

    def record(self, _seen: SeenBatch, record: Record) -> None:
        line = f"{record.offset:>17}   {time_text(record.timestamp_ms)}"
        line += f"  {_text(record.key)} = {_text(record.value)}"
        for name, value in record.headers:
            line += f"  {shown(name)}: {_text(value)}"
        print(line)

    def rows(self, path: str, rows: Iterator[Row]) -> None:
        self._console.print(Text(path, "bold"))
        widths: dict[str, int] = {}
        for row in rows:
            if not widths:
                widths = {name: max(len(name), 20) for name in row}
                heading = " ".join(f"{name.replace('_', ' '):>{widths[name]}}" for name in widths)
                self._console.print(Text(heading, "dim"))
            print(" ".join(_aligned(row, widths)))
        if not widths:
            print("nothing is in it")


_Printer = _JsonPrinter | _TextPrinter


class Terminal(Console):
    """A console that lets its caller decide how to end when nobody reads any more."""

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Pass it on; rich would end the program with status 1, which says something else here."""
        raise BrokenPipeError


def _aligned(row: Row, widths: dict[str, int]) -> Iterable[str]:
    for name, width in widths.items():
        value = "-" if row[name] is None else str(row[name])
        yield f"{value:>{width}}"


def _remarks(seen: SeenBatch) -> str:
    header = seen.header
    kinds: tuple[tuple[bool, Callable[[], str]], ...] = (
        (header.is_control, lambda: f"{seen.marker or 'control'} marker"),
        (header.is_transactional and not header.is_control, lambda: "transactional"),
        (header.delete_horizon_ms is not None, lambda: "cleaned"),
        (seen.fault is not None, lambda: f"{seen.fault}"),
    )
    return ", ".join(text() for holds, text in kinds if holds)


def time_text(timestamp_ms: int) -> str:
    """Show a time as people write it, if it is one."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(content: Buffer | None) -> str | None:
    """Show bytes as text where they are text, escaped where not, and never more than a line."""
    if content is None:
        return None
    text = bytes(content[:_SHOWN_BYTES]).decode("utf-8", "backslashreplace")
    safe = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return safe if len(content) <= _SHOWN_BYTES else f"{safe}... ({len(content):,} bytes)"


def _text(content: Buffer | None) -> str:
    text = shown(content)
    return "null" if text is None else f'"{text}"'


def _length(content: Buffer | None) -> int | None:
    return None if content is None else len(content)


def _print_json(row: Row) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
