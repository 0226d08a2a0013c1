"""When an append is done, by policy, and what is flushed without anybody asking."""

import pytest

from storage.disk.simulated import SimulatedDisk
from storage.errors import StorageError
from storage.flusher import FLUSH_ALWAYS, FLUSH_NEVER, FlushPolicy
from storage.folder import LogFolder
from storage.log.log import Log
from tests.storage.flusher.test_rounds import deferred_disk, fsyncs
from tests.storage.folder.worlds import FIRST, SECOND, append, create, open_folder

Told = list[StorageError | None]


def started(policy: FlushPolicy) -> tuple[SimulatedDisk, LogFolder, Log]:
    disk = deferred_disk()
    folder = open_folder(disk, policy)
    log = create(folder, FIRST)
    disk.trace = []
    return disk, folder, log


def test_without_flushing_an_append_is_done_at_once_and_nothing_is_ever_synced() -> None:
    disk, folder, log = started(FLUSH_NEVER)
    told: Told = []
    for now_ms in range(0, 10_000, 100):
        append(log)
        folder.flusher.appended(log, now_ms, told.append)
        folder.flusher.tick(now_ms)
    assert told == [None] * 100
    assert folder.flusher.next_deadline() is None
    assert disk.waiting == 0
    assert not fsyncs(disk)


def test_flushing_always_an_append_is_done_only_when_it_is_durable() -> None:
    disk, folder, log = started(FLUSH_ALWAYS)
    told: Told = []
    append(log)
    folder.flusher.appended(log, 0, told.append)
    assert told == []
    disk.run_next()
    assert told == [None]
    assert fsyncs(disk)[log.active.path()] == 1
    assert log.recovery_point == 1


def test_flushing_every_so_many_records_an_append_is_done_at_once() -> None:
    disk, folder, log = started(FlushPolicy(every_records=10))
    told: Told = []
    for number in range(1, 10):
        append(log)
        folder.flusher.appended(log, 0, told.append)
        assert told == [None] * number
    assert disk.waiting == 0
    append(log)
    folder.flusher.appended(log, 0, told.append)
    assert told == [None] * 10
    assert disk.waiting == 1
    disk.run_all()
    assert log.recovery_point == 10
    append(log, 9)
    folder.flusher.appended(log, 0, told.append)
    assert disk.waiting == 0


def test_records_are_counted_per_log() -> None:
    disk, folder, log = started(FlushPolicy(every_records=10))
    other = create(folder, SECOND)
    for each in (log, other):
        append(each, 9)
        folder.flusher.appended(each, 0, lambda _: None)
    assert disk.waiting == 0


def test_flushing_after_a_time_an_append_is_done_at_once_and_durable_when_it_is_over() -> None:
    disk, folder, log = started(FlushPolicy(every_ms=1000))
    told: Told = []
    append(log)
    folder.flusher.appended(log, 5_000, told.append)
    append(log)
    folder.flusher.appended(log, 5_900, told.append)
    assert told == [None, None]
    assert folder.flusher.next_deadline() == 6_000
    folder.flusher.tick(5_999)
    assert disk.waiting == 0
    folder.flusher.tick(6_000)
    assert disk.waiting == 1
    disk.run_all()
    assert log.recovery_point == 2
    assert folder.flusher.next_deadline() is None


def test_the_first_append_after_a_flush_sets_the_next_deadline() -> None:
    disk, folder, log = started(FlushPolicy(every_ms=1000))
    other = create(folder, SECOND)
    for each, now_ms in ((log, 0), (other, 400)):
        append(each)
        folder.flusher.appended(each, now_ms, lambda _: None)
    assert folder.flusher.next_deadline() == 1_000
    folder.flusher.tick(1_000)
    append(log)
    folder.flusher.appended(log, 1_200, lambda _: None)
    assert folder.flusher.next_deadline() == 1_400
    disk.run_all()
    assert folder.flusher.next_deadline() == 1_400
    folder.flusher.tick(1_400)
    assert folder.flusher.next_deadline() == 2_200


def test_a_deadline_does_not_stay_in_the_past_while_a_slow_round_is_under_way() -> None:
    disk, folder, log = started(FlushPolicy(every_ms=1000))
    other = create(folder, SECOND)
    folder.flusher.flush(other)
    append(log)
    folder.flusher.appended(log, 0, lambda _: None)
    folder.flusher.tick(1_000)
    assert folder.flusher.next_deadline() is None
    disk.run_all()
    assert log.recovery_point == 1


def test_both_a_number_and_a_time_may_be_set() -> None:
    disk, folder, log = started(FlushPolicy(every_records=5, every_ms=1000))
    append(log, 5)
    folder.flusher.appended(log, 0, lambda _: None)
    assert folder.flusher.next_deadline() is None
    disk.run_all()
    append(log)
    folder.flusher.appended(log, 100, lambda _: None)
    assert disk.waiting == 0
    assert folder.flusher.next_deadline() == 1_100


@pytest.mark.parametrize("setting", [{"every_records": 0}, {"every_ms": 0}, {"every_ms": -1}])
def test_a_policy_that_makes_no_sense_is_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="use 1 or more"):
        FlushPolicy(**setting)
