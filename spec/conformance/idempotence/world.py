"""A state of the explored world: clients, the leader and its log, messages, budgets, history."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from protocol.idempotence import ClientState, LogBatch, SequencesState, Snapshot
from protocol.idempotence.fold import NO_SNAPSHOT
from protocol.idempotence.state import UNKNOWN_OFFSET
from protocol.types import Correlation


class Request(NamedTuple):
    """A batch on its way to the leader; `late`: its client waits for the answer no more."""

    producer: int
    epoch: int
    sequence: int
    batch: int
    late: bool = False


class Answer(NamedTuple):
    """An answer on its way to a client; `result` is in the words of the spec."""

    producer: int
    batch: int
    result: str
    offset: int = -1


Message: TypeAlias = Request | Answer


class Sender(NamedTuple):
    """Who sent a request: the correlation by which the leader's answer finds back."""

    producer: int
    batch: int
    late: bool = False


def sender(correlation: Correlation) -> Sender:
    """Read a correlation; every one in this world is a sender."""
    if not isinstance(correlation, Sender):
        raise TypeError(f"{correlation!r} was not sent by a client of this world")
    return correlation


def number_of(batch: Correlation) -> int:
    """Read a client's name for a batch; in this world they are numbered."""
    if not isinstance(batch, int):
        raise TypeError(f"{batch!r} is no batch of this world")
    return batch


class Known(NamedTuple):
    """A batch and its offset: one that waits to be committed, or one that was acknowledged.

    Who waits with the `result` "duplicate" waits for an offset after that of its batch.
    """

    producer: int
    batch: int
    offset: int
    result: str = "ok"


class Written(NamedTuple):
    """An entry of the spec's log."""

    producer: int
    epoch: int
    sequence: int
    batch: int


@attrs.frozen(cache_hash=True)
class Client:
    """A client: its machine's state, and how many batches it has sent."""

    state: ClientState
    sent: int = 0


@attrs.frozen(cache_hash=True)
class Leader:
    """Whoever leads: its machine's state, its log, and who waits for a first append's commit.

    In a broker these wait in the `Replica`; who repeats a batch waits in `Sequences` itself.
    """

    state: SequencesState
    log: tuple[Written, ...] = ()
    waiting: frozenset[Known] = frozenset()

    @property
    def all_waiting(self) -> frozenset[Known]:
        """Mirrors `waiting`: all who wait for the commit of their batch."""
        repeated = []
        for each in self.state.parked:
            who = sender(each.waiting.correlation)
            if each.base_offset == UNKNOWN_OFFSET:
                until = each.end_offset - 1
                repeated.append(Known(who.producer, who.batch, until, "duplicate"))
            else:
                repeated.append(Known(who.producer, who.batch, each.base_offset))
        return self.waiting.union(repeated)

    def batches(self, end: int | None = None) -> tuple[LogBatch, ...]:
        """Give the log as a fold reads it, up to this end."""
        return tuple(
            LogBatch(each.producer, each.epoch, each.sequence, each.sequence, offset)
            for offset, each in enumerate(self.log[:end])
        )


@attrs.frozen
class Used:
    """Mirrors `used`: budgets."""

    faults: int = 0
    delays: int = 0
    snapshots: int = 0


_UNUSED = Used()


@attrs.frozen(cache_hash=True)
class World:
    """A state. Producer number i is `clients[i - 1]`; the last three are history, as there."""

    clients: tuple[Client, ...]
    leader: Leader
    messages: frozenset[Message] = frozenset()
    snapshot: Snapshot = NO_SNAPSHOT
    used: Used = _UNUSED
    acked: frozenset[Known] = frozenset()
    forgotten: frozenset[int] = frozenset()
    gave_up: frozenset[int] = frozenset()

    def client(self, producer: int) -> Client:
        """Find a client by its number."""
        return self.clients[producer - 1]

    def requests(self, producer: int) -> list[Request]:
        """List what is on its way from a client, in some fixed order."""
        return sorted(m for m in self.messages if isinstance(m, Request) and m.producer == producer)

    def answers(self, producer: int) -> list[Answer]:
        """List what is on its way to a client, in some fixed order."""
        return sorted(m for m in self.messages if isinstance(m, Answer) and m.producer == producer)

    def is_under_way(self, producer: int, batch: int) -> bool:
        """Whether the answer to a batch will come if nothing disturbs."""
        return (
            any(m.batch == batch and not m.late for m in self.requests(producer))
            or any(m.batch == batch for m in self.answers(producer))
            or any(
                (each.producer, each.batch) == (producer, batch) for each in self.leader.all_waiting
            )
        )
