"""Moving partitions: one to named brokers, or all away from a broker that is to go.

A move adds the target's replicas and takes the others out once all of the target is in sync
(KIP-455). A second move of the same partition has to wait or cancel the first: what Kafka does
then, replacing one target by another, is convenient and hard to follow.
"""

from __future__ import annotations

import attrs

from protocol.controller.actions.brokers import known_broker
from protocol.controller.actions.partitions import known_partition
from protocol.controller.actions.table import Answer, Draft, RefusedError, command
from protocol.controller.actions.topics import valid_replicas
from protocol.controller.decisions import (
    begin_reassignment,
    cancel_reassignment,
    finish_reassignment,
)
from protocol.controller.effects import DecommissionProgress
from protocol.controller.events import AlterReassignment, Decommission, Unregister
from protocol.controller.placement import Placer
from protocol.controller.records import BrokerRecord, UnregisterBrokerRecord
from protocol.controller.rules import ControllerRules
from protocol.controller.state import ControllerState, Partition
from protocol.errors import ErrorCode
from protocol.types import NodeId


@command("AlterReassignment", AlterReassignment)
def alter_reassignment(
    rules: ControllerRules,
    state: ControllerState,
    event: AlterReassignment,
    now_ms: int,  # noqa: ARG001 - every action is given the same
) -> Answer:
    """Begin a move, or cancel it; the reply is the partition's record."""
    draft = Draft(state.image)
    partition = known_partition(draft.image, (event.topic, event.index))
    if event.replicas is None:
        return Answer(draft, _cancel(rules, draft, partition))
    valid_replicas(draft.image, event.replicas, draft.image.min_isr(partition))
    if event.replicas == partition.target:
        return Answer(draft, partition)
    if partition.reassigning:
        raise RefusedError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"it is on its way to {partition.target}; wait for that, or cancel it",
        )
    return Answer(draft, _move(rules, draft, partition, event.replicas))


def _cancel(rules: ControllerRules, draft: Draft, partition: Partition) -> Partition:
    if not partition.reassigning:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "there is nothing to cancel")
    fenced = draft.image.unavailable(partition)
    cancelled = cancel_reassignment(rules, partition, fenced, draft.image.min_isr(partition))
    if cancelled is None:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"without {sorted(partition.adding)} nobody would be in sync",
        )
    draft.change(partition, cancelled)
    return cancelled


def _move(
    rules: ControllerRules, draft: Draft, partition: Partition, target: tuple[NodeId, ...]
) -> Partition:
    moved = begin_reassignment(rules, partition, target)
    # It may be done at once: when only the order changes, or replicas only leave.
    fenced = draft.image.unavailable(moved)
    moved = finish_reassignment(rules, moved, fenced, draft.image.min_isr(moved))
    draft.change(partition, moved)
    return moved


@command("Decommission", Decommission)
def decommission(
    rules: ControllerRules,
    state: ControllerState,
    event: Decommission,
    now_ms: int,  # noqa: ARG001
) -> Answer:
    """Begin to move a broker's partitions elsewhere, so many at a time; place no new ones there."""
    broker = known_broker(state, event.node)
    draft = Draft(state.image)
    if broker.decommissioning == event.cancel:
        draft.add(BrokerRecord(attrs.evolve(broker, decommissioning=not event.cancel)))
    assigned = draft.image.assigned_to(event.node)
    if event.cancel:
        return Answer(draft, DecommissionProgress(event.node, 0, len(assigned)))
    # One on its way, there or elsewhere, is looked at again by a later command.
    movable = [partition for partition in assigned if not partition.reassigning]
    movable = movable[: state.config.max_items_per_command]
    placer = Placer(draft.image)
    for partition in movable:
        _move(rules, draft, partition, _without(placer, partition, event.node))
    remaining = len(draft.image.assigned_to(event.node))
    return Answer(draft, DecommissionProgress(event.node, len(movable), remaining))


def _without(placer: Placer, partition: Partition, node: NodeId) -> tuple[NodeId, ...]:
    if set(placer.brokers) <= set(partition.replicas):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{partition.topic}-{partition.index} has {len(partition.replicas)} replicas, and no "
            f"other broker is alive that could take the place of {node}",
        )
    successor = placer.another(partition.replicas)
    return tuple(successor if each == node else each for each in partition.replicas)


@command("Unregister", Unregister)
def unregister(
    rules: ControllerRules,  # noqa: ARG001
    state: ControllerState,
    event: Unregister,
    now_ms: int,  # noqa: ARG001
) -> Answer:
    """Forget a broker that has no partitions."""
    known_broker(state, event.node)
    if count := len(state.image.assigned.get(event.node, ())):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"broker {event.node} has {count} partitions; decommission it first",
        )
    draft = Draft(state.image)
    draft.add(UnregisterBrokerRecord(event.node))
    return Answer(draft, None)
