"""A batch arrives: it is the next one, one that is known already, or out of order."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.actions.table import action
from protocol.idempotence.effects import Accept, AlreadyAppended, Refuse
from protocol.idempotence.events import BatchArrived
from protocol.idempotence.fold import NO_EPOCH, Entry, ProducerEpoch, packed
from protocol.idempotence.rules import Rules
from protocol.idempotence.state import (
    NOT_WRITTEN,
    Parked,
    Pending,
    SequencesState,
    Waiting,
    count_parked,
    with_pending,
)
from protocol.machine import NOTHING, Effects
from protocol.types import Offset


@action(
    "Arrive",
    BatchArrived,
    mirrors=("AppendBatch", "DuplicateAck", "RejectOutOfOrder", "RejectUnknown", "RejectFenced"),
)
def arrive(
    rules: Rules, state: SequencesState, event: BatchArrived, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Let a batch through if it is the next one, counting those that are not written yet."""
    producer_id = event.producer_id
    queue = state.pending.get(producer_id, ())
    known = _after(rules, state, queue[-1]) if queue else state.entries.get(producer_id)
    if known is not None:
        if not rules.epoch_is_current(known, event):
            return _refused(state, event, ErrorCode.INVALID_PRODUCER_EPOCH)
        if rules.is_duplicate(known, event):
            return _again(rules, state, event, now_ms)
    elif len(state.entries) >= state.config.max_producers:
        return _refused(state, event, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    if not _fits(rules, state, known, event):
        return _refused(state, event, _gap(known))
    pending = Pending(
        event.correlation, event.epoch, event.first_sequence, event.last_sequence, known
    )
    state = with_pending(state, state.pending.set(producer_id, (*queue, pending)))
    return state, (Accept(event.correlation),)


def _after(rules: Rules, state: SequencesState, pending: Pending) -> Entry:
    """Give what will be remembered once a batch is written, and all before it."""
    batch = packed(pending.first_sequence, pending.last_sequence, NOT_WRITTEN)
    return remembered(rules, state, pending.known, pending.epoch, batch, 0)


def _fits(rules: Rules, state: SequencesState, known: Entry | None, event: BatchArrived) -> bool:
    if known is None or not known.packed or event.epoch > known.epoch:
        return rules.may_start(event)
    expected = rules.next_sequence(known.last_sequence, state.config.max_sequence)
    return rules.is_next(known, event, expected)


def _gap(known: Entry | None) -> ErrorCode:
    if known is None:
        return ErrorCode.UNKNOWN_PRODUCER_ID
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def remembered(
    rules: Rules,
    state: SequencesState,
    known: Entry | None,
    epoch: ProducerEpoch,
    batch: bytes,
    now_ms: int,
) -> Entry:
    """Give what is remembered of a producer with one batch more, which is packed."""
    was, batches = (NO_EPOCH, b"") if known is None else (known.epoch, known.packed)
    kept = rules.remember(was, batches, epoch, batch, state.config.remembered)
    return Entry(epoch, kept, now_ms)


def _refused(
    state: SequencesState, event: BatchArrived, error: ErrorCode
) -> tuple[SequencesState, Effects]:
    return state, (Refuse(event.correlation, error),)


def _again(
    rules: Rules, state: SequencesState, event: BatchArrived, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Answer a batch that came before, once the first one of it is committed."""
    waiting = Waiting(event.correlation, event.acks_all, now_ms + event.timeout_ms)
    queue = state.pending.get(event.producer_id, ())
    for number, pending in enumerate(queue):
        if _is_same(pending, event):
            if count_parked(state) >= state.config.max_parked:
                return _refused(state, event, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            joined = pending._replace(waiting=(*pending.waiting, waiting))
            queue = (*queue[:number], joined, *queue[number + 1 :])
            return with_pending(state, state.pending.set(event.producer_id, queue)), NOTHING
    entry = state.entries[event.producer_id]
    base_offset = rules.duplicate_offset(entry, event, state.end_offset)
    end_offset = base_offset + record_count(state, event)
    return answer_or_park(rules, state, waiting, base_offset, end_offset)


def record_count(state: SequencesState, batch: BatchArrived | Pending) -> int:
    """Tell how many records a batch has, by its sequences."""
    more = (batch.last_sequence - batch.first_sequence) % (state.config.max_sequence + 1)
    return more + 1


def _is_same(pending: Pending, event: BatchArrived) -> bool:
    return (
        pending.epoch == event.epoch
        and pending.first_sequence == event.first_sequence
        and pending.last_sequence == event.last_sequence
    )


def answer_or_park(
    rules: Rules, state: SequencesState, waiting: Waiting, base_offset: Offset, end_offset: Offset
) -> tuple[SequencesState, Effects]:
    """Tell somebody where their batch is, now or when it is committed, as they wished."""
    if not waiting.acks_all or rules.may_answer(end_offset, state.high_watermark):
        return state, (AlreadyAppended(waiting.correlation, base_offset),)
    if count_parked(state) >= state.config.max_parked:
        return state, (Refuse(waiting.correlation, ErrorCode.THROTTLING_QUOTA_EXCEEDED),)
    parked = (*state.parked, Parked(waiting, base_offset, end_offset))
    return attrs.evolve(state, parked=parked), NOTHING
