"""What every machine is: a frozen state, a table of actions, and one way in and out.

An **event** is something that happened. An **action** is a pure function
`(rules, state, event, now_ms) -> (state, effects)`, registered for one type of event under the name
of the TLA+ action that it mirrors. An **effect** is something for the driver to do.

The contract with a driver, which `protocol.testing` checks:

1. Events are handled one at a time, and their effects are begun once each, in the order in which
   they are given, before those of the next event. An event that comes meanwhile waits its turn. To
   begin is enough: a driver need not wait until a message has arrived or a disk has written.
2. Writes (`Append`, `Truncate`, ...) of one machine are carried out in the order given, each is
   answered by one completion event, and the completions come in that order too. A write that
   fails is answered by the failure (`StorageFailed`; a controller's `Resigned`), and nothing after
   it is. Only a replica's appends may fail for want of room: one `AppendsRefused` then answers all
   that are in flight, none of which is in the log. A reply that depends on a write is only ever an
   effect of its completion, so a driver need not hold one back. What storage may do when it likes
   (`DeleteBefore`, `ForgetLog`) is no write.
3. `next_deadline()` is asked at the start and after each event. When that time has come, and it may
   lie in the past, `due(now_ms)` names what is due, and each of these events is handled like any
   other. A due event that is no longer due when its turn comes changes nothing.
4. `now_ms` is the driver's clock when the event is handled. It never goes back.
5. After an `InvariantViolation` the machine is not used again, and not asked for deadlines either;
   its state is the one before. A `RemoteProtocolError` changes nothing: the sender's connection
   ends, and the machine goes on.

Nothing here knows what any event means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import attrs


class Event:
    """Something that happened: a message arrived, a write is done, a time has come."""

    __slots__ = ()


class Effect:
    """Something to do: write, send, answer."""

    __slots__ = ()


S = TypeVar("S")
R = TypeVar("R")
E = TypeVar("E", bound=Event)
Effects: TypeAlias = tuple[Effect, ...]
NOTHING: Effects = ()


@attrs.frozen
class Action:
    """An action under its name; `mirrors` are the actions of the spec that it can be a step of.

    It is empty for an action that the spec does not have, because nothing changes there.
    """

    name: str
    mirrors: tuple[str, ...]
    event: type[Event]
    run: Callable[[Any, Any, Any, int], tuple[Any, Effects]]


class Actions(Generic[S, R]):
    """The table of a machine's actions, filled by using it as a decorator."""

    def __init__(self) -> None:
        self._by_event: dict[type[Event], Action] = {}

    def __call__(
        self, name: str, event: type[E], *, mirrors: tuple[str, ...] | None = None
    ) -> Callable[
        [Callable[[R, S, E, int], tuple[S, Effects]]], Callable[[R, S, E, int], tuple[S, Effects]]
    ]:
        """Register the decorated function; it mirrors the spec's action of that name by default."""

        def register(
            function: Callable[[R, S, E, int], tuple[S, Effects]],
        ) -> Callable[[R, S, E, int], tuple[S, Effects]]:
            if event in self._by_event:
                raise ValueError(f"{event.__name__} has an action already")
            spec = (name,) if mirrors is None else mirrors
            self._by_event[event] = Action(name, spec, event, function)
            return function

        return register

    def __iter__(self) -> Iterator[Action]:
        return iter(self._by_event.values())

    @property
    def by_event(self) -> Mapping[type[Event], Action]:
        """The table itself, for looking up an event's type."""
        return self._by_event


@attrs.frozen
class Handled(Generic[S]):
    """What the trace hook is told about one event that was handled."""

    action: Action
    event: Event
    before: S
    after: S
    effects: Effects
    now_ms: int


class Machine(ABC, Generic[S, R]):
    """A state, the rules it lives by, and `handle`; a subclass brings the table of actions."""

    actions: ClassVar[Actions[Any, Any]]

    __slots__ = ("_table", "rules", "state", "trace")

    def __init__(
        self, state: S, rules: R, trace: Callable[[Handled[S]], None] | None = None
    ) -> None:
        self.state = state
        self.rules = rules
        self.trace = trace
        self._table = self.actions.by_event

    def handle(self, event: Event, now_ms: int) -> Effects:
        """Take one event; give what is to be done about it, in order."""
        action = self._table.get(type(event))
        if action is None:
            raise TypeError(f"{type(self).__name__} knows no event {type(event).__name__}")
        self.admit(event)
        before = self.state
        after, effects = action.run(self.rules, before, event, now_ms)
        if after is not before:
            self.check(event, before, after)
            self.state = after
        if self.trace is not None:
            self.trace(Handled(action, event, before, after, effects, now_ms))
        return effects

    def admit(self, event: Event) -> None:
        """Raise `RemoteProtocolError` for what no correct peer sends, before anything happens."""

    def check(self, event: Event, before: S, after: S) -> None:
        """Raise `InvariantViolation` if this step must not happen; every machine has its own."""

    @abstractmethod
    def next_deadline(self) -> int | None:
        """Tell when something is due next, if nothing happens before; None for never."""

    @abstractmethod
    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now: events for `handle`, in this order."""
