"""Actions on what followers and consumers ask for: count progress, answer, or let them wait."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.replication.actions.consequences import advance_high_watermark, answer_to
from protocol.replication.actions.table import action, fenced, not_leading, refuse
from protocol.replication.effects import SendDivergence
from protocol.replication.events import ConsumerFetchReceived, FetchesExpired, FetchReceived
from protocol.replication.log import EpochEnd
from protocol.replication.rules import Rules
from protocol.replication.state import (
    Leader,
    Parked,
    Progress,
    ReplicaState,
    Status,
    progress_of,
    with_followers,
)
from protocol.types import Offset


@action("LeaderHandleFetch", FetchReceived, mirrors=("LeaderHandleFetch", "LeaderHandleLateFetch"))
def leader_handle_fetch(
    rules: Rules, state: ReplicaState, event: FetchReceived, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Count what the follower has, and answer with what it lacks.

    The answer carries the high watermark from before this fetch was counted.
    """
    leader = state.role
    if not isinstance(leader, Leader):
        return refuse(state, event.correlation, not_leading(state))
    follower = progress_of(leader, event.follower)
    error = _objection(rules, state, follower, event)
    if error is not None or follower is None:
        return refuse(state, event.correlation, error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
    end = rules.leader_epoch_end(state.log, event)
    if event.last_epoch > 0:
        diverging = rules.diverges(end, event)
    else:
        # A log that was reset has no entry yet that could differ; but it may begin too late.
        diverging = event.offset > state.log.end_offset
    effects: list[Effect] = []
    fetch = _of_follower(event, now_ms)
    if diverging:
        effects.append(_divergence(state, event, end))
    elif _answers_at_once(state, event):
        effects.append(answer_to(rules, state, fetch))
    else:
        state = attrs.evolve(state, parked=(*state.parked, fetch))
    if rules.counts_as_progress(diverging):
        leader = _with_progress(leader, follower, event, state.log.end_offset, now_ms)
    return advance_high_watermark(rules, state, leader, effects), tuple(effects)


def _objection(
    rules: Rules, state: ReplicaState, follower: Progress | None, event: FetchReceived
) -> ErrorCode | None:
    if not rules.epoch_is_current(state.view, event):
        return fenced(state, event.leader_epoch)
    if follower is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not rules.same_incarnation(follower, event):
        return ErrorCode.STALE_BROKER_EPOCH
    if event.offset < state.log.start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None


def _divergence(state: ReplicaState, event: FetchReceived, end: EpochEnd) -> SendDivergence:
    return SendDivergence(
        event.correlation, state.view.epoch, end, state.high_watermark, state.log.start_offset
    )


def _answers_at_once(state: ReplicaState, event: FetchReceived) -> bool:
    """Whether there is something new for the follower, or it cannot wait."""
    enough = state.log.end_offset > event.offset and event.available_bytes >= event.min_bytes
    news = 0 <= event.high_watermark < state.high_watermark
    full = len(state.parked) >= state.config.max_parked_fetches
    return enough or news or full or event.max_wait_ms <= 0


def _of_follower(event: FetchReceived, now_ms: int) -> Parked:
    return Parked(
        event.correlation,
        event.follower,
        event.offset,
        event.high_watermark,
        event.max_bytes,
        event.min_bytes - event.available_bytes,
        now_ms + event.max_wait_ms,
    )


def _with_progress(
    leader: Leader, known: Progress, event: FetchReceived, end_offset: Offset, now_ms: int
) -> Leader:
    """Write down what the follower has, and since when it has had all there was.

    A follower that now asks for what was the end when it asked before had caught up by then.
    """
    if event.offset >= end_offset:
        caught_up_ms = now_ms
    elif known.broker_epoch == event.broker_epoch and event.offset >= known.end_when_asked:
        caught_up_ms = max(known.caught_up_ms, known.asked_ms)
    else:
        caught_up_ms = known.caught_up_ms
    progress = Progress(
        known.node, event.offset, event.broker_epoch, caught_up_ms, now_ms, end_offset
    )
    if progress == known:
        return leader
    followers = tuple(progress if each is known else each for each in leader.followers)
    return with_followers(leader, followers)


@action("Consume", ConsumerFetchReceived)
def consume(
    rules: Rules, state: ReplicaState, event: ConsumerFetchReceived, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Serve a consumer, at the leader or a follower (KIP-392), up to the high watermark."""
    limit = rules.read_limit(state.log, state.high_watermark)
    error = _consumer_objection(state, event, limit)
    if error is not None:
        return refuse(state, event.correlation, error)
    parked = Parked(
        event.correlation,
        None,
        event.offset,
        -1,
        event.max_bytes,
        event.min_bytes - event.available_bytes,
        now_ms + event.max_wait_ms,
    )
    enough = limit > event.offset and parked.missing_bytes <= 0
    full = len(state.parked) >= state.config.max_parked_fetches
    if enough or full or event.max_wait_ms <= 0:
        return state, (answer_to(rules, state, parked),)
    return attrs.evolve(state, parked=(*state.parked, parked)), NOTHING


def _consumer_objection(
    state: ReplicaState, event: ConsumerFetchReceived, limit: Offset
) -> ErrorCode | None:
    if state.role is None or state.status is not Status.ONLINE:
        return not_leading(state)
    error = fenced(state, event.leader_epoch)
    if error is not None:
        return error
    if event.offset < state.log.start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    leads = isinstance(state.role, Leader)
    if leads and event.offset > state.log.end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if not leads and event.offset > limit:
        # The leader may well have it; this follower cannot know.
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return None


@action("ExpireFetches", FetchesExpired, mirrors=())
def expire_fetches(
    rules: Rules, state: ReplicaState, event: FetchesExpired, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Answer those whose time is over with what there is."""
    del event
    expired = [each for each in state.parked if each.expires_ms <= now_ms]
    if not expired:
        return state, NOTHING
    kept = tuple(each for each in state.parked if each.expires_ms > now_ms)
    answers = tuple(answer_to(rules, state, each) for each in expired)
    return attrs.evolve(state, parked=kept), answers
