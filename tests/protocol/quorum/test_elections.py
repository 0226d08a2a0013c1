"""Elections: Raft 5.2 and 5.4.1, pre-vote (KIP-996), and what a restart remembers."""

from __future__ import annotations

import attrs
import pytest

from protocol.quorum import NOBODY, Candidate, Follower, Leader, Prospective, Unattached
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.quorum.jitter import jitter_ms
from tests.protocol.quorum.parts import CONFIG
from tests.protocol.quorum.scenario import FIVE, Told, a_log


def asks(epoch: int, *, last_epoch: int = 0, end: int = 0, pre: bool = False) -> e.VoteRequested:
    return e.VoteRequested("v", 2, epoch, last_epoch, end, pre)


def granted(effects: tuple[object, ...]) -> list[bool]:
    return [each.granted for each in effects if isinstance(each, do.SendVoteAnswer)]


def test_raft_5_2_a_vote_is_durable_before_it_is_answered() -> None:
    told = Told()
    assert told.handle(asks(1)) == (do.SaveVote(1, 2),)
    assert told.machine.state.epoch == 0
    assert granted(told.handle(e.VoteSaved())) == [True]
    assert (told.machine.state.epoch, told.machine.state.voted) == (1, 2)


def test_raft_5_2_one_vote_in_an_epoch_and_the_same_again_for_who_asks_again() -> None:
    told = Told()
    told.then(asks(1))
    other = attrs.evolve(asks(1), candidate=3)
    assert granted(told.handle(other)) == [False]
    assert granted(told.handle(asks(1))) == [True]


def test_a_vote_for_another_does_not_end_a_nodes_own_pre_votes() -> None:
    told = Told(epoch=5)
    told.wait()
    told.then(e.ElectionDue())
    before = told.machine.state.role
    assert granted(told.then(asks(5))) == [True]
    assert told.machine.state.role is before
    assert told.machine.state.voted == 2


def test_a_vote_makes_who_has_no_leader_wait_anew() -> None:
    told = Told(epoch=5)
    told.now_ms = 99
    told.then(asks(5))
    deadline = told.machine.next_deadline()
    assert deadline is not None
    assert deadline >= 99 + CONFIG.election_timeout_ms


def test_raft_5_2_a_restart_remembers_the_vote() -> None:
    told = Told(epoch=1, voted=3)
    assert granted(told.handle(asks(1))) == [False]


def test_raft_5_2_a_request_of_an_earlier_epoch_is_refused_and_told_of_the_newer() -> None:
    told = Told(epoch=4)
    assert told.handle(asks(3)) == (do.SendVoteAnswer("v", 2, 4, NOBODY, False, False),)


@pytest.mark.parametrize(
    ("last_epoch", "end", "wins"),
    [(2, 3, True), (2, 4, True), (3, 1, True), (2, 2, False), (1, 9, False), (0, 0, False)],
)
def test_raft_5_4_1_a_candidate_needs_a_log_as_new_as_the_voters(
    last_epoch: int, end: int, wins: bool
) -> None:
    told = Told(epoch=3, log=a_log(1, 2, 2))
    assert granted(told.then(asks(4, last_epoch=last_epoch, end=end))) == [wins]
    # It moves to that epoch all the same, and has its vote for another.
    assert told.machine.state.epoch == 4
    assert told.machine.state.voted == (2 if wins else NOBODY)


def test_nobody_votes_against_a_leader_that_it_knows() -> None:
    told = Told()
    told.follow(3, 5)
    assert granted(told.handle(asks(5))) == [False]


def test_kip_996_who_hears_from_a_leader_does_not_encourage_others() -> None:
    told = Told()
    told.follow(3, 5)
    assert granted(told.handle(asks(5, pre=True))) == [False]
    assert isinstance(told.machine.state.role, Follower)


def test_kip_996_a_pre_vote_costs_the_voter_nothing() -> None:
    told = Told(epoch=5)
    before = told.machine.state
    assert granted(told.handle(asks(5, pre=True))) == [True]
    assert granted(told.handle(attrs.evolve(asks(5, pre=True), candidate=3))) == [True]
    assert told.machine.state == before


def test_kip_996_a_node_that_cannot_win_never_begins_an_epoch() -> None:
    told = Told(epoch=5)
    told.wait()
    told.then(e.ElectionDue())
    for _ in range(3):
        told.then(e.VoteAnswered(2, 5, 3, False, True, 1))
        told.wait()
        told.then(e.RequestsDue())
    assert told.machine.state.epoch == 5
    assert isinstance(told.machine.state.role, Prospective)


