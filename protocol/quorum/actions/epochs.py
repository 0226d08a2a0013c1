"""How a node moves: to another epoch, another vote, another role.

Nothing is said and no role is begun before the epoch and the vote that go with it are durable. So
a move that changes them waits for `VoteSaved`, and what comes meanwhile waits for that. A move also
waits until storage has written what it was asked for before: a write ends in the epoch in which it
began.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effect, Effects, Event
from protocol.quorum.actions.consequences import advance_high_watermark
from protocol.quorum.actions.table import action, deferred, not_leading, refusal
from protocol.quorum.effects import (
    Accept,
    AnnounceLeader,
    Append,
    Deposed,
    LeaderChange,
    SaveVote,
    SendVoteRequest,
    TellLeader,
)
from protocol.quorum.events import EpochEnded, EpochLearned, LeaderAnnounced, LeaderAsked
from protocol.quorum.jitter import jitter_ms
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    NOBODY,
    Appending,
    Candidate,
    Follower,
    Leader,
    Progress,
    Prospective,
    QuorumState,
    Role,
    Saving,
    Unattached,
    is_writing,
)
from protocol.replication.log import last_epoch
from protocol.types import Epoch, NodeId, Offset


def move(
    rules: Rules, state: QuorumState, target: Saving, now_ms: int, effects: list[Effect]
) -> QuorumState:
    """Begin what `target` says, once its epoch and vote are durable; at once if they are."""
    if (target.epoch, target.voted) == (state.epoch, state.voted):
        return begin(rules, state, target, now_ms, effects)
    effects.append(SaveVote(*rules.persisted_vote(target.epoch, target.voted)))
    return attrs.evolve(state, saving=target)


def begin(
    rules: Rules, state: QuorumState, target: Saving, now_ms: int, effects: list[Effect]
) -> QuorumState:
    """Take on an epoch, a vote and a role, and say what there is to say."""
    if isinstance(state.role, Leader) and target.role is not state.role:
        effects.extend(
            refusal(state, parked.correlation, not_leading(state)) for parked in state.parked
        )
        effects.append(Deposed(state.epoch))
        state = attrs.evolve(state, parked=())
    state = attrs.evolve(
        state, epoch=target.epoch, voted=target.voted, leader=target.leader, saving=None
    )
    effects.extend(target.effects)
    if target.role is state.role:
        return state
    role = _timed(state, target.role, now_ms)
    state = attrs.evolve(state, role=role)
    if isinstance(role, Prospective | Candidate):
        return ask_for_votes(rules, state, role, now_ms, effects)
    return state


def _timed(state: QuorumState, role: Role, now_ms: int) -> Role:
    """Set the times of a role that begins now."""
    config = state.config
    if isinstance(role, Unattached):
        if not state.is_voter:
            return Unattached(now_ms, role.asked)
        return Unattached(now_ms + election_ms(state))
    if isinstance(role, Follower):
        return Follower(now_ms, now_ms + config.fetch_timeout_ms)
    if isinstance(role, Prospective):
        return Prospective(role.votes, role.attempt, now_ms + config.request_retry_ms)
    if isinstance(role, Candidate):
        due_ms = now_ms + election_ms(state)
        return Candidate(role.votes, now_ms + config.request_retry_ms, due_ms)
    return role


def election_ms(state: QuorumState) -> int:
    """Tell how long this node waits for an election, each time a little differently."""
    config = state.config
    return config.election_timeout_ms + jitter_ms(config, state.node, state.epoch, state.attempt)


def ask_for_votes(
    rules: Rules,
    state: QuorumState,
    role: Prospective | Candidate,
    now_ms: int,
    effects: list[Effect],
) -> QuorumState:
    """Go on with what a majority allows, which may be this node alone; ask the others if not."""
    if rules.has_majority(len(role.votes), len(state.voters)):
        if isinstance(role, Candidate):
            return _lead(rules, state, role, now_ms, effects)
        return _stand(rules, state, now_ms, effects)
    for voter in sorted(state.voters - role.votes - {state.node}):
        effects.append(_vote_request(state, voter))
    return state


def _vote_request(state: QuorumState, voter: NodeId) -> SendVoteRequest:
    role = state.role
    pre_vote = isinstance(role, Prospective)
    attempt = role.attempt if isinstance(role, Prospective) else 0
    log = state.log
    return SendVoteRequest(voter, state.epoch, last_epoch(log), log.end_offset, pre_vote, attempt)


def _stand(rules: Rules, state: QuorumState, now_ms: int, effects: list[Effect]) -> QuorumState:
    """Stand for election in a new epoch, and vote for oneself."""
    votes = frozenset({state.node})
    epoch = rules.epoch_after(state.epoch)
    return move(rules, state, Saving(epoch, state.node, NOBODY, Candidate(votes)), now_ms, effects)


def _lead(
    rules: Rules, state: QuorumState, role: Candidate, now_ms: int, effects: list[Effect]
) -> QuorumState:
    """Write the first record of the epoch; when that is done, the node leads."""
    base, first = state.log.end_offset, rules.records_on_election(state.epoch)
    if not first:
        return become_leader(rules, state, base, now_ms, effects)
    change, end = LeaderChange(state.node, state.voters, role.votes), base + len(first)
    effects.append(Append(base, end, first[0], change))
    write = Appending(tuple((epoch, 1) for epoch in first), end, leads=True)
    return attrs.evolve(state, writes=(write,))


def become_leader(
    rules: Rules, state: QuorumState, start_offset: Offset, now_ms: int, effects: list[Effect]
) -> QuorumState:
    """Lead, knowing nothing of the others' logs yet, and tell them."""
    others = sorted(state.voters - {state.node})
    leader = Leader(
        start_offset,
        state.log.end_offset,
        tuple(map(Progress, others)),
        announce_ms=now_ms + state.config.request_retry_ms,
        since_ms=now_ms,
    )
    state = attrs.evolve(state, role=leader, leader=state.node, attempt=0)
    effects.extend(announcements(state, leader))
    return advance_high_watermark(rules, state, leader, effects)


