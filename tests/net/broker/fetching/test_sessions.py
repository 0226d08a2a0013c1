"""Fetch sessions of followers (KIP-227): what is ready leaves together, what is idle is quiet."""

import pytest

from net.broker.fetching import FollowerSessions
from net.driving import Timers
from net.wire.fetch import FetchPartition
from protocol.errors import ErrorCode
from protocol.replication import ReplicaConfig
from protocol.replication.events import (
    BecameFollower,
    BecameLeader,
    Deleted,
    DeleteRecordsAsked,
    FetchReceived,
)
from tests.net.broker.fetching.worlds import (
    Asker,
    Clock,
    Heard,
    Node,
    follower_fetch,
    settle,
    wants,
)


class World:
    """A leader with sessions."""

    def __init__(self, count: int = 1, config: ReplicaConfig | None = None) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.leader = Node(1, self.timers, count, config or ReplicaConfig())
        self.leader.lead()
        self.sessions = FollowerSessions(self.leader, self.timers, max_sessions=2, idle_ms=10_000)
        self.session_id = 0
        self.epoch = 0
        self.correlation = 0

    def ask(self, *wanted: FetchPartition, **said: object) -> Asker:
        """Send the session's next request."""
        self.correlation += 1
        asker = Asker(correlation_id=self.correlation)
        fetch = follower_fetch(*wanted, session=(self.session_id, self.epoch), **said)  # type: ignore[arg-type]
        self.sessions.handle(asker, fetch)
        self.epoch += 1
        return asker

    def begin(self, *wanted: FetchPartition) -> Asker:
        """Begin a session, and wait for its first answer."""
        asker = self.ask(*wanted, max_wait_ms=0)
        self.settle()
        self.session_id = asker.answer.session_id
        assert self.session_id > 0
        return asker

    def settle(self, after_ms: int = 0) -> None:
        self.clock.now_ms += after_ms
        settle(self.clock, self.timers)


def test_records_that_are_there_are_answered_at_once() -> None:
    world = World()
    world.leader.produce()
    world.leader.produce()
    first = world.begin(wants())
    assert first.offsets() == [0, 1]


def test_a_fetch_waits_in_its_session_until_there_are_records() -> None:
    world = World()
    world.begin(wants())
    waiting = world.ask()
    world.settle()
    assert not waiting.is_answered
    world.leader.produce()
    world.settle()
    assert waiting.offsets() == [0]


def test_an_idle_request_gets_an_empty_answer_when_its_time_is_over() -> None:
    world = World()
    world.begin(wants())
    waiting = world.ask(max_wait_ms=500)
    world.settle(499)
    assert not waiting.is_answered
    world.settle(1)
    assert waiting.answer.topics == []


def test_what_becomes_ready_in_the_same_moment_leaves_in_one_answer() -> None:
    world = World(3)
    world.begin(wants(0, 0), wants(0, 1), wants(0, 2))
    waiting = world.ask()
    world.leader.produce(0)
    world.leader.produce(2)
    assert not waiting.is_answered
    world.settle()
    assert sorted(waiting.partitions) == [0, 2]


def test_a_request_makes_the_one_before_it_be_answered() -> None:
    world = World(2)
    world.begin(wants(0, 0))
    first = world.ask()
    second = world.ask(wants(0, 1))
    assert first.answer.topics == []
    assert not second.is_answered
    world.leader.produce(1)
    world.settle()
    assert second.offsets(1) == [0]


def test_an_answer_keeps_to_its_size_and_the_rest_leaves_with_the_next() -> None:
    world = World(3)
    for index in range(3):
        world.leader.produce(index, value_bytes=1_000)
    asker = world.ask(wants(0, 0), wants(0, 1), wants(0, 2), max_bytes=2_500)
    world.settle()
    world.session_id = asker.answer.session_id
    assert sorted(asker.partitions) == [0, 1]
    rest = world.ask()
    world.settle()
    assert sorted(rest.partitions) == [2]


def test_a_batch_larger_than_the_answer_may_be_is_sent_if_it_is_the_first() -> None:
    world = World(2)
    for index in range(2):
        world.leader.produce(index, value_bytes=5_000)
    asker = world.ask(wants(0, 0), wants(0, 1), max_bytes=10)
    world.settle()
    assert sorted(asker.partitions) == [0]


