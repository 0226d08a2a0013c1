"""A replica on a disk that is full, that fails, or that takes its time."""

from collections.abc import Sequence
from random import Random

import attrs
import pytest

from protocol.errors import ErrorCode, InvariantViolation
from protocol.replication.effects import Append, DeleteBefore, ProduceDone, SendFetch
from protocol.replication.events import (
    Appended,
    AppendsRefused,
    DeleteRecordsAsked,
    FetchAnswered,
    FetchDue,
    FetchRefused,
    StorageFailed,
    Truncated,
)
from protocol.replication.log import EpochEnd
from protocol.replication.state import Status
from storage.batch.header import Batch
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults, fail_always, fail_once
from storage.disk.simulated import PLENTY_BYTES, SimulatedDisk
from storage.errors import DiskFailed, DiskFull
from storage.flusher import FLUSH_ALWAYS, FLUSH_NEVER, FlushPolicy
from storage.folder import NewLog
from storage.log.cutting import advance_start
from storage.store import LogStore
from storage.testing.numbered import base_offsets, batches_of, numbered
from tests.storage.folder.worlds import (
    FIRST,
    PATH,
    SECOND,
    SMALL,
    check_numbered,
    fill_up,
    open_store,
)
from tests.storage.replica_log.drivers import Driver

POLICIES = [FLUSH_NEVER, FLUSH_ALWAYS]


def started(
    disk: SimulatedDisk, policy: FlushPolicy = FLUSH_NEVER, paths: Sequence[str] = (PATH,)
) -> tuple[LogStore, Driver]:
    """A store with two partitions, and a driver of the first."""
    drivers: dict[TopicPartition, Driver] = {}

    def offline(partition: TopicPartition, error: Exception) -> None:
        if partition in drivers:
            drivers[partition].storage.fail(error)

    store = open_store(disk, paths, policy, offline=offline)
    jobs.run(store.create(NewLog(FIRST, SMALL), NewLog(SECOND, SMALL)))
    drivers[FIRST] = Driver(store, FIRST)
    return store, drivers[FIRST]


def check_kept(disk: SimulatedDisk, driver: Driver, seed: int) -> None:
    """Everything acknowledged survives a power failure, where it was said to be."""
    disk.capacity_bytes = PLENTY_BYTES
    survivor = disk.crash(seed)
    survivor.faults = Faults()
    log = open_store(survivor).log(FIRST)
    assert log is not None
    ends = [offset + 1 for offset in driver.acknowledged.values()]
    check_numbered(log, max(ends, default=0))


@pytest.mark.parametrize("policy", POLICIES, ids=["never", "always"])
def test_what_is_produced_is_appended_and_acknowledged_with_its_offset(policy: FlushPolicy) -> None:
    _, driver = started(SimulatedDisk(1), policy)
    driver.lead()
    for number in range(40):
        driver.produce(number)
    assert driver.acknowledged == {number: number for number in range(40)}
    check_numbered(driver.log, 40)
    assert driver.log.as_protocol() == driver.replica.state.log


def test_a_request_of_many_batches_gets_offsets_in_a_row_over_several_segments() -> None:
    _, driver = started(SimulatedDisk(1))
    driver.lead(epoch=3)
    driver.produce("many", count=30)
    driver.produce("more", count=5)
    assert driver.acknowledged == {"many": 0, "more": 30}
    assert len(driver.log.segments) > 2
    assert {batch.header.leader_epoch for batch in batches_of(driver.log)} == {3}
    assert base_offsets(driver.log) == list(range(35))


def test_with_flush_always_nobody_is_answered_before_the_disk_is_done() -> None:
    disk = SimulatedDisk(1)
    _, driver = started(disk, FLUSH_ALWAYS)
    disk.faults = Faults(deferred=True)
    driver.lead()
    for number in range(5):
        driver.produce(number)
    assert driver.acknowledged == {}
    disk.run_next()
    driver.go_on()
    assert driver.acknowledged == {0: 0}
    disk.run_next()
    driver.go_on()
    assert list(driver.acknowledged) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("policy", POLICIES, ids=["never", "always"])