def announcements(state: QuorumState, leader: Leader) -> tuple[AnnounceLeader, ...]:
    """Tell every voter that has not fetched in this epoch."""
    return tuple(
        AnnounceLeader(progress.node, state.epoch)
        for progress in leader.followers
        if progress.heard_ms is None and progress.node in state.voters
    )


def moved_to(rules: Rules, state: QuorumState, epoch: Epoch, leader: NodeId) -> Saving:
    """Give what a node becomes that moves to an epoch, its own or another; NOBODY may lead."""
    voted = rules.voted_after_move(state.voted, epoch == state.epoch)
    role = Unattached() if leader == NOBODY else Follower()
    return Saving(epoch, voted, leader, role)


@attrs.frozen
class Known:
    """What a node says that it knows: its epoch, and who leads in it, if anyone does."""

    source: NodeId
    epoch: Epoch
    leader: NodeId


def is_news(rules: Rules, state: QuorumState, known: Known) -> bool:
    """Whether this is a newer epoch, or the leader of the present one says so itself.

    Of its own epoch's leader a node takes nobody else's word: that one may be long gone.
    """
    if state.failed or known.leader == state.node:
        return False
    if rules.is_newer_epoch(known.epoch, state.epoch):
        return True
    says_so = known.epoch == state.epoch and known.leader == known.source != NOBODY
    return says_so and state.leader == NOBODY


def learn(
    rules: Rules,
    state: QuorumState,
    event: Event,
    known: Known,
    now_ms: int,
    said: Effects = NOTHING,
) -> tuple[QuorumState, Effects]:
    """Move to a newer epoch, or follow its leader, if that is news; then say what is to be said."""
    if not is_news(rules, state, known):
        return state, said
    if is_writing(state):
        return deferred(state, event)
    effects: list[Effect] = []
    target = attrs.evolve(moved_to(rules, state, known.epoch, known.leader), effects=said)
    return move(rules, state, target, now_ms, effects), tuple(effects)


@action("LearnLeader", LeaderAnnounced, mirrors=("LearnLeader",))
def learn_leader(
    rules: Rules, state: QuorumState, event: LeaderAnnounced, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Follow the leader that says so. One of an earlier epoch is told of the newer one."""
    if event.epoch < state.epoch or state.failed:
        error = ErrorCode.FENCED_LEADER_EPOCH
        return state, (refusal(state, event.correlation, error),)
    known = Known(event.leader, event.epoch, event.leader)
    return learn(rules, state, event, known, now_ms, (Accept(event.correlation),))


@action("LearnEpoch", EpochLearned, mirrors=("LearnEpoch", "LearnLeader"))
def learn_epoch(
    rules: Rules, state: QuorumState, event: EpochLearned, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Move to a newer epoch that somebody knows."""
    return learn(rules, state, event, Known(event.source, event.epoch, event.leader), now_ms)


@action("TellWhoLeads", LeaderAsked, mirrors=())
def tell_who_leads(
    rules: Rules, state: QuorumState, event: LeaderAsked, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Tell what this node knows."""
    del rules, now_ms
    return state, (TellLeader(event.correlation, state.epoch, state.leader),)


@action("HearOfResignation", EpochEnded, mirrors=("LearnEpoch",))
def hear_of_resignation(
    rules: Rules, state: QuorumState, event: EpochEnded, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Wait no longer for a leader that has resigned; but not all at the same time."""
    follower = state.role
    if event.epoch > state.epoch:
        return learn(rules, state, event, Known(event.leader, event.epoch, NOBODY), now_ms)
    if not isinstance(follower, Follower) or event.epoch < state.epoch:
        return state, NOTHING
    if event.leader != state.leader or not state.is_voter:
        return state, NOTHING
    soon_ms = now_ms + jitter_ms(state.config, state.node, state.epoch, state.attempt)
    lost_ms = min(follower.lost_ms, soon_ms)
    return attrs.evolve(state, role=attrs.evolve(follower, lost_ms=lost_ms)), NOTHING
