"""The leader's actions on what producers send: reserve offsets, write, acknowledge."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.replication.actions.consequences import advance_high_watermark, arrived, refusals
from protocol.replication.actions.table import action, not_leading, refuse
from protocol.replication.effects import Append, ProduceDone, Refuse
from protocol.replication.events import (
    ACKS_ALL,
    BecameFollower,
    BecameLeader,
    IsrLearned,
    ProduceReceived,
    ProducersExpired,
)
from protocol.replication.log import appended
from protocol.replication.rules import Rules
from protocol.replication.state import (
    Leader,
    ReplicaState,
    Waiting,
    with_followers,
    with_queues,
    with_role,
)
from protocol.types import Offset


@action("ReserveOffsets", ProduceReceived, mirrors=())
def reserve_offsets(
    rules: Rules, state: ReplicaState, event: ProduceReceived, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Give a batch its offsets and have it written; the spec's step is when that is done.

    Refused where the spec's `Produce` is not enabled, and when too much is waiting already.
    """
    leader = state.role
    if not isinstance(leader, Leader):
        return _refused(state, event, not_leading(state))
    error = _objection(rules, state, leader, event)
    if error is not None:
        return _refused(state, event, error)
    base = leader.reserved_end
    end = base + event.record_count
    write = Waiting(
        event.correlation,
        event.acks == ACKS_ALL,
        base,
        end,
        event.size_bytes,
        now_ms + event.timeout_ms,
        event.acks != 0,
    )
    leader = with_queues(
        leader,
        reserved_end=end,
        writes=(*leader.writes, write),
        waiting=leader.waiting,
        waiting_bytes=leader.waiting_bytes + event.size_bytes,
    )
    append = Append(base, end, state.view.epoch, event.payload)
    return with_role(state, leader, state.log, state.high_watermark), (append,)


def _objection(
    rules: Rules, state: ReplicaState, leader: Leader, event: ProduceReceived
) -> ErrorCode | None:
    acks_all = event.acks == ACKS_ALL
    if event.acks not in (0, 1, ACKS_ALL):
        return ErrorCode.INVALID_REQUIRED_ACKS
    if event.record_count < 1 or event.size_bytes < 0:
        return ErrorCode.INVALID_REQUEST
    deferred = state.deferred
    if isinstance(deferred, BecameLeader | BecameFollower):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    min_isr = state.config.min_isr
    if not rules.may_append(state.view, acks_all, min_isr):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if isinstance(deferred, IsrLearned):
        # It waits for the writes of acks=all to be done, so there must be no more of them.
        known = attrs.evolve(state.view, isr=deferred.isr)
        if not rules.may_append(known, acks_all, min_isr):
            return ErrorCode.NOT_ENOUGH_REPLICAS
    waiting = len(leader.writes) + len(leader.waiting)
    too_many = waiting >= state.config.max_waiting_produces
    if too_many or leader.waiting_bytes + event.size_bytes > state.config.max_waiting_bytes:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return None


def _refused(
    state: ReplicaState, event: ProduceReceived, error: ErrorCode
) -> tuple[ReplicaState, Effects]:
    # A producer that wants no acknowledgement gets none, good or bad.
    return (state, NOTHING) if event.acks == 0 else refuse(state, event.correlation, error)


def finish_append(
    rules: Rules, state: ReplicaState, leader: Leader, end_offset: Offset, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """A batch is in the leader's log: the spec's `Produce`."""
    if not leader.writes or leader.writes[0].end_offset != end_offset:
        raise ValueError(f"no write of this leader ends at {end_offset}")
    write = leader.writes[0]
    effects: list[Effect] = []
    leader = _after_write(_with_waiters_caught_up(state, leader, now_ms), write, state, effects)
    log = appended(state.log, state.view.epoch, end_offset)
    state = arrived(state, write.size_bytes)
    return advance_high_watermark(rules, state, leader, effects, log), tuple(effects)


def _with_waiters_caught_up(state: ReplicaState, leader: Leader, now_ms: int) -> Leader:
    """A follower that waits at the end of the log has had all there was until just now.

    Without this, one that waits for long would seem to lag as soon as something arrives.
    """
    if not state.parked:
        return leader
    end = state.log.end_offset
    waiters = {each.follower for each in state.parked if each.offset >= end}
    if waiters.isdisjoint(each.node for each in leader.followers):
        return leader
    followers = tuple(
        attrs.evolve(each, caught_up_ms=now_ms) if each.node in waiters else each
        for each in leader.followers
    )
    return with_followers(leader, followers)


def _after_write(
    leader: Leader, write: Waiting, state: ReplicaState, effects: list[Effect]
) -> Leader:
    waiting, waiting_bytes = leader.waiting, leader.waiting_bytes
    if write.acks_all:
        waiting = (*waiting, write)
    else:
        waiting_bytes -= write.size_bytes
        if write.wants_reply:
            start_offset = state.log.start_offset
            effects.append(ProduceDone(write.correlation, write.base_offset, start_offset))
    return with_queues(
        leader,
        reserved_end=leader.reserved_end,
        writes=leader.writes[1:],
        waiting=waiting,
        waiting_bytes=waiting_bytes,
    )


def without_writes(leader: Leader, end_offset: Offset, effects: list[Effect]) -> Leader:
    """Nothing in flight was written: its producers are refused, its offsets are free again."""
    effects.extend(refusals(leader.writes, ErrorCode.KAFKA_STORAGE_ERROR))
    return with_queues(
        leader,
        reserved_end=end_offset,
        writes=(),
        waiting=leader.waiting,
        waiting_bytes=leader.waiting_bytes - sum(write.size_bytes for write in leader.writes),
    )


@action("ExpireProducers", ProducersExpired, mirrors=())
def expire_producers(
    rules: Rules, state: ReplicaState, event: ProducersExpired, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Tell producers that their time is over; their records stay, and may well be committed."""
    del rules, event
    leader = state.role
    if not isinstance(leader, Leader):
        return state, NOTHING
    expired = [each for each in leader.waiting if each.expires_ms <= now_ms]
    if not expired:
        return state, NOTHING
    kept = tuple(each for each in leader.waiting if each.expires_ms > now_ms)
    freed = sum(each.size_bytes for each in expired)
    leader = attrs.evolve(leader, waiting=kept, waiting_bytes=leader.waiting_bytes - freed)
    refusals = [Refuse(each.correlation, ErrorCode.REQUEST_TIMED_OUT) for each in expired]
    return attrs.evolve(state, role=leader), tuple(refusals)