@pytest.mark.parametrize("room", [0, 1, 100, 150, 1000])
def test_a_full_disk_refuses_producers_and_serves_them_when_there_is_room(
    policy: FlushPolicy, room: int
) -> None:
    disk = SimulatedDisk(1)
    store, driver = started(disk, policy)
    driver.lead()
    for number in range(5):
        driver.produce(number)
    fill_up(disk, room)
    for number in range(5, 40):
        driver.produce(number)
    assert set(driver.refused.values()) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert driver.acknowledged.keys().isdisjoint(driver.refused)
    assert len(driver.acknowledged) + len(driver.refused) == 40
    assert driver.replica.state.status is Status.ONLINE
    check_numbered(driver.log, len(driver.acknowledged))
    disk.capacity_bytes = PLENTY_BYTES
    kept = driver.log.end_offset
    for number in range(40, 60):
        driver.produce(number)
        assert driver.acknowledged[number] == kept + number - 40
    assert store.folders[0].failure is None
    check_numbered(driver.log, kept + 20)
    assert driver.log.as_protocol() == driver.replica.state.log


@pytest.mark.parametrize("policy", POLICIES, ids=["never", "always"])
@pytest.mark.parametrize("room", [100, 500, 900, 1300])
def test_a_request_that_fits_in_part_leaves_nothing(policy: FlushPolicy, room: int) -> None:
    disk = SimulatedDisk(1)
    _, driver = started(disk, policy)
    driver.lead()
    driver.produce("before", count=3)
    fill_up(disk, room)
    driver.produce("too much", count=40)
    assert driver.refused == {"too much": ErrorCode.KAFKA_STORAGE_ERROR}
    assert base_offsets(driver.log) == [0, 1, 2]
    disk.capacity_bytes = PLENTY_BYTES
    driver.produce("again", count=40)
    assert driver.acknowledged == {"before": 0, "again": 3}
    check_numbered(driver.log, 43)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_acknowledged_is_lost_around_a_full_disk_with_appends_in_flight(seed: int) -> None:
    """Before and after the refused one, with other jobs of the log in between; then a crash."""
    random = Random(seed)
    disk = SimulatedDisk(seed)
    _, driver = started(disk, FLUSH_ALWAYS)
    disk.faults = Faults(deferred=True)
    driver.lead()
    refusals = 0
    for client in range(60):
        match random.randrange(8):
            case 0:
                fill_up(disk, random.choice((0, 50, 150, 400)))
            case 1 | 2:
                disk.capacity_bytes = PLENTY_BYTES
            case 3:
                start = random.randint(0, driver.replica.state.high_watermark)
                driver.happen(DeleteRecordsAsked(("delete", client), start))
            case _:
                pass
        driver.produce(client, count=random.choice((1, 1, 2, 12)))
        for _ in range(random.randint(0, 2)):
            disk.run_next()
            driver.go_on()
        refusals = sum(isinstance(each, AppendsRefused) for each in driver.handled)
        assert driver.replica.state.status is Status.ONLINE
    if seed % 2:
        disk.run_all()
        driver.go_on()
        assert driver.log.end_offset == driver.replica.state.log.end_offset
        assert len(driver.acknowledged) + len(driver.refused) >= 60
        disk.capacity_bytes = PLENTY_BYTES
        driver.produce("last")
        disk.run_all()
        driver.go_on()
        assert "last" in driver.acknowledged
    assert refusals or seed % 3
    check_kept(disk, driver, seed)


def test_a_refusal_waits_for_the_cut_that_waits_for_its_turn() -> None:
    """Else the next append would find what the refused one has left."""
    disk = SimulatedDisk(1)
    _, driver = started(disk, FLUSH_ALWAYS)
    driver.lead()
    driver.produce("committed", count=20)
    disk.faults = Faults(deferred=True)
    driver.produce("in flight")
    driver.log.turns.put(advance_start(driver.log, 5), lambda _: None)
    fill_up(disk, 600)
    driver.produce("too much", count=40)
    assert driver.log.end_offset > 21
    order = []
    while disk.run_next():
        refused = any(isinstance(each, AppendsRefused) for each in driver.inbox)
        if refused:
            order.append(driver.log.end_offset)
        driver.go_on()
        disk.capacity_bytes = PLENTY_BYTES
    assert order == [21]
    driver.produce("after")
    disk.run_all()
    driver.go_on()
    assert driver.acknowledged["after"] == 21
    check_numbered(driver.log, 22)


