"""Scenario files: what happens to one replica, and what it does about it.

A file is blocks with blank lines in between. A block is comments (`#`), commands, a line `----`,
and what followed: the effects of each command, and the lines of the state that changed.

| command | what it does |
| --- | --- |
| `replica node=1 log=0..5 epochs=1@0,2@3 hw=4` | start one; settings may follow |
| `at 500` | it is 500 ms now |
| an event, such as `appended 5` | handle it (see `words`) |
| `configured min_isr=1` | change settings; the others stay |
| `due` | handle what is due by now, until nothing is |
| `deadline` | tell when something is due next |
| `state` | tell all of the state |

`pytest --rewrite` writes what followed into the files, to be reviewed as a diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from protocol.errors import InvariantViolation, RemoteProtocolError
from protocol.machine import Effect, Event
from protocol.replication import Log, Replica, ReplicaConfig
from protocol.replication.events import Configured
from tests.protocol.replication.words import (
    EVENTS,
    arguments,
    epoch_end,
    event_of,
    portrait,
    told,
)

MARK = "----"
SETTINGS = [field.name for field in attrs.fields(ReplicaConfig)]
MAX_ROUNDS = 10


class ScenarioError(Exception):
    """A scenario that cannot be read."""


@attrs.frozen
class Command:
    """One line to carry out, and where it stands."""

    line: int
    words: tuple[str, ...]


@attrs.frozen
class Block:
    """Comments and commands as they stand in the file, and the commands among them."""

    text: tuple[str, ...]
    commands: tuple[Command, ...]


def blocks(name: str, text: str) -> Iterator[Block]:
    """Read a file's blocks, without what followed."""
    kept: list[str] = []
    commands: list[Command] = []
    expected = False
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if not line.strip():
            if commands and not expected:
                raise ScenarioError(f"{name}:{number}: the block ends without {MARK}")
            if kept:
                yield Block(tuple(kept), tuple(commands))
            kept, commands, expected = [], [], False
        elif line == MARK:
            if expected or not commands:
                raise ScenarioError(f"{name}:{number}: {MARK} follows no command")
            expected = True
        elif not expected:
            kept.append(line)
            if not line.startswith("#"):
                commands.append(Command(number, tuple(line.split())))


class Interpreter:
    """Carries out commands on one replica at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.now_ms = 0
        self._replica: Replica | None = None
        self._shown: dict[str, str] = {}
        self._commands: dict[str, Callable[[list[str]], Iterator[str]]] = {
            "replica": self._start,
            "at": self._at,
            "due": self._due,
            "deadline": self._deadline,
            "state": self._state,
            "configured": self._configure,
        }

    def run(self, block: Block) -> list[str]:
        """Carry out a block; give what followed."""
        lines: list[str] = []
        for command in block.commands:
            try:
                lines += self._carry_out(*command.words)
            except ValueError as error:
                raise ScenarioError(f"{self.name}:{command.line}: {error}") from error
        return lines + list(self._news())

    def _carry_out(self, name: str, *words: str) -> Iterator[str]:
        if name in self._commands:
            return self._commands[name](list(words))
        if name in EVENTS:
            return iter(self._handle(event_of(name, list(words))))
        known = ", ".join(sorted([*self._commands, *EVENTS]))
        raise ValueError(f"{name!r} is neither a command nor an event; there are {known}")

    @property
    def replica(self) -> Replica:
        """The replica at hand."""
        if self._replica is None:
            raise ValueError("there is no replica yet; begin with `replica node=1`")
        return self._replica

    def _start(self, words: list[str]) -> Iterator[str]:
        fields = ["node", "broker_epoch", "log", "epochs", "hw", *SETTINGS]
        given = arguments(fields, words)
        start, _, end = given.pop("log", "0..0").partition("..")
        starts = [epoch_end(each) for each in given.pop("epochs", "").split(",") if each]
        log = Log(int(start), int(end), tuple((each.epoch, each.offset) for each in starts))
        numbers = {field: int(word) for field, word in given.items()}
        self._replica = Replica.restarted(
            numbers.pop("node", 1),
            numbers.pop("broker_epoch", 1),
            log=log,
            high_watermark=numbers.pop("hw", 0),
            config=ReplicaConfig(**numbers),
        )
        self._shown = {}
        yield from ()

    def _at(self, words: list[str]) -> Iterator[str]:
        now_ms = int(" ".join(words))
        if now_ms < self.now_ms:
            raise ValueError(f"time does not go back from {self.now_ms} to {now_ms}")
        self.now_ms = now_ms
        yield from ()

    def _due(self, words: list[str]) -> Iterator[str]:
        arguments([], words)
        for _ in range(MAX_ROUNDS):
            due = self.replica.due(self.now_ms)
            if not due:
                return
            for event in due:
                yield f"{told(event)}:"
                yield from (f"  {line}" for line in self._handle(event))
        raise ValueError(f"after {MAX_ROUNDS} rounds there is still something due")

    def _configure(self, words: list[str]) -> Iterator[str]:
        changes = {name: int(word) for name, word in arguments(SETTINGS, words).items()}
        config = attrs.evolve(self.replica.state.config, **changes)
        yield from self._handle(Configured(config))

    def _deadline(self, words: list[str]) -> Iterator[str]:
        arguments([], words)
        at_ms = self.replica.next_deadline()
        yield "nothing is due" if at_ms is None else f"due at {at_ms}"

    def _state(self, words: list[str]) -> Iterator[str]:
        arguments([], words)
        self._shown = {}
        yield from ()

    def _handle(self, event: Event) -> list[str]:
        before = self.replica.state
        try:
            effects: tuple[Effect, ...] = self.replica.handle(event, self.now_ms)
        except (InvariantViolation, RemoteProtocolError, ValueError) as error:
            return [f"{type(error).__name__}: {error}"]
        if not effects and self.replica.state is before:
            return ["nothing happens"]
        return [told(effect) for effect in effects]

    def _news(self) -> Iterator[str]:
        """Tell the lines of the state that are new since this was asked before."""
        if self._replica is None:
            return
        lines = portrait(self.replica.state)
        for name in [*lines, *(name for name in self._shown if name not in lines)]:
            if self._shown.get(name) != lines.get(name):
                yield f"| {name}: {lines.get(name, '(gone)')}"
        self._shown = lines


def performed(name: str, text: str) -> str:
    """Give a scenario's text with what really follows."""
    interpreter = Interpreter(name)
    parts = []
    for block in blocks(name, text):
        lines = list(block.text)
        if block.commands:
            lines += [MARK, *interpreter.run(block)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def scenario_files() -> list[Path]:
    """List the scenario files of the replica."""
    folder = Path(__file__).parents[2] / "scenarios" / "replication"
    return sorted(folder.glob("*.txt"))
