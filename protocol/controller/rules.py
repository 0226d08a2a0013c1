"""The rules of `spec/Controller.tla`, by the same names.

A rule is a guard or a choice of the protocol. Actions and decisions make such choices only through
the `ControllerRules` that they are given, so a mutant is one field evolved to something wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from protocol.controller.state import NOBODY, Nodes, Partition
from protocol.types import NO_LEADER, BrokerEpoch, Epoch, NodeId, Version


def next_epoch(epoch: Epoch) -> Epoch:
    """A change of leader is a new epoch: it tells the new leader's writes from the old one's."""
    return epoch + 1


def next_version(version: Version) -> Version:
    """KIP-497. Every decision about the partition is a new version."""
    return version + 1


def eligible_leader_replicas(partition: Partition, isr: Nodes, lost: Nodes, min_isr: int) -> Nodes:
    """KIP-966. Who may still be elected cleanly besides `isr`.

    Nobody while the ISR can commit by itself, otherwise all who left since it could not, less those
    who lost data.
    """
    if len(isr) >= min_isr:
        return NOBODY
    return ((partition.isr | partition.elr) - isr) - lost


def loses_eligibility(clean_shutdown: bool) -> bool:
    """KIP-966. A broker whose last shutdown was not clean may have lost data."""
    return not clean_shutdown


def may_be_added(fenced: bool) -> bool:
    """KIP-841. A fenced broker does not join the ISR."""
    return not fenced


def broker_epoch_is_current(registered: BrokerEpoch, claimed: BrokerEpoch) -> bool:
    """KIP-903. Only the incarnation of a broker that caught up may join, not a later one."""
    return claimed == registered


def proposal_is_current(partition: Partition, version: Version) -> bool:
    """KIP-497. An ISR change is set only when nothing changed since the record it was made from."""
    return version == partition.version


def candidates(partition: Partition, fenced: Nodes) -> Nodes:
    """A clean election takes an in-sync replica that is not fenced, or else an eligible one."""
    return partition.isr - fenced or partition.elr - fenced


def isr_after_election(partition: Partition, replica: NodeId) -> Nodes:
    """KIP-966. The ISR as it was, and a leader taken from the ELR joins it."""
    return partition.isr | {replica}


def may_elect_uncleanly(allowed: bool, leader: NodeId, candidates: Nodes) -> bool:
    """Only where switched on, while nobody leads and nobody can be elected cleanly."""
    return allowed and leader == NO_LEADER and not candidates


@attrs.frozen
class ControllerRules:
    """The rules that a controller lives by; the right ones unless told otherwise."""

    next_epoch: Callable[[Epoch], Epoch] = next_epoch
    next_version: Callable[[Version], Version] = next_version
    eligible_leader_replicas: Callable[[Partition, Nodes, Nodes, int], Nodes] = (
        eligible_leader_replicas
    )
    loses_eligibility: Callable[[bool], bool] = loses_eligibility
    may_be_added: Callable[[bool], bool] = may_be_added
    broker_epoch_is_current: Callable[[BrokerEpoch, BrokerEpoch], bool] = broker_epoch_is_current
    proposal_is_current: Callable[[Partition, Version], bool] = proposal_is_current
    candidates: Callable[[Partition, Nodes], Nodes] = candidates
    isr_after_election: Callable[[Partition, NodeId], Nodes] = isr_after_election
    may_elect_uncleanly: Callable[[bool, NodeId, Nodes], bool] = may_elect_uncleanly