def test_a_new_high_watermark_is_told_to_a_follower_that_has_all_records() -> None:
    world = World()
    world.leader.produce()
    first = world.begin(wants(0))
    assert first.partitions[0].high_watermark == 0
    # The follower has it now: its own fetch moves the high watermark, which it has to be told.
    second = world.ask(wants(1, last=1))
    world.settle()
    assert second.partitions[0].high_watermark == 1
    # It knows by now, so there is no news until there is.
    third = world.ask(wants(1, last=1))
    world.settle()
    assert not third.is_answered


def test_a_follower_that_waits_asks_again_before_it_would_be_taken_to_lag() -> None:
    world = World(config=ReplicaConfig(replica_lag_max_ms=30_000))
    world.begin(wants())
    waiting = world.ask(max_wait_ms=600_000)
    world.settle(9_999)
    assert not waiting.is_answered
    world.settle(1)
    assert waiting.partitions[0].error_code == 0
    assert waiting.offsets() == []


def test_a_follower_whose_log_differs_is_told_where() -> None:
    world = World()
    world.leader.produce()
    first = world.begin(wants(5, last=1))
    assert first.partitions[0].diverging == (1, 1)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (wants(epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (wants(epoch=9), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (wants(0, 77), ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_refused_partition_gets_its_error_and_the_others_their_records(
    asked: FetchPartition, error: ErrorCode
) -> None:
    world = World(2)
    world.leader.produce(1)
    first = world.begin(asked, wants(0, 1))
    assert first.partitions[asked.partition].error_code == error
    assert first.offsets(1) == [0]


def test_a_log_that_begins_later_says_where() -> None:
    world = World()
    leader = world.leader.partitions[0]
    world.leader.produce()
    leader.deliver(FetchReceived(Heard(), 2, 20, 1, 1, 1))
    leader.deliver(DeleteRecordsAsked(Heard(), 1))
    first = world.begin(wants(0))
    told = first.partitions[0]
    assert (told.error_code, told.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)


def test_an_answer_that_became_wrong_before_it_left_is_an_error() -> None:
    world = World()
    world.begin(wants())
    waiting = world.ask()
    world.leader.produce()
    # The records are ready; before they leave, this broker follows, and may cut its log.
    world.leader.partitions[0].deliver(BecameFollower(2, 2))
    world.settle()
    assert waiting.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert waiting.offsets() == []


def test_records_deleted_before_they_left_are_out_of_range() -> None:
    world = World()
    leader = world.leader.partitions[0]
    world.begin(wants())
    world.leader.produce()
    world.clock.now_ms += 1
    leader.deliver(FetchReceived(Heard(), 2, 20, 1, 1, 1))
    leader.deliver(DeleteRecordsAsked(Heard(), 1))
    waiting = world.ask()
    world.settle()
    told = waiting.partitions[0]
    assert (told.error_code, told.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)


def test_a_disk_that_cannot_be_read_fails_its_partition_alone() -> None:
    world = World(2)
    for index in range(2):
        world.leader.produce(index)
    broken = world.leader.partitions[0]
    world.leader.disk.delete(broken.log.active.path())
    first = world.begin(wants(0, 0), wants(0, 1))
    assert first.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert first.offsets(1) == [0]


def test_a_deleted_partition_is_refused_and_does_not_hang() -> None:
    world = World()
    world.begin(wants())
    partition = world.leader.partitions[0]
    partition.deliver(Deleted())
    partition.close()
    waiting = world.ask(wants())
    world.settle()
    assert waiting.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_forgotten_partition_is_not_heard_of_again() -> None:
    world = World()
    world.begin(wants())
    waiting = world.ask(forgotten=[0])
    world.leader.produce()
    world.settle()
    assert not waiting.is_answered


def test_the_answer_to_a_fetch_that_was_repeated_comes_once() -> None:
    world = World()
    world.begin(wants())
    world.ask(wants())
    waiting = world.ask(wants())
    world.leader.produce()
    world.settle()
    assert waiting.offsets() == [0]
    after = world.ask()
    world.settle()
    assert not after.is_answered


def test_what_is_said_to_a_fetch_that_was_repeated_since_does_not_leave() -> None:
    world = World(config=ReplicaConfig(replica_lag_max_ms=30_000))
    world.begin(wants())
    world.settle(5_000)
    waiting = world.ask(wants(), max_wait_ms=600_000)
    # Now the replica would keep the first fetch no longer; the second has five seconds left.
    world.settle(5_000)
    assert not waiting.is_answered
    world.settle(5_000)
    assert waiting.is_answered


def test_what_was_ready_for_an_earlier_fetch_does_not_answer_a_later_one() -> None:
    world = World()
    world.leader.lead(2, (1, 2, 3))
    world.begin(wants(epoch=2))
    world.leader.produce()
    # The records are ready, and the follower has them from elsewhere by now.
    waiting = world.ask(wants(1, epoch=2, last=2))
    world.settle()
    assert not waiting.is_answered


def test_records_wait_while_too_many_files_are_being_sent_from() -> None:
    world = World()
    world.leader.produce()
    world.leader.disk.is_crowded = True
    first = world.begin(wants())
    assert first.answer.topics == []
    world.leader.disk.is_crowded = False
    second = world.ask()
    world.settle()
    assert second.offsets() == [0]


def test_a_session_that_is_unknown_or_out_of_step_is_told_so() -> None:
    world = World()
    world.begin(wants())
    for session, error in (
        ((world.session_id + 1, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((world.session_id, 5), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ):
        asker = Asker()
        world.sessions.handle(asker, follower_fetch(session=session))
        assert asker.answer.error_code == error
    # Neither has harmed the session.
    waiting = world.ask()
    world.leader.produce()
    world.settle()
    assert waiting.offsets() == [0]


def test_a_new_session_of_a_follower_ends_the_old_one() -> None:
    world = World()
    world.begin(wants())
    old = world.ask()
    fresh = Asker()
    world.sessions.handle(fresh, follower_fetch(wants(), max_wait_ms=0))
    assert old.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    world.settle()
    assert fresh.answer.session_id not in (0, world.session_id)
    assert len(world.sessions) == 1


def test_an_earlier_incarnation_does_not_end_the_session_of_a_later_one() -> None:
    world = World()
    world.begin(wants())
    late = Asker()
    world.sessions.handle(late, follower_fetch(wants(), replica=(2, 19)))
    assert late.answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    waiting = world.ask()
    world.leader.produce()
    world.settle()
    assert waiting.offsets() == [0]


def test_sessions_are_bounded_and_the_oldest_goes() -> None:
    world = World()
    world.begin(wants())
    oldest = world.ask()
    for node in (3, 4):
        world.sessions.handle(Asker(), follower_fetch(replica=(node, 30)))
    assert len(world.sessions) == 2
    assert oldest.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_nobody_uses_ends() -> None:
    world = World()
    world.begin(wants())
    world.settle(9_999)
    assert len(world.sessions) == 1
    world.settle(1)
    assert len(world.sessions) == 0


def test_a_fetch_without_a_session_is_answered_at_once_and_leaves_none() -> None:
    world = World(2)
    world.leader.produce(1)
    asker = Asker()
    world.sessions.handle(asker, follower_fetch(wants(0, 0), wants(0, 1), session=(0, -1)))
    assert asker.answer.session_id == 0
    assert asker.offsets(0) == []
    assert asker.offsets(1) == [0]
    assert len(world.sessions) == 0


def test_closing_ends_all_sessions_and_answers_who_waits() -> None:
    world = World()
    world.begin(wants())
    waiting = world.ask()
    world.sessions.close()
    assert waiting.is_answered
    world.leader.produce()
    world.settle()


def test_a_leader_of_a_new_epoch_tells_the_high_watermark_again() -> None:
    world = World()
    world.leader.produce()
    world.begin(wants(0))
    world.ask(wants(1, last=1))
    world.settle()
    world.leader.partitions[0].deliver(BecameLeader(2, 2, frozenset({1, 2}), frozenset({1, 2})))
    told = world.ask(wants(1, epoch=2, last=1))
    world.settle()
    assert told.partitions[0].high_watermark == 1


def test_the_replica_knows_a_fetch_by_the_name_that_the_follower_gave_it() -> None:
    world = World()
    world.begin(wants())
    (parked,) = world.leader.partitions[0].state.parked
    assert str(parked.correlation) == "2-20-1"
