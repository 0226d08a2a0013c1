"""Actions that only tell: where an epoch ends, which offset a time has; and deleting on request."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import Effects
from protocol.replication.actions.table import action, fenced, not_leading, refuse
from protocol.replication.effects import DeleteBefore, FindOffset, SendEpochEnd, SendOffset
from protocol.replication.events import DeleteRecordsAsked, EpochEndAsked, OffsetAsked
from protocol.replication.log import advanced, epoch_end
from protocol.replication.rules import Rules
from protocol.replication.state import Leader, ReplicaState
from protocol.types import Epoch


def _objection(state: ReplicaState, claimed: Epoch | None) -> ErrorCode | None:
    if not isinstance(state.role, Leader):
        return not_leading(state)
    return fenced(state, claimed)


@action("TellEpochEnd", EpochEndAsked, mirrors=())
def tell_epoch_end(
    rules: Rules, state: ReplicaState, event: EpochEndAsked, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """OffsetsForLeaderEpoch (KIP-320): consumers find out by it whether their log was cut."""
    del rules, now_ms
    error = _objection(state, event.leader_epoch)
    if error is not None:
        return refuse(state, event.correlation, error)
    return state, (SendEpochEnd(event.correlation, epoch_end(state.log, event.epoch)),)


@action("TellOffset", OffsetAsked, mirrors=())
def tell_offset(
    rules: Rules, state: ReplicaState, event: OffsetAsked, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """ListOffsets. The end that consumers see is the high watermark.

    KIP-207: a new leader does not tell it before it has reached the start of its own epoch, or the
    end would seem to go back.
    """
    del now_ms
    leader = state.role
    error = _objection(state, event.leader_epoch)
    if error is not None or not isinstance(leader, Leader):
        return refuse(state, event.correlation, error or not_leading(state))
    if event.timestamp_ms < OffsetAsked.EARLIEST:
        return refuse(state, event.correlation, ErrorCode.INVALID_REQUEST)
    epoch = state.view.epoch
    if event.timestamp_ms == OffsetAsked.EARLIEST:
        return state, (SendOffset(event.correlation, state.log.start_offset, epoch),)
    if state.high_watermark < leader.epoch_start_offset:
        return refuse(state, event.correlation, ErrorCode.OFFSET_NOT_AVAILABLE)
    limit = rules.read_limit(state.log, state.high_watermark)
    if event.timestamp_ms == OffsetAsked.LATEST:
        return state, (SendOffset(event.correlation, limit, epoch),)
    return state, (FindOffset(event.correlation, event.timestamp_ms, limit),)


@action("DeleteRecords", DeleteRecordsAsked, mirrors=())
def delete_records(
    rules: Rules, state: ReplicaState, event: DeleteRecordsAsked, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Move the log's start, at most to the high watermark; followers learn it by their fetches."""
    del rules, now_ms
    error = _objection(state, None)
    if error is not None:
        return refuse(state, event.correlation, error)
    start = state.high_watermark if event.before_offset == -1 else event.before_offset
    if not 0 <= start <= state.high_watermark:
        return refuse(state, event.correlation, ErrorCode.OFFSET_OUT_OF_RANGE)
    log = advanced(state.log, start)
    answer = SendOffset(event.correlation, log.start_offset, state.view.epoch)
    if log is state.log:
        return state, (answer,)
    return attrs.evolve(state, log=log), (DeleteBefore(log.start_offset), answer)
