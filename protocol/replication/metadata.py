"""From the metadata to a replica's events: what a partition's record means to this replica."""

from __future__ import annotations

import attrs

from protocol.machine import Event
from protocol.replication.events import BecameFollower, BecameLeader, IsrLearned
from protocol.replication.state import ReplicaState
from protocol.types import Epoch, NodeId, Version


@attrs.frozen
class PartitionRecord:
    """A partition's record in the metadata, as far as its replicas need it: mirrors `ctl`."""

    leader: NodeId
    epoch: Epoch
    version: Version
    isr: frozenset[NodeId]
    replicas: frozenset[NodeId]


def event_for(state: ReplicaState, record: PartitionRecord) -> Event:
    """Give the event that tells a replica of this record; one that it knows changes nothing.

    A broker that has restarted tells its replicas of no record older than its registration: by an
    older one a replica would lead that is no longer trusted to have its log.
    """
    if record.leader != state.node:
        return BecameFollower(record.leader, record.epoch)
    kind = IsrLearned if _leads_already(state, record) else BecameLeader
    return kind(record.epoch, record.version, record.isr, record.replicas)


def _leads_already(state: ReplicaState, record: PartitionRecord) -> bool:
    return state.view.leader == state.node and state.view.epoch == record.epoch
