"""Storage has answered, or somebody else has said no: what was let through is written, or falls."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.actions.arrivals import (
    already_appended,
    answer_or_park,
    record_count,
    remembered,
)
from protocol.idempotence.actions.table import action
from protocol.idempotence.effects import Refuse
from protocol.idempotence.events import (
    AppendsRefused,
    BatchAppended,
    BatchRefused,
    HighWatermarkAdvanced,
    MarkerAppended,
)
from protocol.idempotence.fold import packed, with_marker
from protocol.idempotence.rules import Rules
from protocol.idempotence.state import (
    EMPTY,
    Pending,
    PendingByProducer,
    SequencesState,
    with_pending,
)
from protocol.machine import NOTHING, Effect, Effects


@action("FinishAppend", BatchAppended, mirrors=("AppendBatch",))
def finish_append(
    rules: Rules, state: SequencesState, event: BatchAppended, now_ms: int
) -> tuple[SequencesState, Effects]:
    """A batch is in the log: remember it, and where. The spec's `AppendBatch` ends here."""
    producer_id = event.producer_id
    queue = state.pending.get(producer_id, ())
    if not queue:
        raise ValueError(f"no batch of producer {producer_id} was let through")
    first = queue[0]
    batch = packed(first.first_sequence, first.last_sequence, event.base_offset)
    known = state.entries.get(producer_id)
    entry = remembered(rules, state, known, first.epoch, batch, now_ms)
    sweep_ms = state.sweep_ms
    if sweep_ms is None:
        sweep_ms = now_ms + state.config.sweep_interval_ms
    state = SequencesState(
        state.config,
        state.entries.set(producer_id, entry),
        _without_first(state.pending, producer_id, queue),
        state.parked,
        event.base_offset + record_count(state, first),
        state.high_watermark,
        sweep_ms,
    )
    return _found(rules, state, first, event) if first.waiting else (state, NOTHING)


def _without_first(
    pending: PendingByProducer, producer_id: int, queue: tuple[Pending, ...]
) -> PendingByProducer:
    if len(queue) == 1:
        return pending.delete(producer_id)
    return pending.set(producer_id, queue[1:])


def _found(
    rules: Rules, state: SequencesState, pending: Pending, event: BatchAppended
) -> tuple[SequencesState, Effects]:
    """Answer, or park, those who sent the batch again while it was being written."""
    end_offset = event.base_offset + record_count(state, pending)
    effects: list[Effect] = []
    for waiting in pending.waiting:
        state, more = answer_or_park(rules, state, waiting, event.base_offset, end_offset)
        effects.extend(more)
    return state, tuple(effects)


@action("TakeBack", BatchRefused, mirrors=())
def take_back(
    rules: Rules, state: SequencesState, event: BatchRefused, now_ms: int
) -> tuple[SequencesState, Effects]:
    """A batch is not going to be written: it falls, and those that were checked against it."""
    del rules, now_ms
    queue = state.pending.get(event.producer_id, ())
    kept = next((n for n, each in enumerate(queue) if each.correlation == event.correlation), None)
    if kept is None:
        return state, NOTHING
    if kept:
        pending = state.pending.set(event.producer_id, queue[:kept])
    else:
        pending = state.pending.delete(event.producer_id)
    later = tuple(each.correlation for each in queue[kept + 1 :])
    effects = (
        *(Refuse(each, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) for each in later),
        *refuse_waiting(queue[kept:], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    )
    return with_pending(state, pending), effects


@action("TakeAllBack", AppendsRefused, mirrors=())
def take_all_back(
    rules: Rules, state: SequencesState, event: AppendsRefused, now_ms: int
) -> tuple[SequencesState, Effects]:
    """Nothing in flight was written. The replica tells those who sent it; repeats are told here."""
    del rules, event, now_ms
    if not state.pending:
        return state, NOTHING
    queues = [queue for _, queue in sorted(state.pending.items())]
    everyone = tuple(each for queue in queues for each in queue)
    refusals = refuse_waiting(everyone, ErrorCode.KAFKA_STORAGE_ERROR)
    return with_pending(state, EMPTY), refusals


def refuse_waiting(batches: Iterable[Pending], error: ErrorCode) -> tuple[Refuse, ...]:
    """Refuse those who sent one of these batches again."""
    return tuple(Refuse(each.correlation, error) for batch in batches for each in batch.waiting)


@action("RaiseEpoch", MarkerAppended, mirrors=())
def raise_epoch(
    rules: Rules, state: SequencesState, event: MarkerAppended, now_ms: int
) -> tuple[SequencesState, Effects]:
    """A transaction's end is in the log: its producer begins anew if that has another epoch."""
    del rules
    entry = with_marker(state.entries.get(event.producer_id), event.epoch, now_ms)
    sweep_ms = state.sweep_ms
    if sweep_ms is None:
        sweep_ms = now_ms + state.config.sweep_interval_ms
    entries = state.entries.set(event.producer_id, entry)
    return attrs.evolve(state, entries=entries, sweep_ms=sweep_ms), NOTHING


@action("Commit", HighWatermarkAdvanced)
def commit(
    rules: Rules, state: SequencesState, event: HighWatermarkAdvanced, now_ms: int
) -> tuple[SequencesState, Effects]:
    """More is committed: answer those who waited for it."""
    del now_ms
    high_watermark = event.high_watermark
    if high_watermark <= state.high_watermark:
        return state, NOTHING
    done = [each for each in state.parked if rules.may_answer(each.end_offset, high_watermark)]
    answers = tuple(already_appended(each.waiting, each.base_offset) for each in done)
    kept = tuple(each for each in state.parked if each not in done) if done else state.parked
    after = SequencesState(
        state.config,
        state.entries,
        state.pending,
        kept,
        state.end_offset,
        high_watermark,
        state.sweep_ms,
    )
    return after, answers
