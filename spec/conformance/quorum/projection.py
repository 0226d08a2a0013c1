"""From a state of the explored quorum to the spec's: each variable as the TLA+ value it mirrors.

What is left out is listed in the docstring of `protocol.quorum`.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from protocol.quorum import NOBODY, Candidate, Leader, Prospective, QuorumState
from protocol.quorum.state import Role
from protocol.types import Epoch, NodeId, Offset
from spec.conformance.projecting import Part, Values
from spec.conformance.quorum.constants import Constants
from spec.conformance.quorum.node import Entry
from spec.conformance.quorum.world import Message, Snapshot, Used, Vote, World
from spec.runner import Function, ModelValue, Value

Remote = tuple[tuple[NodeId, Offset], ...]


class Projection:
    """Projects states; values that repeat are made once."""

    def __init__(self, constants: Constants) -> None:
        self._nodes = constants.nodes
        self._none = constants.none
        self._values = Values()

    def __call__(self, world: World) -> dict[str, Value]:
        """Give the spec's state that this one stands for."""
        states = tuple(node.state for node in world.nodes)
        parts: tuple[Part, ...] = (
            ("epoch", tuple(state.epoch for state in states), self._each),
            ("voted", tuple(state.voted for state in states), self._each_name),
            ("disk", tuple(node.disk for node in world.nodes), self._disks),
            ("role", tuple(type(state.role).__name__.lower() for state in states), self._each),
            ("leader", tuple(state.leader for state in states), self._each_name),
            ("votes", tuple(_votes(state.role) for state in states), self._votes),
            ("log", tuple(node.entries for node in world.nodes), self._logs),
            ("start", tuple(state.log.start_offset for state in states), self._each),
            ("hw", tuple(state.high_watermark for state in states), self._each),
            ("remote", tuple(map(_remote, states)), self._remotes),
            ("msgs", world.messages, self._messages),
            ("cut", world.cut, self._names),
            ("used", world.used, _used),
            ("committed", world.committed, _entries),
            ("elected", world.elected, self._elected),
            ("cast", world.cast, self._cast),
            ("disturbed", world.disturbed, self._names),
        )
        return self._values(parts)

    def _name(self, number: NodeId) -> ModelValue:
        return self._none if number == NOBODY else self._nodes[number - 1]

    def _names(self, numbers: Iterable[NodeId]) -> frozenset[Value]:
        return frozenset(map(self._name, numbers))

    def _each(self, values: Iterable[Value]) -> Function:
        return Function(dict(zip(self._nodes, values, strict=True)))

    def _each_name(self, numbers: Iterable[NodeId]) -> Function:
        return self._each(map(self._name, numbers))

    def _disks(self, disks: Iterable[tuple[Epoch, NodeId]]) -> Function:
        return self._each(
            Function({"epoch": epoch, "voted": self._name(voted)}) for epoch, voted in disks
        )

    def _votes(self, votes: Iterable[frozenset[NodeId]]) -> Function:
        return self._each(map(self._names, votes))

    def _logs(self, logs: Iterable[tuple[Entry, ...]]) -> Function:
        return self._each(map(_entries, logs))

    def _remotes(self, known: Iterable[Remote]) -> Function:
        return self._each(map(self._remote, known))

    def _remote(self, known: Remote) -> Function:
        table: dict[ModelValue, Value] = dict.fromkeys(self._nodes, 0)
        table.update({self._name(node): end_offset for node, end_offset in known})
        return Function(table)

    def _elected(self, elected: Iterable[tuple[Epoch, NodeId]]) -> frozenset[Value]:
        return frozenset((epoch, self._name(node)) for epoch, node in elected)

    def _cast(self, cast: Iterable[tuple[NodeId, Epoch, NodeId]]) -> frozenset[Value]:
        return frozenset(
            (self._name(voter), epoch, self._name(candidate)) for voter, epoch, candidate in cast
        )

    def _messages(self, messages: Iterable[Message]) -> frozenset[Value]:
        return frozenset(map(self._message, messages))

    def _message(self, message: Message) -> Function:
        common: dict[str, Value] = {"to": self._name(message.to), "epoch": message.epoch}
        if isinstance(message, Vote):
            return Function({"type": "vote", "from": self._name(message.sender), **common})
        if isinstance(message, Snapshot):
            return Function({"type": "snapshot", **common, "entries": _entries(message.entries)})
        common = {"type": "answer", **common, "diverges": message.end is not None}
        if message.end is not None:
            end = Function({"epoch": message.end.epoch, "offset": message.end.offset})
            return Function({**common, "end": end})
        entries = _entries(message.entries)
        return Function({**common, "hw": message.high_watermark, "entries": entries})


def _votes(role: Role) -> frozenset[NodeId]:
    return role.votes if isinstance(role, Prospective | Candidate) else frozenset()


def _remote(state: QuorumState) -> Remote:
    if not isinstance(state.role, Leader):
        return ()
    return tuple((each.node, each.end_offset) for each in state.role.followers)


def _entries(entries: Iterable[Entry]) -> tuple[Value, ...]:
    return tuple(Function({"epoch": epoch, "id": record}) for epoch, record in entries)


def _used(used: Used) -> Function:
    return Function(attrs.asdict(used))
