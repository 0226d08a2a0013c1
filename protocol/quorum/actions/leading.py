"""What a leader does: append, count who has what, commit, and resign when nobody listens."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.quorum.actions.consequences import with_followers
from protocol.quorum.actions.epochs import move, moved_to
from protocol.quorum.actions.table import action, deferred, not_leading, refusal
from protocol.quorum.effects import Append, EndEpoch
from protocol.quorum.events import QuorumLost, RecordsProposed
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    NOBODY,
    Appending,
    Leader,
    QuorumState,
    with_log,
)
from protocol.types import NodeId


@action("ReserveOffsets", RecordsProposed, mirrors=())
def reserve_offsets(
    rules: Rules, state: QuorumState, event: RecordsProposed, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Have the controller's records written; the spec's step is when that is done."""
    del rules, now_ms
    leader = state.role
    if not isinstance(leader, Leader) or event.epoch != state.epoch:
        return state, (refusal(state, event.correlation, not_leading(state)),)
    error = _objection(state, leader, event)
    if error is not None:
        return state, (refusal(state, event.correlation, error),)
    base, end = event.base_offset, event.base_offset + event.record_count
    writes = (*state.writes, Appending(((state.epoch, event.record_count),), end))
    leader = with_followers(leader, leader.followers, end)
    append = Append(base, end, state.epoch, event.payload)
    return with_log(state, leader, state.log, state.high_watermark, writes), (append,)


def _objection(state: QuorumState, leader: Leader, event: RecordsProposed) -> ErrorCode | None:
    if event.record_count < 1 or event.base_offset != leader.reserved_end:
        return ErrorCode.INVALID_REQUEST
    if state.saving is not None or state.deferred:
        # It is about to lead no more; more writes would only hold that up.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if len(state.writes) >= state.config.max_writes:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return None


def _reached(state: QuorumState, leader: Leader, now_ms: int) -> set[NodeId]:
    """Name the voters that were heard of within the time that a leader may be without them."""
    since_ms = now_ms - state.config.check_quorum_ms
    heard = {
        known.node
        for known in leader.followers
        if (leader.since_ms if known.heard_ms is None else known.heard_ms) > since_ms
    }
    return (heard & state.voters) | {state.node}


@action("Resign", QuorumLost)
def resign(
    rules: Rules, state: QuorumState, event: QuorumLost, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Step down, because others may well have elected another; and tell who listens.

    The epoch and the vote stay, so that nobody is elected twice in it.
    """
    leader = state.role
    if not isinstance(leader, Leader):
        return state, NOTHING
    reached = len(_reached(state, leader, now_ms))
    if not rules.must_resign(rules.has_majority(reached, len(state.voters))):
        return state, NOTHING
    if state.saving is not None:
        return state, NOTHING
    if state.writes:
        return deferred(state, event)
    target = moved_to(rules, state, state.epoch, NOBODY)
    effects: list[Effect] = []
    state = move(rules, state, target, now_ms, effects)
    effects.extend(EndEpoch(voter, state.epoch) for voter in sorted(state.voters - {state.node}))
    return state, tuple(effects)