def test_kip_996_an_answer_to_an_earlier_round_does_not_count() -> None:
    told = Told(epoch=5)
    told.wait()
    told.then(e.ElectionDue())
    told.follow(3, 6)
    told.wait()
    told.then(e.FetchTimedOut())
    assert told.then(e.VoteAnswered(2, 6, NOBODY, True, True, 1)) == ()
    told.then(e.VoteAnswered(2, 6, NOBODY, True, True, 2))
    assert isinstance(told.machine.state.role, Candidate)


def test_a_majority_of_pre_votes_makes_a_candidate_and_of_votes_a_leader() -> None:
    told = Told(voters=FIVE)
    told.wait()
    asked = told.then(e.ElectionDue())
    assert [each.pre_vote for each in asked if isinstance(each, do.SendVoteRequest)] == [True] * 4
    told.then(e.VoteAnswered(2, 0, NOBODY, True, True, 1))
    assert isinstance(told.machine.state.role, Prospective)
    assert do.SaveVote(1, 1) in told.then(e.VoteAnswered(3, 0, NOBODY, True, True, 1))
    assert isinstance(told.machine.state.role, Candidate)
    told.then(e.VoteAnswered(4, 1, NOBODY, True))
    told.then(e.VoteAnswered(4, 1, NOBODY, True))
    assert isinstance(told.machine.state.role, Candidate)
    effects = told.then(e.VoteAnswered(5, 1, NOBODY, True))
    assert isinstance(told.machine.state.role, Leader)
    change = do.LeaderChange(1, FIVE, frozenset({1, 4, 5}))
    assert do.Append(0, 1, 1, change) in effects
    assert [each.to for each in effects if isinstance(each, do.AnnounceLeader)] == [2, 3, 4, 5]


def test_nothing_is_said_of_leading_before_the_first_record_is_durable() -> None:
    told = Told()
    epoch = told.stand()
    append = do.Append(0, 1, 1, do.LeaderChange(1, told.machine.state.voters, frozenset({1, 2})))
    assert told.handle(e.VoteAnswered(2, epoch, NOBODY, True)) == (append,)
    assert isinstance(told.machine.state.role, Candidate)
    told.handle(e.Appended(1))
    assert isinstance(told.machine.state.role, Leader)


def test_a_lone_voter_leads_at_once_and_is_active() -> None:
    told = Told(voters=frozenset({1}))
    told.wait()
    effects = told.then(e.ElectionDue())
    assert effects[-2:] == (do.Committed(1), do.Elected(1, 1))


def test_a_candidate_that_is_not_elected_in_time_asks_for_pre_votes_again() -> None:
    told = Told()
    epoch = told.stand()
    told.wait()
    told.then(e.ElectionDue())
    assert isinstance(told.machine.state.role, Prospective)
    assert (told.machine.state.epoch, told.machine.state.voted) == (epoch, 1)


def test_who_has_not_answered_is_asked_again() -> None:
    told = Told()
    told.stand()
    told.handle(e.VoteAnswered(2, 1, NOBODY, False))
    told.now_ms += CONFIG.request_retry_ms
    assert [each.to for each in told.then(e.RequestsDue())] == [2, 3]  # type: ignore[attr-defined]


def test_a_newer_epoch_ends_candidacy_and_leadership() -> None:
    for told in (Told(), Told()):
        told.lead()
        effects = told.then(e.EpochLearned(3, 9, NOBODY))
        assert effects == (do.SaveVote(9, NOBODY), do.Deposed(1))
        assert isinstance(told.machine.state.role, Unattached)
    told = Told()
    told.stand()
    told.then(e.VoteAnswered(3, 9, 2, False))
    assert isinstance(told.machine.state.role, Follower)
    assert told.machine.state.leader == 2


def test_of_its_own_epochs_leader_a_node_takes_nobody_elses_word() -> None:
    told = Told(epoch=5)
    told.then(e.EpochLearned(3, 5, 2))
    assert told.machine.state.leader == NOBODY
    told.then(e.EpochLearned(2, 5, 2))
    assert told.machine.state.leader == 2


