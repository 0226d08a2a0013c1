"""The decisions of `spec/Controller.tla`, by the same names: each yields a partition's next record.

Where the spec lets any candidate be chosen, the first in assignment order is. Below these are the
decisions about reassignments, which the spec does not have; for a partition that is not being
reassigned they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from protocol.controller.rules import ControllerRules
from protocol.controller.state import NOBODY, Nodes, Partition
from protocol.types import NO_LEADER, NodeId


def first_of(replicas: Iterable[NodeId], nodes: Nodes) -> NodeId:
    """Return the first replica that is among `nodes`, or nobody."""
    return next((replica for replica in replicas if replica in nodes), NO_LEADER)


def change_isr(
    rules: ControllerRules, partition: Partition, isr: Nodes, lost: Nodes, min_isr: int
) -> Partition:
    """The ISR becomes `isr`, the replicas in `lost` having lost data."""
    return attrs.evolve(
        partition,
        isr=isr,
        elr=rules.eligible_leader_replicas(partition, isr, lost, min_isr),
        version=rules.next_version(partition.version),
    )


def elect(rules: ControllerRules, partition: Partition, replica: NodeId, min_isr: int) -> Partition:
    """`replica` leads."""
    isr = rules.isr_after_election(partition, replica)
    return attrs.evolve(
        change_isr(rules, partition, isr, NOBODY, min_isr),
        leader=replica,
        leader_epoch=rules.next_epoch(partition.leader_epoch),
    )


def elect_uncleanly(rules: ControllerRules, partition: Partition, replica: NodeId) -> Partition:
    """A replica that may lack committed records leads, alone in sync."""
    return attrs.evolve(
        partition,
        leader=replica,
        leader_epoch=rules.next_epoch(partition.leader_epoch),
        isr=frozenset({replica}),
        elr=NOBODY,
        version=rules.next_version(partition.version),
    )


def depart(
    rules: ControllerRules,
    partition: Partition,
    replica: NodeId,
    lost: Nodes,
    fenced: Nodes,
    min_isr: int,
) -> Partition:
    """`replica` leaves the ISR, and if it led, a candidate succeeds it, or nobody.

    One decision, hence one version; the very same record when nothing changes but that.
    """
    left = change_isr(rules, partition, partition.isr - {replica}, lost, min_isr)
    if partition.leader == replica:
        successor = first_of(partition.replicas, rules.candidates(left, fenced))
        if successor == NO_LEADER:
            return attrs.evolve(
                left, leader=NO_LEADER, leader_epoch=rules.next_epoch(left.leader_epoch)
            )
        return attrs.evolve(elect(rules, left, successor, min_isr), version=left.version)
    if attrs.evolve(left, version=partition.version) == partition:
        return partition
    return left


def begin_reassignment(
    rules: ControllerRules, partition: Partition, target: tuple[NodeId, ...]
) -> Partition:
    """The target's replicas are added to those there are; nobody leaves before they are in sync."""
    old = frozenset(partition.replicas)
    new = frozenset(target)
    return attrs.evolve(
        partition,
        replicas=target + tuple(node for node in partition.replicas if node not in new),
        adding=new - old,
        removing=old - new,
        version=rules.next_version(partition.version),
    )


def finish_reassignment(
    rules: ControllerRules, partition: Partition, fenced: Nodes, min_isr: int
) -> Partition:
    """When all of the target is in sync, the others leave, and if one of them led, one of it leads.

    The same record while it is not yet so far. No version of its own: it is part of the decision
    that brought the last one of them in.
    """
    target = partition.target
    if not partition.reassigning or not partition.isr.issuperset(target):
        return partition
    return _keep(rules, partition, target, fenced, min_isr) or partition


def cancel_reassignment(
    rules: ControllerRules, partition: Partition, fenced: Nodes, min_isr: int
) -> Partition | None:
    """The replicas on their way in leave again; None if nobody else could lead instead."""
    kept = tuple(node for node in partition.replicas if node not in partition.adding)
    cancelled = _keep(rules, partition, kept, fenced, min_isr)
    if cancelled is None or (partition.isr and not cancelled.isr):
        return None
    return attrs.evolve(cancelled, version=rules.next_version(partition.version))


def _keep(
    rules: ControllerRules,
    partition: Partition,
    kept: tuple[NodeId, ...],
    fenced: Nodes,
    min_isr: int,
) -> Partition | None:
    # The version stays. ELR is computed first, then cut: who is removed is no replica at all.
    shrunk = change_isr(rules, partition, partition.isr.intersection(kept), NOBODY, min_isr)
    left = attrs.evolve(
        shrunk, replicas=kept, elr=shrunk.elr.intersection(kept), adding=NOBODY, removing=NOBODY
    )
    if partition.leader not in kept and partition.leader != NO_LEADER:
        successor = first_of(kept, rules.candidates(left, fenced))
        if successor == NO_LEADER:
            return None
        left = elect(rules, left, successor, min_isr)
    return attrs.evolve(left, version=partition.version)
