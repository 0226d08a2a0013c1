"""Storage takes its time: what waits for it, what is refused meanwhile, and what when it fails."""

from __future__ import annotations

import attrs
import pytest

from protocol.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from protocol.machine import Event
from protocol.quorum import (
    NOBODY,
    Follower,
    Leader,
    Quorum,
    QuorumConfig,
    Rules,
    SnapshotId,
    Unattached,
)
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.replication.log import EpochEnd
from tests.protocol.quorum.parts import CONFIG
from tests.protocol.quorum.scenario import THREE, Told, a_log


def test_while_a_vote_is_saved_what_would_change_it_waits() -> None:
    told = Told()
    told.handle(e.VoteRequested("v", 2, 1, 0, 0))
    assert told.handle(e.VoteRequested("w", 3, 2, 0, 0)) == ()
    assert told.machine.due(told.now_ms) == ()
    told.handle(e.VoteSaved())
    (resumed,) = told.machine.due(told.now_ms)
    assert resumed == e.Resumed(e.VoteRequested("w", 3, 2, 0, 0))
    assert told.handle(resumed) == (do.SaveVote(2, 3),)
    # What is not deferred any more is not due either.
    assert told.handle(resumed) == ()


def test_a_leader_with_writes_under_way_moves_on_when_they_are_done_and_takes_no_more() -> None:
    told = Told()
    told.lead()
    told.propose()
    assert told.handle(e.EpochLearned(2, 7, NOBODY)) == ()
    (refusal,) = told.propose()
    assert isinstance(refusal, do.Refuse)
    told.handle(e.Appended(2))
    assert isinstance(told.machine.state.role, Leader)
    (resumed,) = [each for each in told.machine.due(0) if isinstance(each, e.Resumed)]
    assert told.then(resumed) == (do.SaveVote(7, NOBODY), do.Deposed(1))
    assert told.machine.state.log == a_log(1, 1)


def test_a_follower_moves_on_when_its_write_is_done() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    told.handle(e.FetchAnswered(4, 0, 0, epochs=((4, 1),)))
    assert told.handle(e.LeaderAnnounced("a", 5, 3)) == ()
    told.handle(e.Appended(1))
    (resumed,) = told.machine.due(told.now_ms)
    assert told.then(resumed) == (do.SaveVote(5, NOBODY), do.Accept("a"))


def test_a_leader_that_must_resign_waits_for_its_writes() -> None:
    told = Told()
    told.lead()
    told.propose()
    told.wait()
    assert told.handle(e.QuorumLost()) == ()
    assert e.QuorumLost() not in told.machine.due(told.now_ms)
    told.handle(e.Appended(2))
    told.then(e.Resumed(e.QuorumLost()))
    assert isinstance(told.machine.state.role, Unattached)


def test_a_leader_about_to_go_serves_nobody() -> None:
    told = Told()
    told.lead()
    told.handle(e.EpochLearned(2, 7, NOBODY))
    for event in (
        e.FetchReceived("f", 2, 1, 0, 0),
        e.RecordsProposed("p", 1, 1, 1, ""),
        e.SnapshotAsked("s", 2, 1, SnapshotId(0, 0)),
    ):
        (refusal,) = told.handle(event)
        assert isinstance(refusal, do.Refuse)


def test_what_waits_is_bounded_and_beyond_that_refused() -> None:
    told = Told()
    told.handle(e.VoteRequested("v", 2, 1, 0, 0))
    for epoch in range(2, CONFIG.max_deferred + 2):
        assert told.handle(e.VoteRequested("v", 3, epoch, 0, 0)) == ()
        assert told.handle(e.VoteRequested("v", 3, epoch, 0, 0)) == ()
    (refusal,) = told.handle(e.VoteRequested("v", 3, 99, 0, 0))
    assert isinstance(refusal, do.Refuse)
    assert told.handle(e.EpochLearned(3, 99, NOBODY)) == ()
    assert len(told.machine.state.deferred) == CONFIG.max_deferred


