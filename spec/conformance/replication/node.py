"""One broker of the explored cluster: its replica, and a log in memory that is written at once.

The spec's step is over when storage has answered, so `handle` carries out the writes that an event
asks for and hands the completions back, until only effects for others are left. A follower's next
fetch is sent at once too: in the spec it is derived from the follower's state.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.machine import Effect, Event
from protocol.replication import Log, Replica, ReplicaConfig, ReplicaState, Rules
from protocol.replication.effects import Append, Refuse, SendFetch, SendProposal, Truncate
from protocol.replication.events import Appended, FetchDue, Truncated
from protocol.replication.log import appended
from protocol.types import Epoch

NOW_MS = 0
# Late enough for every timer: in the spec, what may happen in time may happen at any time.
FOREVER_MS = 1 << 40
_FETCH_DUE = FetchDue()

Entry: TypeAlias = tuple[Epoch, int]
"""An entry of the spec's log: its epoch and the id of its record."""


class LenientReplica(Replica):
    """The same machine, but it goes on where a broker would stop.

    For clusters with a wrong rule: the explorer looks for itself what is broken.
    """

    __slots__ = ()

    def admit(self, event: Event) -> None:
        """Take what another machine with a wrong rule sends."""

    def check(self, event: Event, before: ReplicaState, after: ReplicaState) -> None:
        """Leave the judgement to the properties that are explored."""


@attrs.frozen(cache_hash=True)
class Node:
    """A broker: its replica's state, its log's entries, and what it has asked for."""

    state: ReplicaState
    entries: tuple[Entry, ...] = ()
    request: SendFetch | None = None
    proposal: SendProposal | None = None


@attrs.frozen
class Reaction:
    """What came of an event: the broker after it, and the effects that concern others."""

    node: Node
    effects: tuple[Effect, ...]

    @property
    def refused(self) -> bool:
        """Whether the event was a request, and was refused."""
        return any(isinstance(effect, Refuse) for effect in self.effects)


def started(
    node: int, broker_epoch: int, entries: tuple[Entry, ...], hw: int, min_isr: int
) -> Node:
    """Make a broker that has just started with this log."""
    log = Log()
    for number, (epoch, _) in enumerate(entries, start=1):
        log = appended(log, epoch, number)
    config = ReplicaConfig(min_isr=min_isr)
    replica = Replica.restarted(node, broker_epoch, log=log, high_watermark=hw, config=config)
    return Node(replica.state, entries)


def handle(
    rules: Rules, node: Node, event: Event, now_ms: int = NOW_MS, *, lenient: bool = False
) -> Reaction:
    """Let a broker handle an event, and storage do at once what it asks for."""
    replica = (LenientReplica if lenient else Replica)(node.state, rules)
    entries, request, proposal = node.entries, node.request, node.proposal
    others: list[Effect] = []
    todo = list(replica.handle(event, now_ms))
    while todo or (todo := _next_fetch(replica)):
        effect = todo.pop(0)
        if isinstance(effect, Append):
            entries = (*entries, *_written(effect))
            todo += replica.handle(Appended(effect.end_offset), now_ms)
        elif isinstance(effect, Truncate):
            entries = entries[: effect.end_offset]
            todo += replica.handle(Truncated(effect.end_offset), now_ms)
        elif isinstance(effect, SendFetch):
            request = effect
        elif isinstance(effect, SendProposal):
            proposal = effect
        else:
            others.append(effect)
    view = replica.state.view
    follows = view.leader not in (-1, replica.state.node)
    after = Node(
        replica.state,
        entries,
        request if follows else None,
        proposal if view.pending else None,
    )
    return Reaction(node if after == node else after, tuple(others))


def _next_fetch(replica: Replica) -> list[Effect]:
    """Let a follower ask, if it has nothing else to do."""
    if _FETCH_DUE not in replica.due(NOW_MS):
        return []
    return list(replica.handle(_FETCH_DUE, NOW_MS))


def _written(append: Append) -> tuple[Entry, ...]:
    """Give the entries of a batch: a producer's gets its epoch here, fetched ones have theirs."""
    payload = append.payload
    if not isinstance(payload, tuple):
        raise TypeError(f"{payload!r} is not a batch of this cluster")
    if append.epoch:
        return tuple((append.epoch, record) for record in payload)
    return payload
