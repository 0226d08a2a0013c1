"""A state of the explored quorum: nodes, messages in flight, who is cut off, budgets, history."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.replication.log import EpochEnd
from protocol.types import Epoch, NodeId, Offset
from spec.conformance.quorum.node import Entry, Node


@attrs.frozen(cache_hash=True)
class Vote:
    """A vote on its way to its candidate."""

    sender: NodeId
    to: NodeId
    epoch: Epoch


@attrs.frozen(cache_hash=True)
class Answer:
    """The answer to a fetch; `offset` and `last_epoch` are those of the fetch."""

    to: NodeId
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    end: EpochEnd | None = None
    high_watermark: Offset = 0
    entries: tuple[Entry, ...] = ()


@attrs.frozen(cache_hash=True)
class Snapshot:
    """A snapshot on its way: all that it stands for."""

    to: NodeId
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch
    entries: tuple[Entry, ...] = ()


Message: TypeAlias = Vote | Answer | Snapshot


@attrs.frozen
class Used:
    """Mirrors `used`: budgets."""

    records: int = 0
    timeouts: int = 0
    contests: int = 0
    restarts: int = 0
    cuts: int = 0
    snapshots: int = 0
    delays: int = 0


@attrs.frozen(cache_hash=True)
class World:
    """A state. Node number i is `nodes[i - 1]`; the last four are history, as in the spec."""

    nodes: tuple[Node, ...]
    messages: frozenset[Message] = frozenset()
    cut: frozenset[NodeId] = frozenset()
    used: Used = Used()
    committed: tuple[Entry, ...] = ()
    elected: frozenset[tuple[Epoch, NodeId]] = frozenset()
    cast: frozenset[tuple[NodeId, Epoch, NodeId]] = frozenset()
    disturbed: frozenset[NodeId] = frozenset()

    def node(self, number: NodeId) -> Node:
        """Find a node by its number."""
        return self.nodes[number - 1]

    def connected(self, one: NodeId, other: NodeId) -> bool:
        """Whether these two can talk."""
        return one not in self.cut and other not in self.cut

    def votes_for(self, number: NodeId) -> list[Vote]:
        """List the votes on their way to a candidate."""
        return [m for m in self.messages if isinstance(m, Vote) and m.to == number]

    def answers_to(self, number: NodeId) -> list[Answer | Snapshot]:
        """List the answers on their way to a node."""
        return [m for m in self.messages if not isinstance(m, Vote) and m.to == number]
