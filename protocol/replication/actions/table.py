"""The table that the actions of a replica register in, and what they all use. No action is here."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.machine import Actions
from protocol.replication.effects import Refuse
from protocol.replication.rules import Rules
from protocol.replication.state import ReplicaState, Status
from protocol.types import Correlation, Epoch

action = Actions[ReplicaState, Rules]()

_CLOSED = {
    Status.RESIGNED: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Status.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
    Status.DELETED: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def not_leading(state: ReplicaState) -> ErrorCode:
    """Say why a replica that does not lead cannot do what only a leader does."""
    return _CLOSED.get(state.status, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def fenced(state: ReplicaState, claimed: Epoch | None) -> ErrorCode | None:
    """KIP-320: compare the epoch that a client claims to know, if it does, with ours."""
    if claimed is None or claimed == state.view.epoch:
        return None
    if claimed < state.view.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def refuse(
    state: ReplicaState, correlation: Correlation, error: ErrorCode
) -> tuple[ReplicaState, tuple[Refuse]]:
    """Refuse a request and change nothing."""
    return state, (Refuse(correlation, error, state.log.start_offset),)
