"""Actions on what the metadata says: lead, follow, learn the ISR; and on the ways to stop.

A change of role waits until storage has answered, so that a write always ends in the epoch in which
it began; Kafka's partition lock does the same. The newest change waits in `deferred` and is due as
soon as the last write is done.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.replication.actions.consequences import abandon, advance_high_watermark
from protocol.replication.actions.table import action
from protocol.replication.actions.writes import without_role
from protocol.replication.effects import ForgetLog, Truncate
from protocol.replication.events import (
    BecameFollower,
    BecameLeader,
    Configured,
    Deleted,
    IsrLearned,
    Resigned,
)
from protocol.replication.log import epoch_start, truncated
from protocol.replication.rules import Rules
from protocol.replication.state import (
    Follower,
    Leader,
    Progress,
    ReplicaState,
    Status,
    View,
    Write,
    is_writing,
    progress_of,
)
from protocol.types import Epoch, NodeId


@action("BecomeLeader", BecameLeader)
def become_leader(
    rules: Rules, state: ReplicaState, event: BecameLeader, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Lead in a new epoch, knowing nothing of the followers yet."""
    if isinstance(state.role, Leader) and event.epoch == state.view.epoch:
        # A newer version of the record by which this replica leads already.
        newer = IsrLearned(event.epoch, event.version, event.isr, event.replicas)
        return learn_isr(rules, state, newer, now_ms)
    if _is_newer_version(state, event):
        return attrs.evolve(state, deferred=event), NOTHING
    if not _is_news(state, event.epoch, state.node):
        return state, NOTHING
    if is_writing(state):
        return attrs.evolve(state, deferred=event), NOTHING
    effects: list[Effect] = []
    abandon(state, ErrorCode.NOT_LEADER_OR_FOLLOWER, effects)
    followers = sorted(event.replicas - {state.node})
    leader = Leader(
        epoch_start_offset=epoch_start(state.log, event.epoch),
        reserved_end=state.log.end_offset,
        followers=tuple(Progress(node, caught_up_ms=now_ms) for node in followers),
    )
    view = View(state.node, event.epoch, event.version, event.isr)
    state = _with_role(state, view, leader)
    return advance_high_watermark(rules, state, leader, effects), tuple(effects)


@action("BecomeFollower", BecameFollower)
def become_follower(
    rules: Rules, state: ReplicaState, event: BecameFollower, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Follow in a new epoch. The log stays until the new leader says where the logs diverge."""
    if not _is_news(state, event.epoch, event.leader):
        return state, NOTHING
    if is_writing(state):
        return attrs.evolve(state, deferred=event), NOTHING
    effects: list[Effect] = []
    abandon(state, ErrorCode.NOT_LEADER_OR_FOLLOWER, effects)
    log = truncated(state.log, rules.kept_on_becoming_follower(state.log, state.high_watermark))
    write = None
    if log is not state.log:
        write = Write(log, state.high_watermark, log.start_offset)
        effects.append(Truncate(log.end_offset))
    view = View(event.leader, event.epoch)
    return _with_role(state, view, Follower(None, now_ms, write)), tuple(effects)


def _is_newer_version(state: ReplicaState, event: BecameLeader) -> bool:
    """Whether this is about the epoch that waits for storage already, and is the newer record."""
    waiting = state.deferred
    if not isinstance(waiting, BecameLeader) or not is_writing(state):
        return False
    return waiting.epoch == event.epoch and waiting.version < event.version


def _is_news(state: ReplicaState, epoch: Epoch, leader: NodeId) -> bool:
    """Whether this says something newer than what the replica knows, or is about to do."""
    if state.status is not Status.ONLINE:
        return False
    waiting = state.deferred
    if isinstance(waiting, BecameLeader | BecameFollower) and waiting.epoch >= epoch:
        # What is deferred comes back when storage has answered, and is news then.
        return waiting.epoch == epoch and not is_writing(state)
    same = leader == state.view.leader and epoch == state.view.epoch
    return epoch >= state.view.epoch and not same


def _with_role(state: ReplicaState, view: View, role: Leader | Follower) -> ReplicaState:
    return attrs.evolve(state, view=view, role=role, parked=(), deferred=None)


@action("LearnIsr", IsrLearned)
def learn_isr(
    rules: Rules, state: ReplicaState, event: IsrLearned, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Take over the ISR that the controller has set, whatever was proposed."""
    leader = state.role
    if not isinstance(leader, Leader) or event.epoch != state.view.epoch:
        return state, NOTHING
    if event.version <= state.view.version:
        return state, NOTHING
    view = View(state.node, event.epoch, event.version, event.isr)
    if _must_wait(rules, state, leader, view):
        return _defer(state, event)
    followers = tuple(
        progress_of(leader, node) or Progress(node, caught_up_ms=now_ms)
        for node in sorted(event.replicas - {state.node})
    )
    leader = attrs.evolve(leader, followers=followers, proposed=None)
    deferred = state.deferred
    if isinstance(deferred, IsrLearned) and deferred.version <= event.version:
        deferred = None
    state = attrs.evolve(state, view=view, role=leader, deferred=deferred)
    effects: list[Effect] = []
    return advance_high_watermark(rules, state, leader, effects), tuple(effects)


def _must_wait(rules: Rules, state: ReplicaState, leader: Leader, view: View) -> bool:
    """Under min ISR nothing of acks=all may be appended: what is being written comes before."""
    if rules.may_append(view, True, state.config.min_isr):
        return False
    return any(write.acks_all for write in leader.writes)


def _defer(state: ReplicaState, event: IsrLearned) -> tuple[ReplicaState, Effects]:
    waiting = state.deferred
    if waiting is None or (isinstance(waiting, IsrLearned) and waiting.version < event.version):
        return attrs.evolve(state, deferred=event), NOTHING
    return state, NOTHING


@action("Configure", Configured, mirrors=())
def configure(
    rules: Rules, state: ReplicaState, event: Configured, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Take over new settings; with a lower min ISR, what waited for more may be committed now."""
    del now_ms
    if event.config == state.config:
        return state, NOTHING
    state = attrs.evolve(state, config=event.config)
    effects: list[Effect] = []
    if isinstance(state.role, Leader):
        state = advance_high_watermark(rules, state, state.role, effects)
    return state, tuple(effects)


@action("Resign", Resigned, mirrors=())
def resign(
    rules: Rules, state: ReplicaState, event: Resigned, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Let go of everyone, because this broker is about to stop. Only a restart ends this.

    What storage is still writing is not waited for, so the log is known no more from here on.
    """
    del rules, event, now_ms
    if state.status is not Status.ONLINE:
        return state, NOTHING
    effects: list[Effect] = []
    abandon(state, ErrorCode.NOT_LEADER_OR_FOLLOWER, effects)
    return without_role(state, Status.RESIGNED), tuple(effects)


@action("Delete", Deleted, mirrors=())
def delete(
    rules: Rules, state: ReplicaState, event: Deleted, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """End for good."""
    del rules, event, now_ms
    if state.status is Status.DELETED:
        return state, NOTHING
    effects: list[Effect] = []
    abandon(state, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, effects)
    effects.append(ForgetLog())
    return without_role(state, Status.DELETED), tuple(effects)