@pytest.mark.parametrize("policy", POLICIES, ids=["never", "always"])
@pytest.mark.parametrize("operation", ["pwritev", "fsync", "create"])
def test_a_disk_that_fails_ends_its_replicas_and_the_other_folder_serves(
    policy: FlushPolicy, operation: str
) -> None:
    disk = SimulatedDisk(1)
    store, driver = started(disk, policy, ("a", "b"))
    other = Driver(store, SECOND)
    driver.lead()
    other.lead()
    driver.produce("before")
    disk.faults = Faults(fail=fail_always(operation, prefix=f"a/{FIRST.folder_name}"))
    for number in range(30):
        driver.produce(number)
        other.produce(number)
    store.tend(driver.now_ms)
    driver.go_on()
    assert driver.replica.state.status is Status.OFFLINE
    assert sum(isinstance(each, StorageFailed) for each in driver.handled) == 1
    assert isinstance(store.folders[0].failure, DiskFailed)
    driver.produce("after")
    assert set(driver.refused.values()) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(other.acknowledged) == 30
    assert other.replica.state.status is Status.ONLINE
    if operation == "fsync" and policy is FLUSH_ALWAYS:
        assert list(driver.acknowledged) == ["before"]


def test_a_folder_s_failure_ends_all_its_replicas() -> None:
    disk = SimulatedDisk(1)
    drivers: dict[TopicPartition, Driver] = {}
    store = open_store(
        disk, policy=FLUSH_ALWAYS, offline=lambda each, error: drivers[each].storage.fail(error)
    )
    jobs.run(store.create(NewLog(FIRST, SMALL), NewLog(SECOND, SMALL)))
    for partition in (FIRST, SECOND):
        drivers[partition] = Driver(store, partition)
        drivers[partition].lead()
    disk.faults = Faults(fail=fail_once("fsync", suffix=".log"))
    drivers[FIRST].produce("client")
    for driver in drivers.values():
        driver.go_on()
        assert driver.replica.state.status is Status.OFFLINE
        assert sum(isinstance(each, StorageFailed) for each in driver.handled) == 1


def test_completions_come_in_the_order_of_the_writes() -> None:
    for seed in range(10):
        disk = SimulatedDisk(seed)
        _, driver = started(disk, FLUSH_ALWAYS)
        disk.faults = Faults(deferred=True)
        driver.lead()
        for number in range(30):
            driver.produce(number)
            if number % 4 == seed % 4:
                disk.run_next()
                driver.go_on()
        disk.run_all()
        driver.go_on()
        ends = [each.end_offset for each in driver.handled if isinstance(each, Appended)]
        assert ends == list(range(1, 31))
        assert list(driver.acknowledged) == list(range(30))


def answer(driver: Driver, batches: Sequence[Batch], high_watermark: int = 0) -> FetchAnswered:
    """What a leader of the same epoch answers to the follower's last fetch."""
    state = driver.replica.state
    last = state.log.epochs[-1][0] if state.log.epochs else 0
    counts: dict[int, int] = {}
    for batch in batches:
        epoch = batch.header.leader_epoch
        counts[epoch] = counts.get(epoch, 0) + batch.header.record_count
    return FetchAnswered(
        state.view.epoch,
        state.log.end_offset,
        last,
        high_watermark=high_watermark,
        epochs=tuple(counts.items()),
        payload=batches,
    )


@pytest.mark.parametrize("policy", POLICIES, ids=["never", "always"])
def test_a_follower_appends_what_it_fetched_and_cuts_what_diverges(policy: FlushPolicy) -> None:
    _, driver = started(SimulatedDisk(1), policy)
    driver.follow(epoch=2)
    driver.happen(answer(driver, [numbered(each, leader_epoch=1) for each in range(20)]))
    assert driver.log.as_protocol() == driver.replica.state.log
    check_numbered(driver.log, 20)
    driver.happen(
        attrs.evolve(answer(driver, []), diverging=EpochEnd(1, 7), epochs=(), payload=None)
    )
    assert driver.handled[-1] == Truncated(7) or Truncated(7) in driver.handled
    assert driver.log.end_offset == 7
    driver.happen(answer(driver, [numbered(each, leader_epoch=2) for each in range(7, 12)]))
    assert driver.log.as_protocol() == driver.replica.state.log
    assert driver.log.epochs.entries == ((1, 0), (2, 7))
    check_numbered(driver.log, 12)