def test_fetches_that_wait_are_bounded_and_refused_when_the_leader_goes() -> None:
    told = Told()
    told.lead()
    for number in range(CONFIG.max_parked_fetches):
        fetch = e.FetchReceived(number, 9 + number, 1, 1, 1, 1, max_wait_ms=50)
        assert told.handle(fetch) == ()
    (answer,) = told.handle(e.FetchReceived("x", 99, 1, 1, 1, 1, max_wait_ms=50))
    assert isinstance(answer, do.SendEntries)
    effects = told.then(e.EpochLearned(2, 7, NOBODY))
    assert sum(isinstance(each, do.Refuse) for each in effects) == CONFIG.max_parked_fetches
    assert told.machine.state.parked == ()


def test_observers_that_a_leader_remembers_are_bounded() -> None:
    config = QuorumConfig(max_observers=1)
    machine = Quorum.restarted(1, frozenset({1}), config=config)
    for event in (e.ElectionDue(), e.VoteSaved(), e.Appended(1)):
        machine.handle(event, 10_000)
    machine.handle(e.FetchReceived("f", 8, 1, 0, 0), 10_000)
    (refusal,) = machine.handle(e.FetchReceived("f", 9, 1, 0, 0), 10_000)
    assert isinstance(refusal, do.Refuse)
    assert refusal.error is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_node_whose_storage_fails_takes_no_part_any_more() -> None:
    told = Told()
    told.lead()
    told.propose()
    told.handle(e.FetchReceived("w", 2, 1, 1, 1, 1, max_wait_ms=50))
    effects = told.handle(e.StorageFailed("EIO"))
    assert [type(each) for each in effects] == [do.Refuse, do.Deposed]
    assert told.machine.next_deadline() is None
    for event in (
        e.Appended(2),
        e.EpochLearned(2, 9, 2),
        e.SnapshotFetched(SnapshotId(3, 1)),
        e.SnapshotTaken(1),
        e.StorageFailed("again"),
        e.ElectionDue(),
    ):
        assert told.handle(event) == ()
    for request in (
        e.VoteRequested("v", 2, 9, 0, 0),
        e.FetchReceived("f", 2, 1, 0, 0),
        e.RecordsProposed("p", 1, 2, 1, ""),
        e.LeaderAnnounced("a", 9, 2),
    ):
        (refusal,) = told.handle(request)
        assert isinstance(refusal, do.Refuse)


COMPLETIONS = [e.VoteSaved(), e.Appended(1), e.Truncated(1), e.SnapshotInstalled()]


@pytest.mark.parametrize("event", COMPLETIONS, ids=lambda event: type(event).__name__)
def test_a_completion_that_answers_no_write_is_the_drivers_fault(event: Event) -> None:
    with pytest.raises(ValueError, match="this node"):
        Told().handle(event)
    told = Told()
    told.lead()
    told.propose()
    with pytest.raises(ValueError, match="ends at 2"):
        told.handle(e.Appended(9))


WRONG_MESSAGES = [
    e.FetchReceived("f", 1, 1, 0, 0),
    e.FetchReceived("f", 2, 1, -1, 0),
    e.FetchReceived("f", 2, 1, 3, 0),
    e.FetchReceived("f", 2, 1, 3, 2),
    e.FetchAnswered(1, 0, 0, diverging=EpochEnd(0, -1)),
    e.FetchAnswered(1, 0, 0, snapshot=SnapshotId(0, 0)),
    e.FetchAnswered(1, 0, 0, epochs=((1, 0),)),
    e.FetchAnswered(1, 0, 0, epochs=((2, 1),)),
    e.FetchAnswered(3, 0, 0, epochs=((2, 1), (1, 1))),
    e.VoteRequested("v", 1, 1, 0, 0),
    e.VoteRequested("v", 9, 1, 0, 0),
    e.VoteRequested("v", 2, 1, 0, 2),
    e.VoteRequested("v", 2, 1, 1, 2),
    e.VoteAnswered(9, 1, NOBODY, True),
    e.VoteAnswered(2, 1, 9, True),
    e.LeaderAnnounced("a", 1, 9),
]


