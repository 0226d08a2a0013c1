"""Leadership comes and goes, producers fall silent, and nobody waits for ever."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.actions.completions import refuse_waiting
from protocol.idempotence.actions.table import action
from protocol.idempotence.effects import DropSnapshot, Refuse
from protocol.idempotence.events import (
    LeadershipBegun,
    LeadershipEnded,
    ParkedExpired,
    ProducerIdle,
    RequestAbandoned,
    SweepDone,
)
from protocol.idempotence.fold import NO_SNAPSHOT
from protocol.idempotence.rules import Rules
from protocol.idempotence.state import EMPTY, Pending, SequencesState
from protocol.machine import NOTHING, Effects


@action("LeaderChange", LeadershipBegun)
def begin_leadership(
    rules: Rules, state: SequencesState, event: LeadershipBegun, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Start from what the log says now, which may have been cut; nobody waits yet."""
    config, snapshot = state.config, event.snapshot
    kept = rules.keeps_snapshot(snapshot, event.end_offset)
    entries = rules.state_after_truncation(
        state.entries,
        snapshot if kept else NO_SNAPSHOT,
        event.written,
        rules.remember,
        config.remembered,
    )
    after = SequencesState(
        config=config,
        entries=entries,
        end_offset=event.end_offset,
        high_watermark=event.high_watermark,
        sweep_ms=now_ms + config.sweep_interval_ms if entries else None,
    )
    dropped = () if kept else (DropSnapshot(snapshot.offset),)
    return after, (*dropped, *_refuse_all(state))


@action("EndLeadership", LeadershipEnded, mirrors=())
def end_leadership(
    rules: Rules, state: SequencesState, event: LeadershipEnded, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Let go of everybody; what is remembered stays, until the log says otherwise."""
    del rules, event, now_ms
    if not state.pending and not state.parked:
        return state, NOTHING
    return attrs.evolve(state, pending=EMPTY, parked=()), _refuse_all(state)


def _refuse_all(state: SequencesState) -> tuple[Refuse, ...]:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    unwritten: list[Pending] = [
        each for _, queue in sorted(state.pending.items()) for each in queue
    ]
    parked = (Refuse(each.waiting.correlation, error) for each in state.parked)
    return (*refuse_waiting(unwritten, error), *parked)


@action("Expire", ProducerIdle)
def expire(
    rules: Rules, state: SequencesState, event: ProducerIdle, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Forget a producer that has been silent for long; not one that is just being written."""
    entry = state.entries.get(event.producer_id)
    if entry is None or event.producer_id in state.pending:
        return state, NOTHING
    if not rules.may_expire(entry, now_ms, state.config.expiry_ms):
        return state, NOTHING
    return attrs.evolve(state, entries=state.entries.delete(event.producer_id)), NOTHING


@action("FinishSweep", SweepDone, mirrors=())
def finish_sweep(
    rules: Rules, state: SequencesState, event: SweepDone, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Look again in a while, if there is anybody."""
    del rules, event
    if state.sweep_ms is None or now_ms < state.sweep_ms:
        return state, NOTHING
    sweep_ms = now_ms + state.config.sweep_interval_ms if state.entries else None
    return attrs.evolve(state, sweep_ms=sweep_ms), NOTHING


@action("ExpireParked", ParkedExpired, mirrors=())
def expire_parked(
    rules: Rules, state: SequencesState, event: ParkedExpired, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Tell those whose time is over; their batch stays, and may well be committed."""
    del rules, event
    kept = tuple(each for each in state.parked if each.waiting.expires_ms > now_ms)
    if len(kept) == len(state.parked):
        return state, NOTHING
    expired = (each for each in state.parked if each.waiting.expires_ms <= now_ms)
    refusals = tuple(
        Refuse(each.waiting.correlation, ErrorCode.REQUEST_TIMED_OUT) for each in expired
    )
    return attrs.evolve(state, parked=kept), refusals


@action("Abandon", RequestAbandoned, mirrors=())
def abandon(
    rules: Rules, state: SequencesState, event: RequestAbandoned, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Nobody hears the answer any more, so nobody needs to wait for it."""
    del rules, now_ms
    gone = event.correlation
    parked = tuple(each for each in state.parked if each.waiting.correlation != gone)
    pending = state.pending
    for producer_id, queue in state.pending.items():
        left = tuple(
            each._replace(waiting=tuple(one for one in each.waiting if one.correlation != gone))
            for each in queue
        )
        if left != queue:
            pending = pending.set(producer_id, left)
    if pending is state.pending and len(parked) == len(state.parked):
        return state, NOTHING
    return attrs.evolve(state, pending=pending, parked=parked), NOTHING
