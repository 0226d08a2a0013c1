"""A partition: what producers are told, and when; what becomes of their sequences."""

import errno

import pytest

from net.broker.partition import Duplicate
from protocol.errors import ErrorCode
from protocol.replication.effects import ProduceDone, Refuse
from protocol.replication.events import Deleted, DeleteRecordsAsked, OffsetAsked
from storage.disk.faults import Faults, fail_always
from storage.flusher import FLUSH_ALWAYS
from storage.testing.numbered import batches_of
from tests.net.broker.fetching.worlds import Heard
from tests.net.broker.worlds import WALL_MS, World, batch


def is_done(answer: object, base_offset: int) -> bool:
    return isinstance(answer, ProduceDone) and answer.base_offset == base_offset


def refused(answer: object) -> ErrorCode:
    assert isinstance(answer, Refuse)
    return answer.error


def test_acks_all_waits_for_those_in_sync() -> None:
    world = World()
    world.lead()
    asked = world.produce(batch(records=2))
    assert asked.answers == []
    assert (world.end, world.committed) == (2, 0)
    world.fetched(2)
    assert is_done(asked.only, 0)
    assert world.committed == 2


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks_wait_for_this_replica_alone(acks: int) -> None:
    world = World()
    world.lead()
    assert is_done(world.produce(batch(), acks).only, 0)
    assert world.committed == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_nothing_is_acknowledged_before_it_is_durable_if_that_is_wanted(acks: int) -> None:
    world = World(FLUSH_ALWAYS, deferred=True)
    world.lead(isr=(1,))
    asked = world.produce(batch(), acks)
    assert asked.answers == []
    world.disk.run_all()
    assert is_done(asked.only, 0)


def test_without_enough_in_sync_acks_all_is_refused_and_nothing_is_written() -> None:
    world = World(min_isr=2)
    world.lead(isr=(1,))
    assert refused(world.produce(batch()).only) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert is_done(world.produce(batch(), acks=1).only, 0)


def test_a_producer_that_waits_too_long_is_told_so() -> None:
    world = World()
    world.lead()
    asked = world.produce(batch(), timeout_ms=500)
    world.pass_ms(499)
    assert asked.answers == []
    world.pass_ms(1)
    assert refused(asked.only) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_follower_takes_no_records(acks: int) -> None:
    world = World()
    world.follow()
    for made in (batch(), batch(producer=5, sequence=0)):
        assert refused(world.produce(made, acks).only) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.end == 0


def test_a_batch_that_comes_twice_is_written_once_and_has_the_first_ones_offset() -> None:
    world = World()
    world.lead(isr=(1,))
    world.produce(batch())
    assert is_done(world.produce(batch(records=3, producer=5, sequence=0)).only, 1)
    assert is_done(world.produce(batch(producer=5, sequence=3)).only, 4)
    for sequence, records, offset in ((0, 3, 1), (3, 1, 4)):
        again = world.produce(batch(records=records, producer=5, sequence=sequence))
        assert again.only == Duplicate(offset, 0)
    assert world.end == 5
    assert [each.header.base_sequence for each in batches_of(world.partition.log)] == [-1, 0, 3]


def test_a_batch_that_comes_twice_before_it_is_committed_waits_like_the_first() -> None:
    world = World()
    world.lead()
    first = world.produce(batch(producer=5, sequence=0))
    again = world.produce(batch(producer=5, sequence=0))
    assert first.answers == again.answers == []
    world.fetched(1)
    assert is_done(first.only, 0)
    assert again.only == Duplicate(0, 0)
    assert world.end == 1


def test_a_gap_in_the_sequence_is_refused() -> None:
    world = World()
    world.lead(isr=(1,))
    world.produce(batch(producer=5, sequence=0))
    asked = world.produce(batch(producer=5, sequence=2))
    assert refused(asked.only) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert is_done(world.produce(batch(producer=5, sequence=1)).only, 1)


def test_a_batch_that_is_refused_can_be_sent_again() -> None:
    world = World(min_isr=2)
    world.lead(isr=(1,))
    asked = world.produce(batch(producer=5, sequence=0))
    assert refused(asked.only) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert is_done(world.produce(batch(producer=5, sequence=0), acks=1).only, 0)


def test_a_full_disk_refuses_and_the_same_batches_go_when_there_is_room() -> None:
    world = World()
    world.lead(isr=(1,))
    assert is_done(world.produce(batch(producer=5, sequence=0)).only, 0)
    plenty, world.disk.capacity_bytes = world.disk.capacity_bytes, 1
    for made in (batch(producer=5, sequence=1), batch()):
        assert refused(world.produce(made).only) == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.end == 1
    world.disk.capacity_bytes = plenty
    assert is_done(world.produce(batch(producer=5, sequence=1)).only, 1)
    assert world.failures == []


def test_a_disk_that_fails_is_told_and_takes_nothing_more() -> None:
    world = World()
    world.lead(isr=(1,))
    world.disk.faults = Faults(fail=fail_always("pwritev", code=errno.EIO))
    asked = world.produce(batch(producer=5, sequence=0))
    assert refused(asked.only) == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(world.failures) == 1
    world.disk.faults = Faults()
    assert refused(world.produce(batch()).only) == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_leads_anew_knows_the_producers_of_its_log() -> None:
    world = World()
    world.lead(isr=(1,))
    world.produce(batch(producer=5, sequence=0))
    world.follow(epoch=2)
    assert refused(world.produce(batch(producer=5, sequence=1)).only) != 0
    world.lead(epoch=3, isr=(1,))
    assert world.produce(batch(producer=5, sequence=0)).only == Duplicate(0, 0)
    assert is_done(world.produce(batch(producer=5, sequence=1)).only, 1)
    assert world.roles == [True, False, True]


