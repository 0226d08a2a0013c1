"""A trace of several processes: a folder with a file for each, read partition by partition.

Each process writes `trace-<node>.ndjson`, with the lines of all its partitions and incarnations, a
controller its own. One pass finds out which lines are whose; then the lines of one partition at a
time are read, put together and given to `validation`. Nothing is judged here.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.controllers import Activations, note, settled
from spec.conformance.tracing.lines import (
    MAX_LINE_CHARS,
    Line,
    Partition,
    TraceError,
    check_sequence,
    line_of,
    parse_line,
)

PATTERN = "trace-*.ndjson"


class Folder:
    """The lines of a folder's files, by partition."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob(PATTERN))
        if not self._files:
            raise TraceError(f"{folder}: has no {PATTERN}")
        self._places: dict[Partition, dict[Path, array[int]]] = {}
        self._activations: Activations = {}
        for file in self._files:
            for data, offset, number in _scan(file):
                where = f"{file.name}:{number}"
                partition = (str(data.get("topic")), _index(data, where))
                places = self._places.setdefault(partition, {}).setdefault(file, array("q"))
                places.extend((offset, number))
                if data.get("node") == CONTROLLER:
                    note(self._activations, line_of(data, where), file.name)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that any line is about."""
        return sorted(self._places)

    def lines(self, partition: Partition) -> list[Line]:
        """Read all lines of a partition, in an order that keeps each process's own."""
        decided: list[Line] = []
        by_node: dict[int, list[Line]] = {}
        wrote: dict[int, Path] = {}
        for file, places in self._places[partition].items():
            for line in check_sequence(_read(file, places)):
                if line.node == CONTROLLER:
                    decided.append(line)
                    continue
                if wrote.setdefault(line.node, file) != file:
                    other = wrote[line.node].name
                    raise TraceError(f"{line.where}: {other} has lines of {line.who} too")
                by_node.setdefault(line.node, []).append(line)
        if not decided:
            first = next(iter(by_node.values()))[0]
            raise TraceError(f"{first.where}: no line of a controller is about this partition")
        made = settled(decided, self._activations)
        return [made[0], *_merged(made[0], made[1:], by_node.values())]


def _merged(created: Line, decided: list[Line], brokers: Iterable[list[Line]]) -> Iterator[Line]:
    """Put the lines of several nodes together as if each had written at an even pace.

    Whoever orders them knows all of them first, so this need not be right; but a broker's first
    line comes after its registration.
    """
    streams = [decided, *brokers]
    paced = [
        ((at + 1) / (len(lines) + 1), stream, at, line)
        for stream, lines in enumerate(streams)
        for at, line in enumerate(lines)
    ]
    given = 0
    epochs = _registered(created)
    for _, stream, at, line in sorted(paced, key=lambda each: each[:3]):
        first = line.action == "Restart" and stream > 0
        while given < len(decided) and (
            (stream == 0 and given <= at) or (first and epochs.get(line.node, 0) < line.incarnation)
        ):
            yield decided[given]
            epochs |= _registered(decided[given])
            given += 1
        if stream > 0:
            yield line


def _registered(line: Line) -> dict[int, int]:
    """Give the broker epochs that a controller's line tells of."""
    brokers = (line.state or {}).get("brokers", {})
    return {int(node): epoch for node, (epoch, _) in brokers.items()}


def _read(file: Path, places: array[int]) -> Iterator[Line]:
    with file.open("rb") as opened:
        for at in range(0, len(places), 2):
            opened.seek(places[at])
            text = opened.readline(MAX_LINE_CHARS).decode("utf-8")
            yield parse_line(text, f"{file.name}:{places[at + 1]}")


def _scan(file: Path) -> Iterator[tuple[dict[str, object], int, int]]:
    """Find the contents, offset and number of each line.

    A process that is killed may leave half a line, as the last of its file or of its life.
    """
    torn: str | None = None
    number = offset = 0
    try:
        with file.open("rb") as opened:
            while raw := opened.readline(MAX_LINE_CHARS):
                number += 1
                where, at = f"{file.name}:{number}", offset
                offset += len(raw)
                if not raw.strip():
                    continue
                data = _parsed(raw)
                if torn is not None and not _begins(data):
                    raise TraceError(f"{torn}: is not JSON, and no process has ended there")
                torn = where if data is None else None
                if isinstance(data, dict):
                    yield data, at, number
                elif data is not None:
                    raise TraceError(f"{where}: is not a JSON object")
    except OSError as problem:
        raise TraceError(f"{file}: {problem.strerror or problem}") from None


def _index(data: dict[str, object], where: str) -> int:
    index = data.get("partition")
    if not isinstance(index, int):
        raise TraceError(f"{where}: partition is {index!r}, not a number")
    return index


def _parsed(raw: bytes) -> object:
    """Read a line; None if it is only the beginning of one."""
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _begins(data: object) -> bool:
    """Whether this is the first line of an incarnation."""
    return isinstance(data, dict) and data.get("seq") == 0
