"""The words in which the suite speaks to a driver: events and effects that a real machine has.

What they mean plays no part; but they make sense one after the other, so that a driver can really
carry them out.
"""

from __future__ import annotations

import attrs

from protocol import controller
from protocol.controller.records import UnregisterBrokerRecord
from protocol.machine import Effect, Event
from protocol.replication import effects, events


@attrs.frozen
class Vocabulary:
    """Things that happen, answers to give, writes with their completions, what becomes due.

    Each is different from all others of its kind. `failures` are the events that may tell a machine
    that a write has failed.
    """

    events: tuple[Event, ...]
    replies: tuple[Effect, ...]
    writes: tuple[tuple[Effect, Event], ...]
    due: tuple[Event, ...]
    failures: tuple[type[Event], ...]

    @property
    def completions(self) -> tuple[Event, ...]:
        """The completions of the writes, in order."""
        return tuple(completion for _, completion in self.writes)

    def kinds(self) -> frozenset[type[Event]]:
        """Return every type of event that there is."""
        spoken = (*self.events, *self.due, *self.completions)
        return frozenset([*map(type, spoken), *self.failures])


REPLICATION = Vocabulary(
    events=tuple(events.OffsetAsked(f"client {n}", n) for n in range(4)),
    replies=tuple(effects.SendOffset(f"client {n}", n, 1) for n in range(8)),
    # Appends and cuts, so that neither kind overtakes the other.
    writes=(
        (effects.Append(0, 1, 1, b"a"), events.Appended(1)),
        (effects.Append(1, 3, 1, b"bc"), events.Appended(3)),
        (effects.Truncate(2), events.Truncated(2)),
        (effects.Append(2, 5, 2, b"def"), events.Appended(5)),
        (effects.Reset(7), events.Truncated(7)),
        (effects.Append(7, 8, 3, b"g"), events.Appended(8)),
    ),
    due=(events.ProducersExpired(), events.FetchesExpired(), events.FetchDue()),
    failures=(events.StorageFailed,),
)

CONTROLLER = Vocabulary(
    events=tuple(controller.Unregister(f"client {n}", n) for n in range(4)),
    replies=tuple(controller.Reply(f"client {n}", n) for n in range(8)),
    writes=tuple(
        (
            controller.AppendRecords(n, (UnregisterBrokerRecord(n),)),
            controller.RecordsCommitted(n + 1),
        )
        for n in range(6)
    ),
    due=tuple(controller.SessionExpired(n) for n in range(3)),
    # What a controller cannot write, another one has to.
    failures=(controller.Resigned,),
)