def test_who_waits_when_the_leadership_ends_is_told_once() -> None:
    world = World()
    world.lead()
    first = world.produce(batch(producer=5, sequence=0))
    again = world.produce(batch(producer=5, sequence=0))
    plain = world.produce(batch())
    world.follow()
    for each in (first, again, plain):
        # Their batches are in the log, so they must not hear that nothing was written.
        assert refused(each.only) == ErrorCode.REQUEST_TIMED_OUT


def test_a_write_of_an_epoch_before_does_not_stand_for_one_of_this() -> None:
    world = World(FLUSH_ALWAYS, deferred=True)
    world.lead(isr=(1,))
    old = world.produce(batch(producer=5, sequence=0))
    world.lead(epoch=2, isr=(1,))
    # The new epoch begins when the old one's writes are done.
    early = world.produce(batch(producer=6, sequence=0))
    assert refused(early.only) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.disk.run_all()
    world.pass_ms(0)
    assert len(old.answers) == 1
    new = world.produce(batch(producer=6, sequence=0))
    again = world.produce(batch(producer=6, sequence=0))
    assert [*new.answers, *again.answers] == []
    world.disk.run_all()
    assert is_done(new.only, 1)
    assert again.only == Duplicate(1, 0)
    assert world.violations == []


def test_watchers_hear_when_there_is_more_and_only_until_they_cancel() -> None:
    world = World()
    world.lead()
    calls: list[int] = []
    watch = world.partition.watch(lambda: calls.append(world.committed))
    world.produce(batch())
    assert calls == []
    world.fetched(1)
    assert calls == [1]
    world.follow()
    assert len(calls) == 2
    watch.cancel()
    watch.cancel()
    world.lead(epoch=3, isr=(1,))
    world.produce(batch())
    assert len(calls) == 2


def test_a_watcher_may_cancel_another_while_it_is_called() -> None:
    world = World()
    world.lead(isr=(1,))
    calls: list[str] = []
    first = world.partition.watch(lambda: calls.append("first"))

    def cancel_the_first() -> None:
        calls.append("second")
        first.cancel()

    world.partition.watch(cancel_the_first)
    world.produce(batch())
    world.produce(batch())
    assert calls == ["first", "second", "second"]


def test_records_are_deleted_and_offsets_and_times_found() -> None:
    world = World()
    world.lead(isr=(1,))
    for _ in range(3):
        world.produce(batch())
    asked = [Heard() for _ in range(4)]
    world.partition.deliver(DeleteRecordsAsked(asked[0], 2))
    world.partition.deliver(OffsetAsked(asked[1], OffsetAsked.EARLIEST))
    world.partition.deliver(OffsetAsked(asked[2], WALL_MS))
    world.partition.deliver(OffsetAsked(asked[3], WALL_MS + 10))
    start, earliest, found, nothing = (each.answers[0] for each in asked)
    assert (start.offset, earliest.offset, found.offset, nothing) == (2, 2, 2, None)
    assert world.partition.log.start_offset == 2


def test_what_storage_retains_moves_the_start() -> None:
    world = World()
    world.lead(isr=(1,))
    for _ in range(3):
        world.produce(batch())
    world.partition.retained(2)
    assert world.partition.state.log.start_offset == 2


def test_a_replica_that_is_deleted_asks_for_its_files_to_go() -> None:
    world = World()
    world.lead(isr=(1,))
    world.partition.deliver(Deleted())
    assert world.forgotten == 1


def test_what_must_not_happen_is_told_and_nothing_is_handled_after() -> None:
    world = World()
    world.lead(isr=(1,))
    world.lead(epoch=2, isr=(2,))
    (violation,) = world.violations
    assert violation.name == "LeaderInIsr"
    assert world.partition.replica.closed
    assert world.partition.sequences.closed
    world.produce(batch())
    world.produce(batch(producer=5, sequence=0))
    assert world.end == 0


def test_a_leader_knows_in_which_incarnation_its_followers_fetch() -> None:
    world = World()
    world.lead()
    assert world.partition.broker_epochs() == {1: 10, 2: -1}
    world.fetched(0)
    assert world.partition.broker_epochs() == {1: 10, 2: 20}
    world.follow()
    assert world.partition.broker_epochs() == {1: 10}


def test_what_is_read_can_be_sent_after_it_was_deleted() -> None:
    world = World()
    world.lead(isr=(1,))
    for _ in range(2):
        world.produce(batch())
    region = world.partition.read(0, 2, 1 << 20)
    assert region is not None
    assert world.partition.available_bytes(0) == region.length
    assert world.partition.available_bytes(2) == 0
    world.partition.deliver(DeleteRecordsAsked(Heard(), 2))
    assert len(region.file.read(region.position, region.length)) == region.length
    region.release()
    assert world.partition.read(2, 2, 1 << 20) is None
