"""Where replicas go when nobody says: the same answer for the same image, and an even one.

Brokers that have the fewest replicas come first, on racks that the partition is not on yet if there
are any. Among equals the first moves on with each partition, so that many small topics do not all
begin with the same broker. It looks at counts alone, not at sizes or traffic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from protocol.controller.state import EMPTY, Image
from protocol.types import NodeId


class Placer:
    """Places partitions one after the other, counting those it has placed. Lives in one action."""

    __slots__ = ("_brokers", "_leading", "_load", "_racks", "_rank", "_turn")

    def __init__(self, image: Image) -> None:
        self._brokers = tuple(
            node
            for node, broker in sorted(image.brokers.items())
            if image.is_available(node) and not broker.decommissioning
        )
        self._racks = {node: broker.rack for node, broker in image.brokers.items() if broker.rack}
        self._load = {node: len(image.assigned.get(node, EMPTY)) for node in self._brokers}
        self._leading = dict.fromkeys(self._brokers, 0)
        self._rank = {node: rank for rank, node in enumerate(self._brokers)}
        self._turn = len(image.partitions)

    @property
    def brokers(self) -> Collection[NodeId]:
        """The brokers that can be given a replica."""
        return self._brokers

    def place(self, replication_factor: int) -> tuple[NodeId, ...]:
        """Return the replicas of one more partition; there must be that many brokers."""
        chosen: list[NodeId] = []
        for _ in range(replication_factor):
            chosen.append(self.another(chosen))
        # Who leads: the one of them that was made to lead least often.
        chosen.sort(key=lambda node: (self._leading[node], self._place_in_turn(node)))
        self._leading[chosen[0]] += 1
        self._turn += 1
        return tuple(chosen)

    def another(self, taken: Iterable[NodeId]) -> NodeId:
        """Return one more replica for a partition that has `taken`, and count it."""
        taken = frozenset(taken)
        racks = {self._racks[node] for node in taken if node in self._racks}
        node = min(
            (node for node in self._brokers if node not in taken),
            key=lambda node: (
                self._racks.get(node) in racks,
                self._load[node],
                self._place_in_turn(node),
            ),
        )
        self._load[node] += 1
        return node

    def _place_in_turn(self, node: NodeId) -> int:
        return (self._rank[node] - self._turn) % len(self._brokers)
