"""A leader's actions on what followers and observers ask for: count, answer, or let them wait."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.quorum.actions.consequences import advance_high_watermark, answer_to, with_followers
from protocol.quorum.actions.table import action, not_leading, refusal
from protocol.quorum.effects import SendDivergence, SendSnapshot, SendSnapshotId
from protocol.quorum.events import FetchesExpired, FetchReceived, SnapshotAsked
from protocol.quorum.log import snapshot_of
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    Leader,
    Parked,
    Progress,
    QuorumState,
    progress_of,
    with_parked,
)
from protocol.replication.log import epoch_end
from protocol.types import Epoch, NodeId, Offset


@action("LeaderHandleFetch", FetchReceived)
def leader_handle_fetch(
    rules: Rules, state: QuorumState, event: FetchReceived, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Count what the node has, and answer with what it lacks, or with what differs.

    The answer carries the high watermark from before this fetch was counted.
    """
    leader = state.role
    if not isinstance(leader, Leader):
        return state, (refusal(state, event.correlation, not_leading(state)),)
    error = _objection(state, leader, event.node, event.epoch)
    if error is not None:
        return state, (refusal(state, event.correlation, error),)
    effects: list[Effect] = []
    snapshot, agrees, waits = snapshot_of(state.log), False, False
    if rules.needs_snapshot(snapshot, event):
        effects.append(SendSnapshotId(event.correlation, state.epoch, snapshot))
    elif rules.diverges(end := epoch_end(state.log, event.last_epoch), event):
        effects.append(SendDivergence(event.correlation, state.epoch, end))
    else:
        agrees, waits = True, _waits(state, event)
        if not waits:
            effects.append(answer_to(state, _parked(event, now_ms)))
    end_offset = event.offset if rules.counts_as_progress(agrees) else None
    leader = _heard(leader, event.node, end_offset, now_ms)
    state = advance_high_watermark(rules, state, leader, effects)
    if waits:
        # If this very fetch has moved the high watermark, that is news for it, and due at once.
        news = state.high_watermark > event.high_watermark
        fetch = _parked(event, now_ms if news else now_ms + event.max_wait_ms)
        state = with_parked(state, (*state.parked, fetch))
    return state, tuple(effects)


def _objection(state: QuorumState, leader: Leader, node: NodeId, epoch: Epoch) -> ErrorCode | None:
    if epoch != state.epoch:
        older = epoch < state.epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    if state.saving is not None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if progress_of(leader, node) is None:
        observers = len(leader.followers) - len(state.voters) + 1
        if observers >= state.config.max_observers:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return None


def _waits(state: QuorumState, event: FetchReceived) -> bool:
    """Whether there is nothing new for the node, and it can wait."""
    news = state.log.end_offset > event.offset or state.high_watermark > event.high_watermark
    full = len(state.parked) >= state.config.max_parked_fetches
    return not news and not full and event.max_wait_ms > 0


def _parked(event: FetchReceived, expires_ms: int) -> Parked:
    return Parked(
        event.correlation,
        event.node,
        event.offset,
        event.high_watermark,
        event.max_bytes,
        expires_ms,
    )


def _heard(leader: Leader, node: NodeId, end_offset: Offset | None, now_ms: int) -> Leader:
    """Write down that a node is alive and, if it is known, where its log ends."""
    known = progress_of(leader, node)
    if known is None:
        followers = (*leader.followers, Progress(node, end_offset or 0, now_ms))
    else:
        progress = Progress(node, known.end_offset if end_offset is None else end_offset, now_ms)
        followers = tuple([progress if each is known else each for each in leader.followers])
    return with_followers(leader, followers, leader.reserved_end)


@action("ServeSnapshot", SnapshotAsked, mirrors=())
def serve_snapshot(
    rules: Rules, state: QuorumState, event: SnapshotAsked, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Serve a download, if this is still the snapshot that the log begins with."""
    del rules
    leader = state.role
    if not isinstance(leader, Leader):
        return state, (refusal(state, event.correlation, not_leading(state)),)
    error = _objection(state, leader, event.node, event.epoch)
    if error is None and event.snapshot != snapshot_of(state.log):
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    if error is not None:
        return state, (refusal(state, event.correlation, error),)
    state = attrs.evolve(state, role=_heard(leader, event.node, None, now_ms))
    return state, (SendSnapshot(event.correlation, event.snapshot),)


@action("ExpireFetches", FetchesExpired, mirrors=("LeaderHandleFetch",))
def expire_fetches(
    rules: Rules, state: QuorumState, event: FetchesExpired, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Answer those whose time is over with what there is."""
    del rules, event
    expired = [each for each in state.parked if each.expires_ms <= now_ms]
    if not expired:
        return state, NOTHING
    kept = tuple(each for each in state.parked if each.expires_ms > now_ms)
    answers = tuple(answer_to(state, each) for each in expired)
    return with_parked(state, kept), answers
