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
    UNKNOWN_OFFSET,
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
    mirrors=(
        *("AppendBatch", "DuplicateAck", "OlderDuplicate"),
        *("RejectOutOfOrder", "RejectUnknown", "RejectFenced"),
    ),
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
        if known is not None and _was_before(rules, state, known, event):
            return _again_unremembered(rules, state, event, now_ms)
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


def _was_before(rules: Rules, state: SequencesState, known: Entry, event: BatchArrived) -> bool:
    return rules.was_appended_before(known, event, state.config.max_sequence)


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
    joined = _join_pending(state, event, waiting)
    if joined is not None:
        return joined
    entry = state.entries[event.producer_id]
    base_offset = rules.duplicate_offset(entry, event, state.end_offset)
    end_offset = base_offset + record_count(state, event)
    return answer_or_park(rules, state, waiting, base_offset, end_offset)


def _again_unremembered(
    rules: Rules, state: SequencesState, event: BatchArrived, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Answer a batch that is somewhere before those remembered, once these are committed."""
    waiting = Waiting(event.correlation, event.acks_all, now_ms + event.timeout_ms)
    joined = _join_pending(state, event, waiting)
    if joined is not None:
        return joined
    entry = state.entries.get(event.producer_id)
    later = entry.batches[0].base_offset + 1 if entry and entry.packed else state.end_offset
    return answer_or_park(rules, state, waiting, UNKNOWN_OFFSET, later)


def _join_pending(
    state: SequencesState, event: BatchArrived, waiting: Waiting
) -> tuple[SequencesState, Effects] | None:
    """Let somebody wait for the first batch of theirs, if that is being written."""
    queue = state.pending.get(event.producer_id, ())
    for number, pending in enumerate(queue):
        if _is_same(pending, event):
            if count_parked(state) >= state.config.max_parked:
                return _refused(state, event, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            joined = pending._replace(waiting=(*pending.waiting, waiting))
            queue = (*queue[:number], joined, *queue[number + 1 :])
            return with_pending(state, state.pending.set(event.producer_id, queue)), NOTHING
    return None


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
        return state, (already_appended(waiting, base_offset),)
    if count_parked(state) >= state.config.max_parked:
        return state, (Refuse(waiting.correlation, ErrorCode.THROTTLING_QUOTA_EXCEEDED),)
    parked = (*state.parked, Parked(waiting, base_offset, end_offset))
    return attrs.evolve(state, parked=parked), NOTHING


def already_appended(waiting: Waiting, base_offset: Offset) -> AlreadyAppended | Refuse:
    """Tell somebody that their batch is in the log, and where if that is known."""
    if base_offset == UNKNOWN_OFFSET:
        return Refuse(waiting.correlation, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    return AlreadyAppended(waiting.correlation, base_offset)
