"""From a state of the explored world to the spec's: each variable as the TLA+ value it mirrors.

What is left out is listed in the docstring of `protocol.idempotence`.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.idempotence import Entries, Snapshot
from protocol.idempotence.fold import NO_EPOCH
from spec.conformance.idempotence.constants import Constants
from spec.conformance.idempotence.world import (
    Client,
    Known,
    Message,
    Request,
    Used,
    World,
    Written,
    number_of,
)
from spec.conformance.projecting import Part, Values
from spec.runner import Function, ModelValue, Value


class Projection:
    """Projects states; values that repeat are made once."""

    def __init__(self, constants: Constants) -> None:
        self._producers = constants.producers
        self._values = Values()

    def __call__(self, world: World) -> dict[str, Value]:
        """Give the spec's state that this one stands for."""
        leader = world.leader
        parts: tuple[Part, ...] = (
            ("client", world.clients, self._clients),
            ("msgs", world.messages, self._messages),
            ("log", leader.log, self._log),
            ("hw", leader.state.high_watermark, lambda hw: hw),
            ("pstate", leader.state.entries, self._entries),
            ("waiting", leader.all_waiting, self._waiting),
            ("snap", world.snapshot, self._snapshot),
            ("used", world.used, _used),
            ("acked", world.acked, self._known),
            ("forgotten", world.forgotten, self._names),
            ("gaveUp", world.gave_up, self._names),
        )
        return self._values(parts)

    def _name(self, number: int) -> ModelValue:
        return self._producers[number - 1]

    def _names(self, numbers: Iterable[int]) -> frozenset[Value]:
        return frozenset(map(self._name, numbers))

    def _each(self, values: Iterable[Value]) -> Function:
        return Function(dict(zip(self._producers, values, strict=True)))

    def _clients(self, clients: tuple[Client, ...]) -> Function:
        return self._each(map(_client, clients))

    def _messages(self, messages: frozenset[Message]) -> frozenset[Value]:
        return frozenset(map(self._message, messages))

    def _message(self, message: Message) -> Function:
        if isinstance(message, Request):
            return Function(
                {
                    "type": "request",
                    "producer": self._name(message.producer),
                    "epoch": message.epoch,
                    "seq": message.sequence,
                    "id": message.batch,
                    "late": message.late,
                }
            )
        return Function(
            {
                "type": "answer",
                "producer": self._name(message.producer),
                "id": message.batch,
                "result": message.result,
                "offset": message.offset,
            }
        )

    def _log(self, log: tuple[Written, ...]) -> tuple[Value, ...]:
        return tuple(
            Function(
                {
                    "producer": self._name(each.producer),
                    "epoch": each.epoch,
                    "seq": each.sequence,
                    "id": each.batch,
                }
            )
            for each in log
        )

    def _entries(self, entries: Entries) -> Function:
        numbers = range(1, len(self._producers) + 1)
        return self._each(_entry(entries, number) for number in numbers)

    def _snapshot(self, snapshot: Snapshot) -> Function:
        return Function({"offset": snapshot.offset, "entries": self._entries(snapshot.entries)})

    def _waiting(self, waiting: frozenset[Known]) -> frozenset[Value]:
        return frozenset(
            Function(
                {
                    "producer": self._name(each.producer),
                    "id": each.batch,
                    "offset": each.offset,
                    "result": each.result,
                }
            )
            for each in waiting
        )

    def _known(self, known: frozenset[Known]) -> frozenset[Value]:
        return frozenset(
            Function(
                {
                    "producer": self._name(each.producer),
                    "id": each.batch,
                    "offset": each.offset,
                }
            )
            for each in known
        )


def _client(client: Client) -> Function:
    state = client.state
    in_flight = tuple(
        Function(
            {
                "id": number_of(each.batch),
                "seq": each.first_sequence,
                "state": each.standing.value,
                "first": each.first,
                "loose": each.loose,
            }
        )
        for each in state.in_flight
    )
    return Function(
        {
            "epoch": state.epoch,
            "next": state.next_sequence,
            "sent": client.sent,
            "inflight": in_flight,
            "bump": state.bump,
        }
    )


def _entry(entries: Entries, number: int) -> Function:
    entry = entries.get(number)
    if entry is None:
        return Function({"epoch": NO_EPOCH, "batches": ()})
    batches = tuple(
        Function({"seq": each.first_sequence, "offset": each.base_offset}) for each in entry.batches
    )
    return Function({"epoch": entry.epoch, "batches": batches})


def _used(used: Used) -> Function:
    return Function({"faults": used.faults, "delays": used.delays, "snapshots": used.snapshots})
