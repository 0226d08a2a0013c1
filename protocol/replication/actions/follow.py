"""A follower's actions: ask the leader, and cut or extend the log by what it answers."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode, RemoteProtocolError
from protocol.machine import NOTHING, Effect, Effects
from protocol.replication.actions.consequences import answer_parked, arrived
from protocol.replication.actions.table import action
from protocol.replication.effects import Append, DeleteBefore, Reset, SendFetch, Truncate
from protocol.replication.events import FetchAnswered, FetchDue, FetchRefused
from protocol.replication.log import Log, advanced, appended, last_epoch, truncated
from protocol.replication.rules import Rules
from protocol.replication.state import Follower, ReplicaState, Write
from protocol.types import NO_LEADER, Offset


def send_fetch(
    state: ReplicaState, follower: Follower, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Ask the leader for what follows this replica's log."""
    config, view = state.config, state.view
    follower = Follower(now_ms + config.fetch_timeout_ms, follower.next_fetch_ms, None)
    request = SendFetch(
        view.leader,
        view.epoch,
        state.broker_epoch,
        state.log.end_offset,
        last_epoch(state.log),
        state.high_watermark,
        config.fetch_max_bytes,
        config.fetch_min_bytes,
        config.fetch_wait_ms,
    )
    return attrs.evolve(state, role=follower), (request,)


def fetch_due_ms(state: ReplicaState) -> int | None:
    """Tell when a follower asks next if nothing comes; None while it writes or knows no leader."""
    follower = state.role
    if not isinstance(follower, Follower) or follower.write is not None:
        return None
    if state.view.leader == NO_LEADER or state.deferred is not None:
        return None
    if follower.asked_until_ms is not None:
        return follower.asked_until_ms
    return follower.next_fetch_ms


@action("FetchFromLeader", FetchDue, mirrors=())
def fetch_from_leader(
    rules: Rules, state: ReplicaState, event: FetchDue, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Ask, or ask again when an answer has not come in time."""
    del rules, event
    follower = state.role
    due_ms = fetch_due_ms(state)
    if not isinstance(follower, Follower) or due_ms is None or due_ms > now_ms:
        return state, NOTHING
    return send_fetch(state, follower, now_ms)


@action("FollowerHandleAnswer", FetchAnswered)
def follower_handle_answer(
    rules: Rules, state: ReplicaState, event: FetchAnswered, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Take the leader's answer; what has to be written counts only when that is done."""
    follower = state.role
    if not isinstance(follower, Follower) or follower.write is not None:
        return state, NOTHING
    if not rules.answer_is_current(state.view, state.log, event):
        return state, NOTHING
    write = _write_for(rules, state, event)
    waits = attrs.evolve(follower, asked_until_ms=None, next_fetch_ms=now_ms, write=write)
    state = attrs.evolve(state, role=waits)
    if write.log.end_offset < state.log.end_offset:
        return state, (Truncate(write.log.end_offset),)
    if write.log.end_offset > state.log.end_offset:
        return state, (Append(state.log.end_offset, write.log.end_offset, 0, event.payload),)
    return complete_write(rules, state, waits, write.log.end_offset)


def _write_for(rules: Rules, state: ReplicaState, event: FetchAnswered) -> Write:
    """Work out the log and the high watermark that this answer leads to."""
    log, high_watermark = state.log, state.high_watermark
    if event.diverging is not None:
        log = truncated(log, rules.truncation_offset(log, high_watermark, event.diverging))
        return Write(log, min(high_watermark, log.end_offset), event.log_start_offset)
    for epoch, record_count in event.epochs:
        log = appended(log, epoch, log.end_offset + record_count)
    high_watermark = rules.follower_high_watermark(
        high_watermark, event.high_watermark, log.end_offset
    )
    return Write(log, high_watermark, event.log_start_offset, event.size_bytes)


def admit_answer(event: FetchAnswered) -> None:
    """Raise `RemoteProtocolError` for an answer that no correct leader gives."""
    if event.diverging is not None and event.diverging.offset < 0:
        raise RemoteProtocolError(f"the logs diverge at {event.diverging.offset}")
    previous = max(event.last_epoch, 1)
    for epoch, record_count in event.epochs:
        if record_count < 1:
            raise RemoteProtocolError(f"an answer with {record_count} records of epoch {epoch}")
        if not previous <= epoch <= event.leader_epoch:
            order = f"after {previous}, in an answer of epoch {event.leader_epoch}"
            raise RemoteProtocolError(f"records of epoch {epoch} {order}")
        previous = epoch


def complete_write(
    rules: Rules, state: ReplicaState, follower: Follower, end_offset: Offset
) -> tuple[ReplicaState, Effects]:
    """What was written counts from now on; the next fetch may say so."""
    write = follower.write
    if write is None or write.log.end_offset != end_offset:
        raise ValueError(f"no write of this follower ends at {end_offset}")
    effects: list[Effect] = []
    log = _follow_start(write, state.log.start_offset, effects)
    high_watermark = max(write.high_watermark, log.start_offset)
    follower = attrs.evolve(follower, write=None)
    state = attrs.evolve(state, log=log, high_watermark=high_watermark, role=follower)
    if state.parked:
        state = answer_parked(rules, arrived(state, write.size_bytes), effects)
    return state, tuple(effects)


def _follow_start(write: Write, known_start: Offset, effects: list[Effect]) -> Log:
    """Follow the leader's log start, as far as this log reaches.

    Retention may have moved our own (`known_start`) while storage was writing.
    """
    log = advanced(write.log, min(known_start, write.log.end_offset))
    start_offset = min(write.log_start_offset, log.end_offset)
    if start_offset <= log.start_offset:
        return log
    effects.append(DeleteBefore(start_offset))
    return advanced(log, start_offset)


@action("RetryFetch", FetchRefused, mirrors=())
def retry_fetch(
    rules: Rules, state: ReplicaState, event: FetchRefused, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Ask again later; a log that ends before the leader's begins starts anew there."""
    del rules
    follower = state.role
    if not isinstance(follower, Follower) or follower.write is not None:
        return state, NOTHING
    if event.leader_epoch != state.view.epoch:
        return state, NOTHING
    start = event.log_start_offset
    if event.error == ErrorCode.OFFSET_OUT_OF_RANGE and start > state.log.end_offset:
        write = Write(Log(start, start, ()), start, start)
        return attrs.evolve(state, role=Follower(None, now_ms, write)), (Reset(start),)
    later = Follower(None, now_ms + state.config.fetch_retry_ms, None)
    return attrs.evolve(state, role=later), NOTHING
