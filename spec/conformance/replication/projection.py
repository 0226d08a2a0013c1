"""From a state of the explored cluster to the spec's: each variable as the TLA+ value it mirrors.

What is left out is listed in the docstrings of `protocol.replication` and `protocol.controller`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.controller.state import Partition
from protocol.replication import Leader, ReplicaState, View
from protocol.types import NO_LEADER
from spec.conformance.projecting import Part, Values
from spec.conformance.replication.cluster import Cluster, Used
from spec.conformance.replication.constants import Constants
from spec.conformance.replication.messages import Answer, LateRequest, Message
from spec.conformance.replication.node import Entry
from spec.runner import Function, ModelValue, Value


class Projection:
    """Projects states; values that repeat are made once."""

    def __init__(self, constants: Constants) -> None:
        self._replicas = constants.replicas
        self._none = constants.none
        self._values = Values()

    def __call__(self, cluster: Cluster) -> dict[str, Value]:
        """Give the spec's state that this one stands for."""
        states = tuple(node.state for node in cluster.nodes)
        brokers = cluster.decided.image.brokers
        parts: tuple[Part, ...] = (
            ("log", tuple(node.entries for node in cluster.nodes), self._logs),
            ("hw", tuple(state.high_watermark for state in states), self._each),
            ("view", tuple(state.view for state in states), self._views),
            ("remote", tuple(map(_known, states)), self._remotes),
            ("ctl", cluster.decided.partition, self._record),
            ("broker", brokers, self._brokers),
            ("msgs", cluster.messages, self._messages),
            ("used", cluster.used, _used),
            ("committed", cluster.committed, _entries),
            ("acked", cluster.acked, lambda acked: acked),
        )
        return self._values(parts)

    def _name(self, number: int) -> ModelValue:
        return self._none if number == NO_LEADER else self._replicas[number - 1]

    def _names(self, numbers: Iterable[int]) -> frozenset[Value]:
        return frozenset(self._name(number) for number in numbers)

    def _each(self, values: Iterable[Value]) -> Function:
        return Function(dict(zip(self._replicas, values, strict=True)))

    def _logs(self, logs: tuple[tuple[Entry, ...], ...]) -> Function:
        return self._each(map(_entries, logs))

    def _views(self, views: tuple[View, ...]) -> Function:
        return self._each(map(self._view, views))

    def _view(self, view: View) -> Function:
        return Function(
            {
                "leader": self._name(view.leader),
                "epoch": view.epoch,
                "version": view.version,
                "isr": self._names(view.isr),
                "pending": self._names(view.pending),
                "joiner": view.joiner,
            }
        )

    def _remotes(self, known: tuple[tuple[tuple[int, int, int], ...], ...]) -> Function:
        return self._each(map(self._remote, known))

    def _remote(self, known: tuple[tuple[int, int, int], ...]) -> Function:
        table: dict[ModelValue, Value] = {
            name: Function({"endOffset": 0, "brokerEpoch": 0}) for name in self._replicas
        }
        for node, end_offset, broker_epoch in known:
            progress = {"endOffset": end_offset, "brokerEpoch": broker_epoch}
            table[self._name(node)] = Function(progress)
        return Function(table)

    def _record(self, partition: Partition) -> Function:
        return Function(
            {
                "leader": self._name(partition.leader),
                "epoch": partition.leader_epoch,
                "version": partition.version,
                "isr": self._names(partition.isr),
                "elr": self._names(partition.elr),
            }
        )

    def _brokers(self, brokers: Any) -> Function:
        numbers = range(1, len(self._replicas) + 1)
        return self._each(
            Function({"epoch": brokers[number].epoch, "fenced": brokers[number].fenced})
            for number in numbers
        )

    def _messages(self, messages: frozenset[Message]) -> frozenset[Value]:
        return frozenset(map(self._message, messages))

    def _message(self, message: Message) -> Function:
        if isinstance(message, Answer):
            return self._answer(message)
        if isinstance(message, LateRequest):
            return self._request(message)
        return Function(
            {
                "type": "proposal",
                "from": self._name(message.sender),
                "version": message.proposal.version,
                "isr": self._names(message.proposal.isr),
                "joiner": message.proposal.joiner,
            }
        )

    def _request(self, late: LateRequest) -> Function:
        request = late.request
        return Function(
            {
                "type": "request",
                "from": self._name(late.sender),
                "to": self._name(request.leader),
                "epoch": request.leader_epoch,
                "offset": request.offset,
                "lastEpoch": request.last_epoch,
                "hw": request.high_watermark,
                "brokerEpoch": request.broker_epoch,
            }
        )

    def _answer(self, answer: Answer) -> Function:
        common: dict[str, Value] = {
            "type": "answer",
            "to": self._name(answer.to),
            "epoch": answer.epoch,
            "diverges": answer.end is not None,
        }
        if answer.end is not None:
            end = Function({"epoch": answer.end.epoch, "offset": answer.end.offset})
            return Function({**common, "end": end})
        entries = _entries(answer.entries)
        return Function({**common, "hw": answer.high_watermark, "entries": entries})


def _known(state: ReplicaState) -> tuple[tuple[int, int, int], ...]:
    leader = state.role
    if not isinstance(leader, Leader):
        return ()
    return tuple((each.node, each.end_offset, each.broker_epoch) for each in leader.followers)


def _entries(entries: tuple[Entry, ...]) -> tuple[Value, ...]:
    return tuple(Function({"epoch": epoch, "id": record}) for epoch, record in entries)


def _used(used: Used) -> Function:
    return Function(
        {
            "records": used.records,
            "shrinks": used.shrinks,
            "faults": used.faults,
            "delays": used.delays,
        }
    )
