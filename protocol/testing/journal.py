"""What a driver did, in one chronology: its calls of the machine and the effects that it began.

`Watched` stands between the driver and a machine, scripted or real, and changes nothing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from protocol.errors import InvariantViolation
from protocol.machine import Actions, Effect, Effects, Event, Machine
from protocol.testing.driver import ContractBroken

MAX_ENTRIES = 5_000


@attrs.frozen
class Took:
    """`handle` was called; `overlaps`: before an earlier call of it had returned."""

    event: Event
    now_ms: int
    overlaps: bool


@attrs.frozen
class Gave:
    """`handle` returned."""

    effects: Effects


@attrs.frozen
class Raised:
    """`handle` raised."""

    event: Event
    error: Exception


@attrs.frozen
class DeadlineAsked:
    """`next_deadline` was called."""


@attrs.frozen
class DueAsked:
    """`due` was called."""

    now_ms: int


@attrs.frozen
class Began:
    """The driver began an effect."""

    effect: Effect


Entry: TypeAlias = Took | Gave | Raised | DeadlineAsked | DueAsked | Began


class Journal:
    """The chronology, and what can be read off it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def write(self, entry: Entry) -> None:
        """Note what has just happened."""
        self.must_not_be_full()
        self.entries.append(entry)

    def must_not_be_full(self) -> None:
        """Raise if the driver goes round in circles.

        What is due makes it do so, if it never gets handled: because the driver does not, or
        because it goes on with a machine that has raised.
        """
        if len(self.entries) >= MAX_ENTRIES:
            rule = 3 if self.raised is None else 5
            raise ContractBroken(rule, f"{MAX_ENTRIES} steps, and the driver does not come to rest")

    @property
    def taken(self) -> list[Took]:
        """The calls of `handle`."""
        return [entry for entry in self.entries if isinstance(entry, Took)]

    @property
    def events(self) -> list[Event]:
        """The events that were handled."""
        return [entry.event for entry in self.taken]

    @property
    def given(self) -> list[Effect]:
        """The effects that the machine gave, in order."""
        gave = (entry for entry in self.entries if isinstance(entry, Gave))
        return [effect for entry in gave for effect in entry.effects]

    @property
    def begun(self) -> list[Effect]:
        """The effects that the driver began, in order."""
        return [entry.effect for entry in self.entries if isinstance(entry, Began)]

    @property
    def times_ms(self) -> list[int]:
        """The times that the machine was told."""
        return [entry.now_ms for entry in self.entries if isinstance(entry, Took | DueAsked)]

    @property
    def raised(self) -> Raised | None:
        """The first error that came out of the machine."""
        return next((entry for entry in self.entries if isinstance(entry, Raised)), None)


class Watched(Machine[Any, Any]):
    """A machine whose every use is written into a journal."""

    actions = Actions[Any, Any]()
    __slots__ = ("_depth", "_inner", "_journal")

    def __init__(self, inner: Machine[Any, Any], journal: Journal) -> None:
        super().__init__(inner.state, inner.rules, inner.trace)
        self._inner = inner
        self._journal = journal
        self._depth = 0

    def handle(self, event: Event, now_ms: int) -> Effects:
        """Take one event, and write down what comes of it."""
        self._journal.write(Took(event, now_ms, self._depth > 0))
        self._inner.trace = self.trace
        self._depth += 1
        try:
            effects = self._inner.handle(event, now_ms)
        except (InvariantViolation, TypeError, ValueError) as error:
            self._journal.write(Raised(event, error))
            raise
        finally:
            self._depth -= 1
        self.state = self._inner.state
        self._journal.write(Gave(effects))
        return effects

    def next_deadline(self) -> int | None:
        """Tell when something is due next."""
        self._journal.write(DeadlineAsked())
        return self._inner.next_deadline()

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now."""
        self._journal.write(DueAsked(now_ms))
        return self._inner.due(now_ms)
