"""What follows from several actions alike: the high watermark advances, who waits is served.

Mirrors `AdvanceHighWatermark` of `spec/ReplicationState.tla`. Consequences happen inside the action
that causes them, there and here.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import Effect
from protocol.replication.effects import ProduceDone, Refuse, SendEntries
from protocol.replication.log import Log
from protocol.replication.rules import Rules
from protocol.replication.state import (
    Leader,
    Parked,
    ReplicaState,
    Waiting,
    with_queues,
    with_role,
)
from protocol.types import Offset


def advance_high_watermark(
    rules: Rules,
    state: ReplicaState,
    leader: Leader,
    effects: list[Effect],
    log: Log | None = None,
) -> ReplicaState:
    """Let the high watermark follow what the maximal ISR has; serve who waited for that.

    `leader`, and `log` if it is given, take the place of what the state has.
    """
    log = log or state.log
    view, high_watermark = state.view, state.high_watermark
    if rules.may_advance_high_watermark(view, state.config.min_isr):
        in_sync_end = _in_sync_end(rules, state, leader, log.end_offset)
        if in_sync_end > high_watermark:
            high_watermark = in_sync_end
    done = rules.acknowledged_up_to(log.end_offset, high_watermark)
    if leader.waiting and leader.waiting[0].end_offset <= done:
        leader = _acknowledge(leader, done, log.start_offset, effects)
    if leader is not state.role or log is not state.log or high_watermark != state.high_watermark:
        state = with_role(state, leader, log, high_watermark)
    return answer_parked(rules, state, effects) if state.parked else state


def _in_sync_end(rules: Rules, state: ReplicaState, leader: Leader, end: Offset) -> Offset:
    """Find the offset up to which everyone has the log whom the high watermark waits for.

    `end` is that of the leader's own log.
    """
    waited_for = rules.high_watermark_isr(state.view)
    counted = 1 if state.node in waited_for else 0
    for follower in leader.followers:
        if follower.node in waited_for:
            counted += 1
            if follower.end_offset < end:
                end = follower.end_offset
    # A member that is not even among the replicas has, for all we know, nothing.
    return end if counted == len(waited_for) else 0


def _acknowledge(
    leader: Leader, done: Offset, log_start_offset: Offset, effects: list[Effect]
) -> Leader:
    count, size_bytes = 0, 0
    for waiting in leader.waiting:
        if waiting.end_offset > done:
            break
        count += 1
        size_bytes += waiting.size_bytes
        effects.append(ProduceDone(waiting.correlation, waiting.base_offset, log_start_offset))
    return with_queues(
        leader,
        reserved_end=leader.reserved_end,
        writes=leader.writes,
        waiting=leader.waiting[count:],
        waiting_bytes=leader.waiting_bytes - size_bytes,
    )


def arrived(state: ReplicaState, size_bytes: int) -> ReplicaState:
    """Count what was appended towards what the parked fetches wait for."""
    if not state.parked or size_bytes == 0:
        return state
    parked = tuple(
        attrs.evolve(each, missing_bytes=each.missing_bytes - size_bytes) for each in state.parked
    )
    return attrs.evolve(state, parked=parked)


def answer_parked(rules: Rules, state: ReplicaState, effects: list[Effect]) -> ReplicaState:
    """Answer the fetches that have something to take by now."""
    kept = []
    for parked in state.parked:
        if _is_served(rules, state, parked):
            effects.append(answer_to(rules, state, parked))
        else:
            kept.append(parked)
    if len(kept) == len(state.parked):
        return state
    return attrs.evolve(state, parked=tuple(kept))


def _is_served(rules: Rules, state: ReplicaState, parked: Parked) -> bool:
    if parked.offset < state.log.start_offset:
        return True
    if parked.follower is None:
        readable = rules.read_limit(state.log, state.high_watermark)
        return readable > parked.offset and parked.missing_bytes <= 0
    # A follower also waits for the high watermark, or it would learn it a whole long-poll late.
    if 0 <= parked.high_watermark < state.high_watermark:
        return True
    return state.log.end_offset > parked.offset and parked.missing_bytes <= 0


def answer_to(rules: Rules, state: ReplicaState, parked: Parked) -> SendEntries | Refuse:
    """Make the answer that a parked fetch gets in the present state, empty if there is nothing."""
    if parked.offset < state.log.start_offset:
        # What it waits for was deleted meanwhile.
        error = ErrorCode.OFFSET_OUT_OF_RANGE
        return Refuse(parked.correlation, error, state.log.start_offset)
    limit = state.log.end_offset
    if parked.follower is None:
        limit = max(parked.offset, rules.read_limit(state.log, state.high_watermark))
    return SendEntries(
        parked.correlation,
        parked.offset,
        limit,
        parked.max_bytes,
        state.view.epoch,
        state.high_watermark,
        state.log.start_offset,
    )


def abandon(state: ReplicaState, error: ErrorCode, effects: list[Effect]) -> None:
    """Tell all who wait that nobody will serve them here.

    A client takes NOT_LEADER_OR_FOLLOWER for an assurance that its batch was not written. Those who
    wait here have one in the log, which the next leader may well have too: to them it is as if the
    answer had not come in time.
    """
    role = state.role
    if isinstance(role, Leader):
        in_doubt = error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        told = ErrorCode.REQUEST_TIMED_OUT if in_doubt else error
        effects.extend(refusals((*role.waiting, *role.writes), told))
    effects.extend(Refuse(parked.correlation, error) for parked in state.parked)


def refusals(waiting: tuple[Waiting, ...], error: ErrorCode) -> list[Refuse]:
    """Tell each of these producers, unless it wants no answer."""
    return [Refuse(each.correlation, error) for each in waiting if each.wants_reply]