@pytest.mark.parametrize("event", WRONG_MESSAGES, ids=repr)
def test_what_no_correct_peer_sends_is_refused_before_anything_happens(event: Event) -> None:
    told = Told()
    before = told.machine.state
    with pytest.raises(RemoteProtocolError):
        told.handle(event)
    assert told.machine.state is before


def test_two_leaders_in_one_epoch_stop_the_node() -> None:
    told = Told()
    told.follow(2, 4)
    with pytest.raises(InvariantViolation, match="OneLeaderPerEpoch"):
        told.handle(e.LeaderAnnounced("a", 4, 3))
    assert told.machine.state.leader == 2


def test_a_log_is_not_cut_below_what_is_committed() -> None:
    told = Told(node=2, epoch=3, log=a_log(1, 2))
    told.follow(1, 4)
    told.handle(e.FetchAnswered(4, 2, 2, high_watermark=2))
    told.handle(e.FetchDue())
    told.handle(e.FetchAnswered(4, 2, 2, diverging=EpochEnd(1, 1)))
    with pytest.raises(InvariantViolation, match="CommittedNotLost"):
        told.handle(e.Truncated(1))


def test_a_record_of_another_epoch_is_not_committed_by_counting() -> None:
    rules = attrs.evolve(Rules(), may_commit=lambda *_: True)
    told = Told(epoch=1, log=a_log(1), rules=rules)
    told.lead()
    with pytest.raises(InvariantViolation, match="LeaderCompleteness"):
        told.fetch(2, 1, 1)


def test_a_high_watermark_does_not_go_back() -> None:
    rules = attrs.evolve(Rules(), follower_high_watermark=lambda _own, leaders, _end: leaders)
    told = Told(node=2, epoch=3, log=a_log(1, 2), rules=rules)
    told.follow(1, 4)
    told.handle(e.FetchAnswered(4, 2, 2, high_watermark=2))
    told.handle(e.FetchDue())
    with pytest.raises(InvariantViolation, match="HwMonotonic"):
        told.handle(e.FetchAnswered(4, 2, 2, high_watermark=1))


def test_a_high_watermark_does_not_go_beyond_the_log() -> None:
    rules = attrs.evolve(Rules(), follower_high_watermark=lambda _own, leaders, _end: leaders)
    told = Told(node=2, epoch=3, log=a_log(1, 2), rules=rules)
    told.follow(1, 4)
    with pytest.raises(InvariantViolation, match="HwInLogRange"):
        told.handle(e.FetchAnswered(4, 2, 2, high_watermark=3))


def test_what_is_not_committed_is_not_in_a_snapshot() -> None:
    told = Told()
    told.lead()
    with pytest.raises(InvariantViolation, match="SnapshotIsCommitted"):
        told.handle(e.SnapshotTaken(1))


def test_a_node_does_not_go_back_to_an_earlier_epoch() -> None:
    rules = attrs.evolve(Rules(), is_newer_epoch=lambda theirs, mine: theirs != mine)
    told = Told(epoch=4, rules=rules)
    told.handle(e.EpochLearned(2, 3, NOBODY))
    with pytest.raises(InvariantViolation, match="EpochMonotonic"):
        told.handle(e.VoteSaved())


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="check_quorum_ms"):
        QuorumConfig(check_quorum_ms=0)


def test_a_follower_is_not_interested_in_resignations_of_others() -> None:
    told = Told(node=2, voters=THREE)
    told.follow(1, 4)
    before = told.machine.state
    told.handle(e.EpochEnded(3, 3))
    told.handle(e.EpochEnded(4, 3))
    assert told.machine.state is before
    told.then(e.EpochEnded(5, 3))
    assert told.machine.state.epoch == 5
    assert not isinstance(told.machine.state.role, Follower)
