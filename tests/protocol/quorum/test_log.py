"""The log that the leader's is copied to: KIP-595, snapshots (KIP-630), and what is committed."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.quorum import NOBODY, Follower, Leader, Quorum, SnapshotId, Unattached
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.quorum.log import compacted, epoch_at, from_snapshot, holds, snapshot_of
from protocol.replication.log import EpochEnd, Log, epoch_end, last_epoch, truncated
from tests.protocol.quorum.parts import CONFIG
from tests.protocol.quorum.scenario import Told, a_log


def elected(*epochs: int) -> Told:
    """A leader of epoch 4 whose log had these epochs before."""
    told = Told(epoch=3, log=a_log(*epochs))
    assert told.lead() == 4
    return told


def test_raft_8_a_leader_is_active_once_the_first_record_of_its_epoch_is_committed() -> None:
    told = elected(1, 2)
    told.fetch(2, 2, 2)
    assert told.machine.state.high_watermark == 0
    effects = told.fetch(2, 3, 4)
    assert do.Committed(3) in effects
    assert do.Elected(4, 3) in effects


def test_raft_5_4_2_a_record_of_an_earlier_epoch_is_not_committed_by_counting() -> None:
    told = elected(1, 2)
    for voter in (2, 3):
        told.fetch(voter, 2, 2)
    assert told.machine.state.high_watermark == 0


def test_records_are_appended_all_or_none_at_the_offset_and_in_the_epoch_proposed() -> None:
    told = elected()
    assert told.handle(e.RecordsProposed("p", 4, 1, 3, "payload")) == (
        do.Append(1, 4, 4, "payload"),
    )
    assert told.machine.state.log.end_offset == 1
    told.handle(e.Appended(4))
    assert told.machine.state.log.end_offset == 4
    for event in (
        e.RecordsProposed("p", 3, 4, 1, ""),
        e.RecordsProposed("p", 4, 3, 1, ""),
        e.RecordsProposed("p", 4, 4, 0, ""),
    ):
        (refusal,) = told.handle(event)
        assert isinstance(refusal, do.Refuse)


def test_no_more_records_are_written_at_once_than_the_bound_allows() -> None:
    told = elected()
    for _ in range(CONFIG.max_writes):
        told.propose()
    (refusal,) = told.propose()
    assert isinstance(refusal, do.Refuse)
    assert refusal.error is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_leader_sends_only_what_is_durable_with_itself() -> None:
    told = elected()
    told.propose(2)
    (answer,) = told.fetch(2, 0, 0)
    assert isinstance(answer, do.SendEntries)
    assert (answer.offset, answer.end_offset) == (0, 1)


def test_a_lone_voter_commits_what_is_durable_while_more_is_being_written() -> None:
    told = Told(voters=frozenset({1}))
    told.wait()
    told.then(e.ElectionDue())
    told.propose()
    told.propose(2)
    assert told.fetch(9, 1, 1, 1) != ()
    assert told.machine.state.high_watermark == 1
    assert told.handle(e.Appended(2)) == (do.Committed(2),)
    assert told.handle(e.Appended(4)) == (do.Committed(4),)


def test_an_answer_has_the_high_watermark_from_before_the_fetch_was_counted() -> None:
    told = elected()
    (answer, *rest) = told.fetch(2, 1, 4)
    assert isinstance(answer, do.SendEntries)
    assert answer.high_watermark == 0
    assert rest == [do.Committed(1), do.Elected(4, 1)]


def test_an_observer_is_served_and_never_counts() -> None:
    told = elected()
    effects = told.fetch(9, 1, 4)
    assert [type(each) for each in effects] == [do.SendEntries]
    assert told.machine.state.high_watermark == 0
    assert isinstance(told.machine.state.role, Leader)
    assert [each.node for each in told.machine.state.role.followers] == [2, 3, 9]


def test_a_fetch_waits_until_there_is_something_to_tell() -> None:
    told = elected()
    told.fetch(3, 1, 4)
    told.fetch(2, 1, 4)
    waits = e.FetchReceived("w", 2, 4, 1, 4, 1, max_wait_ms=50)
    assert told.handle(waits) == ()
    told.propose()
    effects = told.handle(e.Appended(2))
    assert effects == (do.SendEntries("w", 1, 2, 1 << 20, 4, 1),)
    told.handle(e.FetchReceived("w", 2, 4, 2, 4, 2, max_wait_ms=50))
    told.now_ms += 50
    assert e.FetchesExpired() in told.machine.due(told.now_ms)
    assert told.handle(e.FetchesExpired()) == (do.SendEntries("w", 2, 2, 1 << 20, 4, 2),)


def test_a_fetch_that_itself_moves_the_high_watermark_is_told_so_at_once() -> None:
    told = elected()
    effects = told.handle(e.FetchReceived("w", 2, 4, 1, 4, 0, max_wait_ms=50))
    assert effects == (do.Committed(1), do.Elected(4, 1))
    assert told.machine.due(told.now_ms) == (e.FetchesExpired(),)
    assert told.handle(e.FetchesExpired()) == (do.SendEntries("w", 1, 1, 1 << 20, 4, 1),)


def test_kip_595_who_is_not_the_leader_of_that_epoch_refuses_and_tells() -> None:
    told = elected()
    for epoch, error in (
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        (refusal,) = told.handle(e.FetchReceived("f", 2, epoch, 0, 0))
        assert refusal == do.Refuse("f", error, 4, 1)
    (refusal,) = Told().handle(e.FetchReceived("f", 2, 1, 0, 0))
    assert refusal == do.Refuse("f", ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, NOBODY)


def test_kip_279_the_leader_names_where_the_logs_part_and_that_is_no_progress() -> None:
    told = elected(1, 1, 3)
    (answer,) = told.fetch(2, 4, 2)
    assert answer == do.SendDivergence(2, 4, EpochEnd(1, 2))
    assert isinstance(told.machine.state.role, Leader)
    assert told.machine.state.role.followers[0].end_offset == 0


def test_kip_279_a_follower_cuts_to_the_largest_epoch_that_both_know() -> None:
    told = Told(node=2, epoch=3, log=a_log(1, 1, 1, 2))
    (fetch,) = told.follow(1, 4)
    assert isinstance(fetch, do.SendFetch)
    assert (fetch.offset, fetch.last_epoch) == (4, 2)
    effects = told.then(e.FetchAnswered(4, 4, 2, diverging=EpochEnd(1, 2)))
    assert effects == (do.Truncate(2),)
    assert told.machine.state.log == a_log(1, 1)
    assert told.machine.due(told.now_ms) == (e.FetchDue(),)


def test_a_follower_appends_and_learns_what_is_committed_when_that_is_durable() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    answer = e.FetchAnswered(4, 0, 0, high_watermark=1, epochs=((3, 1), (4, 2)), payload="p")
    assert told.handle(answer) == (do.Append(0, 3, 0, "p"),)
    assert told.machine.state.high_watermark == 0
    assert told.handle(e.Appended(3)) == (do.Committed(1),)
    assert told.machine.state.log == a_log(3, 4, 4)


def test_an_answer_to_another_fetch_or_of_another_epoch_is_dropped() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    for answer in (
        e.FetchAnswered(3, 0, 0, epochs=((3, 1),)),
        e.FetchAnswered(4, 1, 3, epochs=((4, 1),)),
    ):
        assert told.handle(answer) == ()
    assert told.machine.state.log == Log()


def test_a_follower_asks_again_when_nobody_answers_and_then_takes_its_leader_for_gone() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    told.handle(e.FetchRefused())
    told.now_ms += CONFIG.fetch_retry_ms
    (again,) = told.handle(e.FetchDue())
    assert isinstance(again, do.SendFetch)
    told.now_ms += CONFIG.fetch_timeout_ms
    assert e.FetchTimedOut() in told.machine.due(told.now_ms)


def test_a_refusal_that_names_a_newer_leader_is_learned() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    told.then(e.FetchRefused(5, 3))
    assert (told.machine.state.epoch, told.machine.state.leader) == (5, 3)


def test_kip_630_a_leader_that_no_longer_has_what_is_asked_for_names_its_snapshot() -> None:
    told = elected(1, 2, 2)
    told.fetch(2, 4, 4)
    assert told.handle(e.SnapshotWanted()) == (do.WriteSnapshot(4),)
    assert told.handle(e.SnapshotTaken(3)) == (do.DeleteBefore(3),)
    snapshot = SnapshotId(3, 2)
    assert told.fetch(3, 2, 2) == (do.SendSnapshotId(3, 4, snapshot),)
    # Nor can it tell where a log of an earlier epoch differs.
    assert told.fetch(3, 3, 1) == (do.SendSnapshotId(3, 4, snapshot),)
    (answer,) = told.fetch(3, 3, 2, 4)
    assert isinstance(answer, do.SendEntries)
    assert told.handle(e.SnapshotAsked("s", 3, 4, snapshot)) == (do.SendSnapshot("s", snapshot),)
    (refusal,) = told.handle(e.SnapshotAsked("s", 3, 4, SnapshotId(2, 2)))
    assert isinstance(refusal, do.Refuse)


def test_kip_630_a_follower_downloads_installs_and_goes_on_from_there() -> None:
    told = Told(node=2, epoch=1, log=a_log(1))
    told.follow(1, 4)
    snapshot = SnapshotId(3, 2)
    effects = told.handle(e.FetchAnswered(4, 1, 1, snapshot=snapshot))
    assert effects == (do.FetchSnapshot(1, 4, snapshot),)
    told.now_ms += CONFIG.fetch_timeout_ms - 1
    told.handle(e.SnapshotArriving())
    told.now_ms += CONFIG.fetch_timeout_ms - 1
    assert told.machine.due(told.now_ms) == ()
    effects = told.then(e.SnapshotFetched(snapshot, "bytes"))
    assert effects == (do.InstallSnapshot(snapshot, False, "bytes"), do.Committed(3))
    assert told.machine.state.log == from_snapshot(snapshot)
    (fetch,) = told.handle(e.FetchDue())
    assert isinstance(fetch, do.SendFetch)
    assert (fetch.offset, fetch.last_epoch) == (3, 2)


def test_kip_630_a_log_that_has_the_snapshot_keeps_what_follows_it() -> None:
    told = Told(node=2, epoch=3, log=a_log(1, 2, 2, 3))
    told.follow(1, 4)
    told.then(e.SnapshotFetched(SnapshotId(3, 2)))
    assert (told.machine.state.log.start_offset, told.machine.state.log.end_offset) == (3, 4)
    assert told.machine.state.high_watermark == 3


def test_a_snapshot_that_comes_when_the_node_has_moved_on_is_installed() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    told.then(e.FetchAnswered(4, 0, 0, snapshot=SnapshotId(3, 2)))
    told.then(e.EpochLearned(3, 5, NOBODY))
    assert isinstance(told.machine.state.role, Unattached)
    told.then(e.SnapshotFetched(SnapshotId(3, 2)))
    assert told.machine.state.log == from_snapshot(SnapshotId(3, 2))


def test_a_follower_whose_log_a_late_snapshot_has_changed_asks_anew() -> None:
    told = Told(node=2)
    told.follow(1, 4)
    told.then(e.FetchAnswered(4, 0, 0, snapshot=SnapshotId(3, 2)))
    told.follow(3, 5)
    told.then(e.SnapshotFetched(SnapshotId(3, 2)))
    (fetch,) = told.handle(e.FetchDue())
    assert isinstance(fetch, do.SendFetch)
    assert (fetch.to, fetch.offset, fetch.last_epoch) == (3, 3, 2)


def test_a_download_that_fails_or_stalls_is_given_up() -> None:
    for node in (2, 9):
        told = Told(node=node)
        told.follow(1, 4)
        told.handle(e.FetchAnswered(4, 0, 0, snapshot=SnapshotId(3, 2)))
        told.handle(e.SnapshotLost(SnapshotId(3, 2)))
        told.now_ms += CONFIG.fetch_retry_ms
        (again,) = told.handle(e.FetchDue())
        assert isinstance(again, do.SendFetch)
        told.handle(e.FetchAnswered(4, 0, 0, snapshot=SnapshotId(3, 2)))
        told.wait()
        assert e.FetchDue() in told.machine.due(told.now_ms)
        told.handle(e.FetchDue())
        assert isinstance(told.machine.state.role, Follower)
        assert told.machine.state.role.snapshot is None


def test_a_restart_knows_its_log_and_its_snapshot_but_not_what_is_committed() -> None:
    log = compacted(a_log(1, 1, 2), 2)
    state = Quorum.restarted(1, frozenset({1, 2, 3}), epoch=2, log=log).state
    assert (state.high_watermark, state.log.start_offset) == (0, 2)
    assert (snapshot_of(state.log), last_epoch(state.log)) == (SnapshotId(2, 1), 2)


@pytest.mark.parametrize("start", range(6))
def test_a_compacted_log_is_like_the_whole_from_its_snapshot_on(start: int) -> None:
    whole = a_log(1, 1, 3, 3, 4)
    log = compacted(whole, start)
    assert (log.start_offset, log.end_offset) == (start, 5)
    for offset in range(max(0, start - 1), 6):
        assert epoch_at(log, offset) == epoch_at(whole, offset)
    first = epoch_at(whole, start - 1)
    for epoch in range(first, 6):
        if epoch > 0:
            assert epoch_end(log, epoch) == epoch_end(whole, epoch)
    for end in range(start, 6):
        short = truncated(log, end)
        assert (short.end_offset, last_epoch(short)) == (end, epoch_at(whole, end - 1))
        assert holds(short, SnapshotId(start, first))
    assert not holds(log, SnapshotId(5, 3))
    assert not holds(log, SnapshotId(6, 4))