def test_a_follower_that_is_too_far_behind_begins_anew_where_the_leader_begins() -> None:
    _, driver = started(SimulatedDisk(1))
    driver.follow(epoch=1)
    driver.happen(answer(driver, [numbered(each) for each in range(5)]))
    driver.happen(FetchRefused(1, ErrorCode.OFFSET_OUT_OF_RANGE, 100))
    assert (driver.log.start_offset, driver.log.end_offset) == (100, 100)
    driver.happen(answer(driver, [numbered(100)]))
    check_numbered(driver.log, 101)


@pytest.mark.parametrize("policy", POLICIES, ids=["never", "always"])
def test_a_follower_without_room_asks_again_later(policy: FlushPolicy) -> None:
    disk = SimulatedDisk(1)
    _, driver = started(disk, policy)
    driver.follow()
    driver.happen(answer(driver, [numbered(0), numbered(1)]))
    fill_up(disk, 700)
    driver.happen(answer(driver, [numbered(each) for each in range(2, 30)]))
    assert any(isinstance(each, AppendsRefused) for each in driver.handled)
    assert driver.replica.state.log.end_offset == driver.log.end_offset == 2
    disk.capacity_bytes = PLENTY_BYTES
    fetches = sum(isinstance(each, SendFetch) for each in driver.effects)
    driver.now_ms += 100
    driver.happen(FetchDue())
    assert sum(isinstance(each, SendFetch) for each in driver.effects) == fetches + 1
    driver.happen(answer(driver, [numbered(each) for each in range(2, 30)]))
    check_numbered(driver.log, 30)


def test_records_that_nobody_needs_are_deleted_also_when_the_disk_is_full() -> None:
    disk = SimulatedDisk(1)
    store, driver = started(disk)
    driver.lead()
    driver.produce("client", count=60)
    fill_up(disk)
    driver.happen(DeleteRecordsAsked("operator", 40))
    assert driver.replica.state.status is Status.ONLINE
    disk.capacity_bytes = PLENTY_BYTES
    driver.storage.carry_out(DeleteBefore(41), 0)
    assert driver.log.start_offset == 41
    assert store.folders[0].failure is None


def test_a_cut_without_room_ends_one_replica_and_not_its_folder() -> None:
    disk = SimulatedDisk(1)
    store, driver = started(disk, FLUSH_ALWAYS)
    other = Driver(store, SECOND)
    other.lead()
    driver.follow(epoch=2)
    driver.happen(answer(driver, [numbered(each, leader_epoch=1) for each in range(20)]))
    fill_up(disk)
    driver.happen(
        attrs.evolve(answer(driver, []), diverging=EpochEnd(1, 7), epochs=(), payload=None)
    )
    assert driver.replica.state.status is Status.OFFLINE
    assert store.folders[0].failure is None
    disk.capacity_bytes = PLENTY_BYTES
    other.produce("client")
    assert list(other.acknowledged) == ["client"]


def test_a_log_that_is_deleted_under_a_waiting_append_harms_nobody_else() -> None:
    disk = SimulatedDisk(1)
    store, driver = started(disk, FLUSH_ALWAYS)
    other = Driver(store, SECOND)
    disk.faults = Faults(deferred=True)
    driver.lead()
    other.lead()
    other.produce("other")
    driver.produce("client")
    ended: list[Exception | None] = []
    store.delete(FIRST, ended.append)
    disk.run_all()
    driver.go_on()
    other.go_on()
    assert ended == [None]
    assert store.folders[0].failure is None
    assert driver.acknowledged == {}
    assert list(other.acknowledged) == ["other"]
    other.produce("more")
    disk.run_all()
    other.go_on()
    assert list(other.acknowledged) == ["other", "more"]


def test_batches_that_are_not_what_was_counted_are_a_bug_and_no_error_of_the_disk() -> None:
    _, driver = started(SimulatedDisk(1))
    with pytest.raises(InvariantViolation, match="BatchesAreWhatWasCounted"):
        driver.storage.carry_out(Append(0, 2, 1, [numbered(0)]), 0)
    with pytest.raises(InvariantViolation, match="StorageKnowsItsEffects"):
        driver.storage.carry_out(ProduceDone("client", 0, 0), 0)


def test_after_a_failure_nothing_more_is_written() -> None:
    disk = SimulatedDisk(1)
    _, driver = started(disk)
    driver.storage.fail(DiskFull("as if"))
    disk.trace = []
    driver.storage.carry_out(Append(0, 1, 1, [numbered(0)]), 0)
    driver.storage.carry_out(DeleteBefore(0), 0)
    assert disk.trace == []
