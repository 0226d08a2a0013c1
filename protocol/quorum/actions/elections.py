"""Elections: who wants to lead, who votes for whom, and when to try again."""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects
from protocol.quorum.actions.epochs import (
    Known,
    announcements,
    ask_for_votes,
    is_news,
    learn,
    move,
    moved_to,
)
from protocol.quorum.actions.table import action, deferred, refusal
from protocol.quorum.effects import SendVoteAnswer
from protocol.quorum.events import (
    ElectionDue,
    FetchTimedOut,
    RequestsDue,
    VoteAnswered,
    VoteRequested,
)
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    NOBODY,
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumState,
    Saving,
    Unattached,
    is_writing,
)
from protocol.replication.log import last_epoch
from protocol.types import Epoch, NodeId


@action("TimeOut", ElectionDue)
def time_out(
    rules: Rules, state: QuorumState, event: ElectionDue, now_ms: int
) -> tuple[QuorumState, Effects]:
    """A voter that knows no leader, or was not elected in time, asks whether it could win."""
    del event
    role = state.role
    if not isinstance(role, Unattached | Candidate) or role.due_ms > now_ms:
        return state, NOTHING
    return _become_prospective(rules, state, now_ms)


@action("LoseLeader", FetchTimedOut, mirrors=("TimeOut",))
def lose_leader(
    rules: Rules, state: QuorumState, event: FetchTimedOut, now_ms: int
) -> tuple[QuorumState, Effects]:
    """A voter that does not hear from its leader asks whether it could win."""
    del event
    role = state.role
    if not isinstance(role, Follower) or role.lost_ms > now_ms:
        return state, NOTHING
    return _become_prospective(rules, state, now_ms)


def _become_prospective(
    rules: Rules, state: QuorumState, now_ms: int
) -> tuple[QuorumState, Effects]:
    if not state.is_voter or state.failed or is_writing(state):
        return state, NOTHING
    attempt = (state.attempt + 1) % state.config.jitter_rounds
    state = attrs.evolve(state, attempt=attempt)
    role = Prospective(frozenset({state.node}), attempt)
    effects: list[Effect] = []
    state = move(rules, state, Saving(state.epoch, state.voted, NOBODY, role), now_ms, effects)
    return state, tuple(effects)


@action("HandleVoteRequest", VoteRequested, mirrors=("HandleVoteRequest", "PreVote"))
def handle_vote_request(
    rules: Rules, state: QuorumState, event: VoteRequested, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Grant a vote or refuse it. A vote is durable before it is answered."""
    if not state.is_voter or state.failed:
        error = ErrorCode.KAFKA_STORAGE_ERROR if state.failed else ErrorCode.INVALID_REQUEST
        return state, (refusal(state, event.correlation, error),)
    current = rules.request_is_current(event.epoch, state.epoch)
    target = _after_request(rules, state, event) if current else None
    if target is None:
        return state, (_answer(event, state.epoch, state.leader, granted=False),)
    if is_writing(state):
        return deferred(state, event)
    effects: list[Effect] = []
    return move(rules, state, target, now_ms, effects), tuple(effects)


def _answer(event: VoteRequested, epoch: Epoch, leader: NodeId, *, granted: bool) -> SendVoteAnswer:
    correlation, candidate = event.correlation, event.candidate
    return SendVoteAnswer(correlation, candidate, epoch, leader, granted, event.pre_vote)


def _after_request(rules: Rules, state: QuorumState, event: VoteRequested) -> Saving | None:
    """Work out what the voter is after a request; None if it refuses and stays what it is."""
    newer = event.epoch > state.epoch
    known = Saving(state.epoch, state.voted, state.leader, state.role)
    after = moved_to(rules, state, event.epoch, NOBODY) if newer else known
    knows_leader = after.leader != NOBODY
    mine = (last_epoch(state.log), state.log.end_offset)
    up_to_date = rules.log_is_up_to_date((event.last_epoch, event.end_offset), mine)
    if event.pre_vote:
        granted = rules.may_grant_pre_vote(knows_leader, up_to_date)
    else:
        granted = rules.may_grant_vote(after.voted, event.candidate, knows_leader, up_to_date)
        if granted:
            # Whoever waits for an election waits anew: this one may succeed.
            role = Unattached() if isinstance(after.role, Unattached) else after.role
            after = attrs.evolve(after, voted=event.candidate, role=role)
    if not granted and not newer:
        return None
    answer = _answer(event, event.epoch, after.leader, granted=granted)
    return attrs.evolve(after, effects=(answer,))


@action("HandleVote", VoteAnswered, mirrors=("HandleVote", "PreVote", "LearnEpoch", "LearnLeader"))
def handle_vote(
    rules: Rules, state: QuorumState, event: VoteAnswered, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Count a vote; with a majority, go on. Also learn what the voter knows."""
    known = Known(event.voter, event.epoch, event.leader)
    if is_news(rules, state, known):
        return learn(rules, state, event, known, now_ms)
    role = state.role
    if not event.granted or event.epoch != state.epoch or is_writing(state):
        return state, NOTHING
    if not isinstance(role, Prospective if event.pre_vote else Candidate):
        return state, NOTHING
    if isinstance(role, Prospective) and event.attempt != role.attempt:
        return state, NOTHING
    if event.voter in role.votes:
        return state, NOTHING
    return _count(rules, state, role, event.voter, now_ms)


def _count(
    rules: Rules, state: QuorumState, role: Prospective | Candidate, voter: NodeId, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Write down a vote, or with the one that makes a majority, go on: it is part of that."""
    counted = attrs.evolve(role, votes=role.votes | {voter})
    if not rules.has_majority(len(counted.votes), len(state.voters)):
        return attrs.evolve(state, role=counted), NOTHING
    effects: list[Effect] = []
    return ask_for_votes(rules, state, counted, now_ms, effects), tuple(effects)


@action("AskAgain", RequestsDue, mirrors=())
def ask_again(
    rules: Rules, state: QuorumState, event: RequestsDue, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Ask the voters that have not answered; tell those that have not fetched who leads."""
    del event
    role, effects = state.role, list[Effect]()
    retry_ms = now_ms + state.config.request_retry_ms
    if isinstance(role, Prospective | Candidate):
        if role.retry_ms > now_ms or is_writing(state):
            return state, NOTHING
        state = attrs.evolve(state, role=attrs.evolve(role, retry_ms=retry_ms))
        return ask_for_votes(rules, state, role, now_ms, effects), tuple(effects)
    if not isinstance(role, Leader) or role.announce_ms > now_ms or state.saving is not None:
        return state, NOTHING
    state = attrs.evolve(state, role=attrs.evolve(role, announce_ms=retry_ms))
    return state, announcements(state, role)
