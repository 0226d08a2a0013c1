"""The table that the quorum's actions register in, and what they all use. No action is here."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Actions, Effects, Event
from protocol.quorum.effects import Refuse
from protocol.quorum.rules import Rules
from protocol.quorum.state import QuorumState
from protocol.types import Correlation

action = Actions[QuorumState, Rules]()


def refusal(state: QuorumState, correlation: Correlation, error: ErrorCode) -> Refuse:
    """Make a refusal, which tells what this node knows."""
    return Refuse(correlation, error, state.epoch, state.leader)


def not_leading(state: QuorumState) -> ErrorCode:
    """Say why a node that does not lead cannot do what only a leader does."""
    if state.failed:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def deferred(state: QuorumState, event: Event) -> tuple[QuorumState, Effects]:
    """Let an event wait until storage has answered; too many are forgotten, as by a network."""
    if event in state.deferred:
        return state, NOTHING
    if state.failed or len(state.deferred) >= state.config.max_deferred:
        correlation = getattr(event, "correlation", None)
        if correlation is None:
            return state, NOTHING
        return state, (refusal(state, correlation, ErrorCode.LEADER_NOT_AVAILABLE),)
    return attrs.evolve(state, deferred=(*state.deferred, event)), NOTHING
