"""Lines of a trace for the controller's decisions, in the words of `spec/Replication.tla`.

The counterpart of `protocol.replication.trace`, which says what a trace is. A decision has one line
for each partition that it concerns, and a line for a partition is a step of that partition's spec.

A broker that is shutting down counts as fenced, for it may neither lead nor join. Decisions that
the spec does not have, such as a reassignment or another min ISR, are written down by the name of
their action, so that whoever reads the trace knows where it stops to be one of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.controller.effects import AppendRecords, Refuse
from protocol.controller.elections import touched
from protocol.controller.events import (
    AlterPartition,
    CreatePartitions,
    CreateTopics,
    ElectLeaders,
    Heartbeat,
    LeaderlessDue,
    RegisterBroker,
    SessionExpired,
    UncleanDue,
)
from protocol.controller.state import ControllerState, Image, Key, Partition
from protocol.machine import Handled
from protocol.replication.trace import FORMAT, Line, Step
from protocol.types import NodeId

CONTROLLER: NodeId = -2
"""The controller's lines have this for a node; -1 is nobody."""

Told = Handled[ControllerState]


class ControllerTracer:
    """Makes the lines of the active controller, and numbers them for each partition."""

    def __init__(self) -> None:
        self._seq: dict[Key, int] = {}

    def lines(self, told: Told, received: str | None = None) -> list[Line]:
        """Make the lines of an event; `received` is the id of the proposal that it is."""
        event = told.event
        if isinstance(event, AlterPartition) and _refusal(told) is not None:
            line = self._line(told, (event.topic, event.index), [], received)
            if line is None:
                return []
            line["refused"] = int(_refusal(told) or 0)
            return [line]
        lines = (self._line(told, key, list(_steps(told, key)), received) for key in _keys(told))
        return [line for line in lines if line is not None and line["steps"]]

    def _line(self, told: Told, key: Key, steps: list[Step], received: str | None) -> Line | None:
        partition = told.after.image.partitions.get(key)
        if partition is None:
            return None
        seq = self._seq.get(key, 0)
        line: Line = {
            "format": FORMAT,
            "topic": key[0],
            "partition": key[1],
            "node": CONTROLLER,
            "incarnation": 0,
            "seq": seq,
            "action": told.action.name,
            "steps": steps,
        }
        if steps:
            line["state"] = projection(told.after.image, partition)
        if received is not None:
            line["received"] = received
        if steps or received is not None:
            self._seq[key] = seq + 1
        return line


def projection(image: Image, partition: Partition) -> dict[str, Any]:
    """Give a partition's record and the registrations of its replicas, as JSON."""
    brokers = image.brokers
    config = image.topics[partition.topic].config
    return {
        "leader": partition.leader,
        "epoch": partition.leader_epoch,
        "version": partition.version,
        "isr": sorted(partition.isr),
        "elr": sorted(partition.elr),
        "replicas": list(partition.replicas),
        "min_isr": config.min_isr,
        "unclean": config.unclean_election,
        "brokers": {
            str(node): [brokers[node].epoch, not image.is_available(node)]
            for node in partition.replicas
            if node in brokers
        },
    }


def _refusal(told: Told) -> int | None:
    return next((int(each.error) for each in told.effects if isinstance(each, Refuse)), None)


def _keys(told: Told) -> list[Key]:
    """List the partitions that the records of this event are about."""
    before, after = told.before.image, told.after.image
    found = {
        key
        for effect in told.effects
        if isinstance(effect, AppendRecords)
        for record in effect.records
        for key in touched(before, after, record)
    }
    return sorted(found)


def _steps(told: Told, key: Key) -> Iterator[Step]:
    """Tell which step of the spec an event was for a partition, if it changed it."""
    event = told.event
    old, new = told.before.image.partitions.get(key), told.after.image.partitions.get(key)
    if new is None:
        return
    if old is None:
        kind = "Create" if isinstance(event, CreateTopics | CreatePartitions) else told.action.name
        yield {"name": kind}
    elif isinstance(event, RegisterBroker):
        epochs = (told.before.image.brokers.get(event.node), told.after.image.brokers[event.node])
        clean = event.clean_shutdown and epochs[0] is not None
        clean = clean and epochs[0] is not None and event.previous_broker_epoch == epochs[0].epoch
        yield {"name": "CleanRestart" if clean else "LossyRestart", "broker": event.node}
    elif projection(told.before.image, old) == projection(told.after.image, new):
        return
    elif isinstance(event, AlterPartition):
        yield {"name": "CommitIsr", "broker": event.node}
    elif isinstance(event, SessionExpired):
        yield {"name": "FenceBroker", "broker": event.node}
    elif isinstance(event, Heartbeat):
        fenced = not told.after.image.is_available(event.node)
        yield {"name": "FenceBroker" if fenced else "UnfenceBroker", "broker": event.node}
    elif isinstance(event, LeaderlessDue | UncleanDue | ElectLeaders):
        clean = new.leader in old.isr | old.elr
        yield {"name": "ElectLeader" if clean else "ElectUncleanLeader", "broker": new.leader}
    else:
        yield {"name": told.action.name}
