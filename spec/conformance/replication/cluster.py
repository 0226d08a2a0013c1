"""A state of the explored cluster: brokers, decisions, messages in flight, budgets, history."""

from __future__ import annotations

import attrs

from spec.conformance.replication.controller import Decided
from spec.conformance.replication.messages import Answer, Message
from spec.conformance.replication.node import Entry, Node


@attrs.frozen
class Used:
    """Mirrors `used`: budgets."""

    records: int = 0
    shrinks: int = 0
    faults: int = 0
    delays: int = 0


_UNUSED = Used()


@attrs.frozen(cache_hash=True)
class Cluster:
    """A state. Broker number i is `nodes[i - 1]`; `committed` and `acked` are history, as there."""

    nodes: tuple[Node, ...]
    decided: Decided
    messages: frozenset[Message] = frozenset()
    used: Used = _UNUSED
    committed: tuple[Entry, ...] = ()
    acked: frozenset[int] = frozenset()

    def node(self, number: int) -> Node:
        """Find a broker by its number."""
        return self.nodes[number - 1]

    def answers_to(self, number: int) -> list[Answer]:
        """List the answers on their way to a broker."""
        return [m for m in self.messages if isinstance(m, Answer) and m.to == number]
