"""The leader's actions on who is in sync: propose a change, ask again, take it back."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.replication.actions.consequences import advance_high_watermark
from protocol.replication.actions.table import action
from protocol.replication.effects import SendProposal
from protocol.replication.events import (
    FollowerCaughtUp,
    FollowerLagged,
    ProposalRefused,
    ProposalUnanswered,
)
from protocol.replication.rules import Rules
from protocol.replication.state import Leader, Progress, Proposed, ReplicaState, progress_of
from protocol.types import BrokerEpoch, NodeId


def may_expand(rules: Rules, state: ReplicaState, leader: Leader, follower: Progress) -> bool:
    """Whether the leader would now propose to add this follower."""
    return (
        leader.proposed is None
        and follower.node not in state.view.isr
        and follower.broker_epoch > 0
        and rules.may_join_isr(follower, state.high_watermark, leader.epoch_start_offset)
    )


def may_shrink(rules: Rules, state: ReplicaState, leader: Leader, follower: Progress) -> bool:
    """Whether the leader would propose to remove this follower, had it lagged for long enough."""
    return (
        leader.proposed is None
        and follower.node in state.view.isr
        and rules.may_leave_isr(follower, state.log.end_offset)
    )


@action("ExpandIsr", FollowerCaughtUp)
def expand_isr(
    rules: Rules, state: ReplicaState, event: FollowerCaughtUp, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Propose to add a follower; from now on the high watermark waits for it."""
    leader = state.role
    if not isinstance(leader, Leader) or leader.expand_after_ms > now_ms:
        return state, NOTHING
    follower = progress_of(leader, event.follower)
    if follower is None or not may_expand(rules, state, leader, follower):
        return state, NOTHING
    isr = state.view.isr | {follower.node}
    return _propose(state, leader, isr, follower.broker_epoch, now_ms)


@action("ShrinkIsr", FollowerLagged)
def shrink_isr(
    rules: Rules, state: ReplicaState, event: FollowerLagged, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Propose to remove a follower; until that is committed, the high watermark still waits."""
    leader = state.role
    if not isinstance(leader, Leader):
        return state, NOTHING
    follower = progress_of(leader, event.follower)
    if follower is None or not may_shrink(rules, state, leader, follower):
        return state, NOTHING
    if lags_since_ms(state, follower) > now_ms:
        return state, NOTHING
    return _propose(state, leader, state.view.isr - {follower.node}, 0, now_ms)


def lags_since_ms(state: ReplicaState, follower: Progress) -> int:
    """Tell when a follower that stays behind has been so for too long."""
    return follower.caught_up_ms + state.config.replica_lag_max_ms


def _propose(
    state: ReplicaState,
    leader: Leader,
    isr: frozenset[NodeId],
    joiner: BrokerEpoch,
    now_ms: int,
) -> tuple[ReplicaState, Effects]:
    proposed = Proposed(isr, 1, now_ms + state.config.proposal_retry_ms)
    view = attrs.evolve(state.view, pending=isr, joiner=joiner)
    state = attrs.evolve(state, view=view, role=attrs.evolve(leader, proposed=proposed))
    return state, (_request(state, proposed),)


def _request(state: ReplicaState, proposed: Proposed) -> SendProposal:
    view = state.view
    joins = not proposed.isr <= view.isr
    return SendProposal(
        state.broker_epoch, view.epoch, view.version, proposed.isr, view.joiner if joins else 0
    )


@action("AskAgain", ProposalUnanswered, mirrors=())
def ask_again(
    rules: Rules, state: ReplicaState, event: ProposalUnanswered, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Send a proposal again: nobody knows whether the controller has seen it."""
    del rules
    leader = state.role
    if not isinstance(leader, Leader) or leader.proposed is None:
        return state, NOTHING
    if event.version != state.view.version or leader.proposed.retry_ms > now_ms:
        return state, NOTHING
    return _send_again(state, leader, leader.proposed.isr, now_ms)


def _send_again(
    state: ReplicaState, leader: Leader, isr: frozenset[NodeId], now_ms: int
) -> tuple[ReplicaState, Effects]:
    attempts = leader.proposed.attempts if leader.proposed else 0
    proposed = Proposed(isr, attempts + 1, now_ms + state.config.proposal_retry_ms)
    state = attrs.evolve(state, role=attrs.evolve(leader, proposed=proposed))
    return state, (_request(state, proposed),)


@action("RejectIsr", ProposalRefused)
def reject_isr(
    rules: Rules, state: ReplicaState, event: ProposalRefused, now_ms: int
) -> tuple[ReplicaState, Effects]:
    """Take a proposal back that the controller refuses, because of who would join.

    Any other error says that the record is another one by now, or that this was not the controller:
    the proposal stays, for it may be committed, until newer metadata says what became of it.
    """
    leader = state.role
    if not isinstance(leader, Leader) or leader.proposed is None:
        return state, NOTHING
    if event.version != state.view.version or event.error != ErrorCode.INELIGIBLE_REPLICA:
        return state, NOTHING
    if leader.proposed.attempts > 1:
        # A copy may still be on its way, and be accepted once the joiner has recovered. So the
        # high watermark goes on waiting, until a change of nothing but the version outdates it.
        if leader.proposed.isr == state.view.isr:
            return state, NOTHING
        return _send_again(state, leader, state.view.isr, now_ms)
    retry_ms = now_ms + state.config.proposal_retry_ms
    leader = attrs.evolve(leader, proposed=None, expand_after_ms=retry_ms)
    view = attrs.evolve(state.view, pending=frozenset(), joiner=0)
    state = attrs.evolve(state, view=view, role=leader)
    effects: list[Effect] = []
    return advance_high_watermark(rules, state, leader, effects), tuple(effects)
