"""Actions on what storage has done: a write counts when its completion is handled.

A completion that comes after the node's storage has failed changes nothing.
"""

from __future__ import annotations

import attrs

from protocol.machine import NOTHING, Effect, Effects
from protocol.quorum.actions.consequences import advance_high_watermark
from protocol.quorum.actions.epochs import become_leader, begin
from protocol.quorum.actions.following import learn_committed
from protocol.quorum.actions.table import action, not_leading, refusal
from protocol.quorum.effects import Deposed
from protocol.quorum.events import (
    Appended,
    Resumed,
    SnapshotInstalled,
    StorageFailed,
    Truncated,
    VoteSaved,
)
from protocol.quorum.log import compacted, from_snapshot
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    NOBODY,
    Appending,
    Cutting,
    Installing,
    Leader,
    QuorumState,
    Unattached,
    Write,
    with_log,
)
from protocol.replication.log import appended, truncated


@action(
    "FinishSaving",
    VoteSaved,
    mirrors=("TimeOut", "PreVote", "HandleVoteRequest", "LearnLeader", "LearnEpoch"),
)
def finish_saving(
    rules: Rules, state: QuorumState, event: VoteSaved, now_ms: int
) -> tuple[QuorumState, Effects]:
    """The epoch and the vote are durable: what they are for begins, and may be said."""
    del event
    if state.failed:
        return state, NOTHING
    if state.saving is None:
        raise ValueError("no vote of this node is being saved")
    effects: list[Effect] = []
    return begin(rules, state, state.saving, now_ms, effects), tuple(effects)


def _first_write(state: QuorumState, kind: type[Write], end_offset: int | None) -> Write:
    write = state.writes[0] if state.writes else None
    if not isinstance(write, kind):
        raise ValueError(f"this node waits for no {kind.__name__}")
    if not isinstance(write, Installing) and write.end_offset != end_offset:
        raise ValueError(f"this node waits for a write that ends at {write.end_offset}")
    return write


@action(
    "FinishAppend",
    Appended,
    mirrors=("AppendRecord", "FollowerHandleAnswer", "HandleVote", "TimeOut"),
)
def finish_append(
    rules: Rules, state: QuorumState, event: Appended, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Records are in the log: a leader's own, what a follower fetched, or the first of an epoch."""
    if state.failed:
        return state, NOTHING
    write = _first_write(state, Appending, event.end_offset)
    if not isinstance(write, Appending):
        return state, NOTHING
    log, role = state.log, state.role
    for epoch, record_count in write.epochs:
        log = appended(log, epoch, log.end_offset + record_count)
    effects: list[Effect] = []
    state = with_log(state, role, log, state.high_watermark, state.writes[1:])
    if write.leads:
        start_offset = log.end_offset - len(write.epochs)
        return become_leader(rules, state, start_offset, now_ms, effects), tuple(effects)
    if write.high_watermark is not None:
        return learn_committed(state, write.high_watermark, effects), tuple(effects)
    if isinstance(role, Leader):
        state = advance_high_watermark(rules, state, role, effects)
    return state, tuple(effects)


@action("FinishTruncation", Truncated, mirrors=("FollowerHandleAnswer",))
def finish_truncation(
    rules: Rules, state: QuorumState, event: Truncated, now_ms: int
) -> tuple[QuorumState, Effects]:
    """The log is cut to where it agrees with the leader's."""
    del rules, now_ms
    if state.failed:
        return state, NOTHING
    _first_write(state, Cutting, event.end_offset)
    log = truncated(state.log, event.end_offset)
    return with_log(state, state.role, log, state.high_watermark, state.writes[1:]), NOTHING


@action(
    "FinishInstallation", SnapshotInstalled, mirrors=("FollowerHandleAnswer", "HandleLateSnapshot")
)
def finish_installation(
    rules: Rules, state: QuorumState, event: SnapshotInstalled, now_ms: int
) -> tuple[QuorumState, Effects]:
    """The log begins with the snapshot."""
    del rules, event, now_ms
    if state.failed:
        return state, NOTHING
    write = _first_write(state, Installing, None)
    if not isinstance(write, Installing):
        return state, NOTHING
    end = write.snapshot.end_offset
    log = compacted(state.log, end) if write.keeps_log else from_snapshot(write.snapshot)
    state = with_log(state, state.role, log, state.high_watermark, state.writes[1:])
    effects: list[Effect] = []
    return learn_committed(state, max(state.high_watermark, end), effects), tuple(effects)


@action("FailStorage", StorageFailed, mirrors=())
def fail_storage(
    rules: Rules, state: QuorumState, event: StorageFailed, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Take no part any more: what the disk holds is not known. Only a restart ends this."""
    del rules, event, now_ms
    if state.failed:
        return state, NOTHING
    effects: list[Effect] = []
    after = attrs.evolve(
        state, role=Unattached(), leader=NOBODY, writes=(), parked=(), saving=None, deferred=(),
        failed=True,
    )  # fmt: skip
    effects.extend(refusal(after, each.correlation, not_leading(after)) for each in state.parked)
    if isinstance(state.role, Leader):
        effects.append(Deposed(state.epoch))
    return after, tuple(effects)


@action(
    "Resume",
    Resumed,
    mirrors=(
        "HandleVoteRequest",
        "PreVote",
        "LearnLeader",
        "LearnEpoch",
        "Resign",
        "FollowerHandleAnswer",
        "HandleLateSnapshot",
    ),
)
def resume(
    rules: Rules, state: QuorumState, event: Resumed, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Handle what had to wait for storage."""
    if state.saving is not None or state.writes or event.event not in state.deferred:
        return state, NOTHING
    rest = tuple(each for each in state.deferred if each != event.event)
    state = attrs.evolve(state, deferred=rest)
    after, effects = action.by_event[type(event.event)].run(rules, state, event.event, now_ms)
    return after, effects
