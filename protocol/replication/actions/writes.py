"""Actions on what storage has done: a write counts when its completion is handled.

A completion that comes after the replica went offline or was deleted changes nothing.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.replication.actions.consequences import abandon
from protocol.replication.actions.follow import complete_write
from protocol.replication.actions.produce import finish_append, without_writes
from protocol.replication.actions.table import action
from protocol.replication.events import (
    Appended,
    AppendsRefused,
    RetentionDeleted,
    StorageFailed,
    Truncated,
)
from protocol.replication.log import advanced
from protocol.replication.rules import Rules
from protocol.replication.state import Follower, Leader, ReplicaState, Status


@action("FinishAppend", Appended, mirrors=("Produce", "FollowerHandleAnswer"))
def finish_appending(
    rules: Rules, state: ReplicaState, event: Appended, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """A producer's batch is in the log; or, at a follower, what it fetched is."""
    if isinstance(state.role, Leader):
        return finish_append(rules, state, state.role, event.end_offset, now_ms)
    if isinstance(state.role, Follower):
        return complete_write(rules, state, state.role, event.end_offset)
    return state, NOTHING


@action("RefuseAppends", AppendsRefused, mirrors=())
def refuse_appends(
    rules: Rules, state: ReplicaState, event: AppendsRefused, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """The disk is full: producers are told, a follower asks again later, the log stays as it is."""
    del rules, event
    role = state.role
    if isinstance(role, Leader):
        effects: list[Effect] = []
        leader = without_writes(role, state.log.end_offset, effects)
        return attrs.evolve(state, role=leader), tuple(effects)
    if isinstance(role, Follower) and role.write is not None:
        if role.write.log.end_offset <= state.log.end_offset:
            raise ValueError("this follower cuts its log: it has no append to refuse")
        retry_ms = now_ms + state.config.fetch_retry_ms
        follower = attrs.evolve(role, write=None, next_fetch_ms=retry_ms)
        return attrs.evolve(state, role=follower), NOTHING
    return state, NOTHING


@action("FinishTruncation", Truncated, mirrors=("FollowerHandleAnswer", "BecomeFollower"))
def finish_truncating(
    rules: Rules, state: ReplicaState, event: Truncated, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """The log is cut, as an answer or the start of following asked for."""
    del now_ms
    if isinstance(state.role, Follower):
        return complete_write(rules, state, state.role, event.end_offset)
    return state, NOTHING


@action("DeleteOldSegments", RetentionDeleted, mirrors=())
def delete_old_segments(
    rules: Rules, state: ReplicaState, event: RetentionDeleted, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """The log begins later now. Only what is committed may be deleted."""
    del rules, now_ms
    log = advanced(state.log, event.start_offset)
    if log is state.log:
        return state, NOTHING
    return attrs.evolve(state, log=log), NOTHING


@action("FailStorage", StorageFailed, mirrors=())
def fail_storage(
    rules: Rules, state: ReplicaState, event: StorageFailed, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Go offline: what the log holds is not known any more. Only a restart ends this."""
    del rules, event, now_ms
    if state.status in (Status.OFFLINE, Status.DELETED):
        return state, NOTHING
    effects: list[Effect] = []
    abandon(state, ErrorCode.KAFKA_STORAGE_ERROR, effects)
    return without_role(state, Status.OFFLINE), tuple(effects)


def without_role(state: ReplicaState, status: Status) -> ReplicaState:
    """Give the state of a replica that takes part no more; what it knows stays."""
    return attrs.evolve(state, role=None, parked=(), deferred=None, status=status)