def test_a_late_refusal_that_names_nobody_is_no_news() -> None:
    # It answers a fetch from before the node gave its leader up.
    told = Told()
    told.follow(2, 5)
    told.wait()
    told.then(e.FetchTimedOut())
    before = told.machine.state
    assert told.handle(e.FetchRefused(5, NOBODY)) == ()
    assert told.handle(e.EpochLearned(3, 5, NOBODY)) == ()
    assert told.machine.state is before


def test_a_node_that_follows_within_its_epoch_keeps_its_vote() -> None:
    told = Told()
    told.then(asks(1))
    assert told.handle(e.LeaderAnnounced("a", 1, 3)) == (do.Accept("a"),)
    assert (told.machine.state.leader, told.machine.state.voted) == (3, 2)


def test_a_leader_of_an_earlier_epoch_is_told() -> None:
    told = Told(epoch=5)
    (refusal,) = told.handle(e.LeaderAnnounced("a", 4, 3))
    assert isinstance(refusal, do.Refuse)
    assert refusal.epoch == 5


def test_an_observer_neither_votes_nor_stands() -> None:
    told = Told(node=9)
    (refusal,) = told.handle(asks(1))
    assert isinstance(refusal, do.Refuse)
    told.wait()
    assert told.machine.due(told.now_ms) == (e.FetchDue(),)
    assert told.handle(e.ElectionDue()) == ()


def test_an_observer_asks_one_voter_after_the_other_who_leads() -> None:
    told = Told(node=9)
    seen = set()
    for _ in range(3):
        (asked,) = told.handle(e.FetchDue())
        assert isinstance(asked, do.AskForLeader)
        seen.add(asked.to)
        told.wait()
    assert seen == {1, 2, 3}
    assert Told(epoch=3).handle(e.LeaderAsked("q")) == (do.TellLeader("q", 3, NOBODY),)


def test_a_leader_that_resigns_says_so_and_others_need_not_wait() -> None:
    leader = Told()
    leader.lead()
    leader.wait()
    effects = leader.then(e.QuorumLost())
    assert effects == (do.Deposed(1), do.EndEpoch(2, 1), do.EndEpoch(3, 1))
    assert (leader.machine.state.epoch, leader.machine.state.voted) == (1, 1)
    follower = Told(node=2)
    follower.follow(1, 1)
    follower.handle(e.EpochEnded(1, 1))
    deadline = follower.machine.next_deadline()
    assert deadline is not None
    assert deadline <= CONFIG.election_jitter_ms


def test_a_leader_that_hears_from_a_majority_does_not_resign() -> None:
    told = Told()
    told.lead()
    told.now_ms += CONFIG.check_quorum_ms - 1
    told.fetch(2, 1, 1)
    told.now_ms += CONFIG.check_quorum_ms - 1
    assert e.QuorumLost() not in told.machine.due(told.now_ms)
    assert told.handle(e.QuorumLost()) == ()
    told.now_ms += 1
    assert e.QuorumLost() in told.machine.due(told.now_ms)
    told.then(e.QuorumLost())
    assert isinstance(told.machine.state.role, Unattached)


def test_of_five_voters_a_leader_needs_to_hear_from_two() -> None:
    told = Told(voters=FIVE)
    told.lead()
    told.now_ms += 100
    told.fetch(2, 1, 1)
    told.now_ms += 100
    told.fetch(3, 1, 1)
    lost_ms = told.now_ms - 100 + CONFIG.check_quorum_ms
    assert e.QuorumLost() not in told.machine.due(lost_ms - 1)
    assert e.QuorumLost() in told.machine.due(lost_ms)
    told.now_ms = lost_ms
    told.then(e.QuorumLost())
    assert isinstance(told.machine.state.role, Unattached)


def test_jitter_is_a_function_of_seed_node_epoch_and_attempt() -> None:
    drawn = {
        jitter_ms(attrs.evolve(CONFIG, jitter_seed=seed), node, epoch, attempt)
        for seed in range(3)
        for node in range(3)
        for epoch in range(3)
        for attempt in range(3)
    }
    assert len(drawn) > 40
    assert drawn <= set(range(CONFIG.election_jitter_ms + 1))
    assert jitter_ms(CONFIG, 1, 2, 3) == jitter_ms(CONFIG, 1, 2, 3)
    assert jitter_ms(attrs.evolve(CONFIG, election_jitter_ms=0), 1, 2, 3) == 0
