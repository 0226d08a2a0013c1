"""What a client does about each event, for one partition.

At most one request of a batch is under way. A batch that is to be sent again waits until it is the
first in flight: only then is an answer about it conclusive. New ones wait for that too.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.client_events import (
    AnswerReceived,
    AskForEpoch,
    BatchReady,
    Delivered,
    DeliveryExpired,
    EpochGranted,
    Failed,
    NotYet,
    RequestLost,
    RetryDue,
    SendBatch,
)
from protocol.idempotence.client_state import ClientState, InFlight, Standing
from protocol.idempotence.fold import Sequence
from protocol.idempotence.rules import FIRST_SEQUENCE, Reaction, Rules
from protocol.machine import NOTHING, Actions, Effect, Effects

action = Actions[ClientState, Rules]()

_WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


@action("Send", BatchReady)
def send(
    rules: Rules, state: ClientState, event: BatchReady, now_ms: int
) -> tuple[ClientState, Effects]:
    """Give the next batch its sequences and send it, unless others come first."""
    if event.record_count < 1 or event.record_count > state.config.max_sequence:
        raise ValueError(f"a batch of {event.record_count} records")
    if not may_send(rules, state):
        return state, (NotYet(event.batch),)
    batch = InFlight(
        batch=event.batch,
        number=state.next_number,
        first_sequence=state.next_sequence,
        record_count=event.record_count,
        standing=Standing.WAITS,
        first=not state.in_flight,
        loose=False,
        doubtful=False,
        expires_ms=now_ms + state.config.delivery_timeout_ms,
    )
    state = attrs.evolve(
        state,
        next_sequence=rules.next_sequence(_last(state, batch), state.config.max_sequence),
        next_number=rules.next_sequence(state.next_number, state.config.max_sequence),
        in_flight=(*state.in_flight, batch),
    )
    return state, (_request(state, batch),)


def may_send(rules: Rules, state: ClientState) -> bool:
    """Whether a new batch would be sent at once."""
    return (
        not state.bump
        and rules.may_send(state.in_flight, state.next_number, state.next_sequence, state.config)
        and all(batch.standing is Standing.WAITS for batch in state.in_flight)
    )


def _last(state: ClientState, batch: InFlight) -> Sequence:
    return (batch.first_sequence + batch.record_count - 1) % (state.config.max_sequence + 1)


def _request(state: ClientState, batch: InFlight) -> SendBatch:
    last = _last(state, batch)
    return SendBatch(batch.batch, state.producer_id, state.epoch, batch.first_sequence, last)


@action("Retry", RequestLost)
def lose_request(
    rules: Rules, state: ClientState, event: RequestLost, now_ms: int
) -> tuple[ClientState, Effects]:
    """Nobody knows what became of a request: send its batch again, in its turn."""
    at = _waiting_at(state, event.batch)
    if at is None:
        return state, NOTHING
    lost = attrs.evolve(state.in_flight[at], standing=Standing.UNSURE, loose=True, doubtful=True)
    return _proceed(rules, _with(state, at, lost), now_ms, [])


@action("HandleAnswer", AnswerReceived)
def handle_answer(
    rules: Rules, state: ClientState, event: AnswerReceived, now_ms: int
) -> tuple[ClientState, Effects]:
    """The batch is delivered; or it is to be sent again, in a new epoch perhaps; or it failed."""
    at = _waiting_at(state, event.batch)
    if at is None:
        return state, NOTHING
    batch, error = state.in_flight[at], event.error
    if error in _WRITTEN:
        done = [Delivered(batch.batch, event.base_offset)]
        return _proceed(rules, _without(state, at), now_ms, done)
    reaction = rules.reaction(error, batch.first)
    if reaction is Reaction.FAIL:
        failed = [Failed(batch.batch, error, unknown=batch.doubtful)]
        return _proceed(rules, _without(state, at), now_ms, failed)
    refused = rules.is_refusal(error)
    standing = Standing.REFUSED if refused else Standing.UNSURE
    doubtful = batch.doubtful or not refused
    state = _with(state, at, attrs.evolve(batch, standing=standing, doubtful=doubtful))
    if reaction is Reaction.BUMP:
        state = attrs.evolve(state, bump=True)
    return _proceed(rules, state, now_ms, [])


@action("GiveUp", DeliveryExpired)
def give_up(
    rules: Rules, state: ClientState, event: DeliveryExpired, now_ms: int
) -> tuple[ClientState, Effects]:
    """Stop trying to deliver the first batch in flight; what became of it will not be known."""
    del event
    if not state.in_flight or now_ms < state.in_flight[0].expires_ms:
        return state, NOTHING
    batch = state.in_flight[0]
    unknown = batch.doubtful or batch.standing is Standing.WAITS
    failed = [Failed(batch.batch, ErrorCode.REQUEST_TIMED_OUT, unknown=unknown)]
    return _proceed(rules, _without(state, 0), now_ms, failed)


@action("InitEpoch", EpochGranted)
def init_epoch(
    rules: Rules, state: ClientState, event: EpochGranted, now_ms: int
) -> tuple[ClientState, Effects]:
    """Go on in a new epoch, with sequences from the start.

    Batches that are surely not in the log are numbered anew and sent again in their turn; the
    others have failed, because nobody knows what became of them.
    """
    if not state.bump or not rules.may_bump(state.in_flight):
        return state, NOTHING
    kept: list[InFlight] = []
    effects: list[Effect] = []
    sequence = FIRST_SEQUENCE
    for batch in state.in_flight:
        if not rules.may_renumber(batch):
            error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            effects.append(Failed(batch.batch, error, unknown=batch.doubtful))
            continue
        renumbered = attrs.evolve(batch, number=len(kept), first_sequence=sequence, doubtful=False)
        kept.append(renumbered)
        sequence = rules.next_sequence(_last(state, renumbered), state.config.max_sequence)
    state = ClientState(
        producer_id=event.producer_id,
        config=state.config,
        epoch=event.epoch,
        next_sequence=sequence,
        next_number=len(kept),
        in_flight=tuple(kept),
    )
    return _proceed(rules, state, now_ms, effects)


@action("Resend", RetryDue, mirrors=("Retry", "HandleAnswer", "GiveUp", "InitEpoch"))
def resend(
    rules: Rules, state: ClientState, event: RetryDue, now_ms: int
) -> tuple[ClientState, Effects]:
    """Send the first in flight again, with the sequence that it has."""
    del event
    if state.resend_ms is None or now_ms < state.resend_ms:
        return state, NOTHING
    batch = state.in_flight[0]
    sequence = rules.retry_sequence(batch, state.next_sequence)
    batch = attrs.evolve(batch, standing=Standing.WAITS, first=True, first_sequence=sequence)
    state = attrs.evolve(_with(state, 0, batch), resend_ms=None)
    return state, (_request(state, batch),)


def _proceed(
    rules: Rules,
    state: ClientState,
    now_ms: int,
    effects: list[Delivered] | list[Failed] | list[Effect],
) -> tuple[ClientState, Effects]:
    """Have the first in flight sent again if nothing of it is under way, or the epoch changed."""
    again = (
        bool(state.in_flight)
        and not state.bump
        and state.in_flight[0].standing is not Standing.WAITS
    )
    if not again:
        resend_ms = None
    elif state.resend_ms is None:
        resend_ms = now_ms + state.config.retry_backoff_ms
    else:
        resend_ms = state.resend_ms
    if resend_ms != state.resend_ms:
        state = attrs.evolve(state, resend_ms=resend_ms)
    if state.bump and rules.may_bump(state.in_flight):
        return state, (*effects, AskForEpoch(state.producer_id, state.epoch))
    return state, tuple(effects)


def _waiting_at(state: ClientState, name: object) -> int | None:
    """Find a batch whose answer is waited for; what comes for another is of the past."""
    for at, batch in enumerate(state.in_flight):
        if batch.batch == name:
            return at if batch.standing is Standing.WAITS else None
    return None


def _with(state: ClientState, at: int, batch: InFlight) -> ClientState:
    in_flight = (*state.in_flight[:at], batch, *state.in_flight[at + 1 :])
    return attrs.evolve(state, in_flight=in_flight)


def _without(state: ClientState, at: int) -> ClientState:
    return attrs.evolve(state, in_flight=state.in_flight[:at] + state.in_flight[at + 1 :])
