"""One replica's state: offsets, epochs and sets, and who is waiting. Never bytes, never sockets.

`Log`, `high_watermark`, `view` and `followers` mirror variables of the spec; the docstring of the
package has the whole table. All else is what a spec without time and clients can leave out: who
waits for an answer and until when, what is being written, which request is on its way.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from protocol.machine import Event
from protocol.replication.config import ReplicaConfig
from protocol.replication.log import Log
from protocol.types import NO_LEADER, BrokerEpoch, Correlation, Epoch, NodeId, Offset, Version


class Status(enum.Enum):
    """Whether this replica takes part at all."""

    ONLINE = "online"
    RESIGNED = "resigned"
    OFFLINE = "offline"
    DELETED = "deleted"


@attrs.frozen
class View:
    """Mirrors `view[r]`: what the replica knows of the metadata.

    Of a leader, `pending` is everyone in an ISR that it has proposed and that may be committed by
    now, empty if there is none, and `joiner` the broker epoch of the replica that would join.
    """

    leader: NodeId = NO_LEADER
    epoch: Epoch = 0
    version: Version = 0
    isr: frozenset[NodeId] = frozenset()
    pending: frozenset[NodeId] = frozenset()
    joiner: BrokerEpoch = 0


@attrs.frozen
class Progress:
    """Mirrors `remote[l][f]`: what a leader knows of a follower; broker epoch 0: has not fetched.

    `caught_up_ms` is the last time at which the follower is known to have had all there was, by
    what the leader's log end was when it asked before.
    """

    node: NodeId
    end_offset: Offset = 0
    broker_epoch: BrokerEpoch = 0
    caught_up_ms: int = 0
    asked_ms: int = 0
    end_when_asked: Offset = 0


@attrs.frozen
class Waiting:
    """A producer that waits: for the write first, and with acks=all then for the high watermark."""

    correlation: Correlation
    acks_all: bool
    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    expires_ms: int
    wants_reply: bool = True


@attrs.frozen
class Proposed:
    """The AlterPartition request that a leader waits for, and how often it was sent."""

    isr: frozenset[NodeId]
    attempts: int
    retry_ms: int


@attrs.frozen
class Parked:
    """A fetch that waits for data or, if a follower's, for a newer high watermark than it has."""

    correlation: Correlation
    follower: NodeId | None
    offset: Offset
    high_watermark: Offset
    max_bytes: int
    missing_bytes: int
    expires_ms: int


@attrs.frozen
class Leader:
    """What only a leader keeps."""

    epoch_start_offset: Offset
    reserved_end: Offset
    followers: tuple[Progress, ...]
    writes: tuple[Waiting, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    waiting_bytes: int = 0
    proposed: Proposed | None = None
    expand_after_ms: int = 0


@attrs.frozen
class Write:
    """A write of a follower that is not done yet, and what will be true when it is."""

    log: Log
    high_watermark: Offset
    log_start_offset: Offset
    size_bytes: int = 0


@attrs.frozen
class Follower:
    """What only a follower keeps: whether a fetch is on its way or an answer is being written."""

    asked_until_ms: int | None = None
    next_fetch_ms: int = 0
    write: Write | None = None


Role: TypeAlias = Leader | Follower | None


@attrs.frozen
class ReplicaState:
    """Everything that one replica of one partition knows."""

    node: NodeId
    broker_epoch: BrokerEpoch
    config: ReplicaConfig
    log: Log = attrs.field(factory=Log)
    high_watermark: Offset = 0
    view: View = attrs.field(factory=View)
    role: Role = None
    parked: tuple[Parked, ...] = ()
    deferred: Event | None = None
    status: Status = Status.ONLINE


def with_role(state: ReplicaState, role: Role, log: Log, high_watermark: Offset) -> ReplicaState:
    """Change what every batch changes. Built directly: `attrs.evolve` takes three times as long."""
    return ReplicaState(
        state.node,
        state.broker_epoch,
        state.config,
        log,
        high_watermark,
        state.view,
        role,
        state.parked,
        state.deferred,
        state.status,
    )


def with_queues(
    leader: Leader,
    *,
    reserved_end: Offset,
    writes: tuple[Waiting, ...],
    waiting: tuple[Waiting, ...],
    waiting_bytes: int,
) -> Leader:
    """Change what every batch changes of a leader, built directly for the same reason."""
    return Leader(
        leader.epoch_start_offset,
        reserved_end,
        leader.followers,
        writes,
        waiting,
        waiting_bytes,
        leader.proposed,
        leader.expand_after_ms,
    )


def with_followers(leader: Leader, followers: tuple[Progress, ...]) -> Leader:
    """Change what every fetch changes of a leader, built directly for the same reason."""
    return Leader(
        leader.epoch_start_offset,
        leader.reserved_end,
        followers,
        leader.writes,
        leader.waiting,
        leader.waiting_bytes,
        leader.proposed,
        leader.expand_after_ms,
    )


def progress_of(leader: Leader, node: NodeId) -> Progress | None:
    """Find what a leader knows of a follower; None if it is not one of the replicas."""
    for progress in leader.followers:
        if progress.node == node:
            return progress
    return None


def is_writing(state: ReplicaState) -> bool:
    """Whether storage has yet to answer, so that a change of role has to wait."""
    role = state.role
    if isinstance(role, Leader):
        return bool(role.writes)
    return isinstance(role, Follower) and role.write is not None
