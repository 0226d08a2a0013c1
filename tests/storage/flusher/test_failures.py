"""A flush that fails is the last one of its folder; a full disk is no failure."""

import attrs
import pytest

from storage.checkpoint import TopicPartition
from storage.disk.faults import any_of, fail_always, fail_once
from storage.errors import DiskFailed, StorageError
from storage.flusher import FLUSH_ALWAYS, FLUSH_NEVER, FlushPolicy
from tests.storage.flusher.test_rounds import deferred_disk, fsyncs
from tests.storage.folder.worlds import (
    FIRST,
    SECOND,
    append,
    check_numbered,
    create,
    fill_up,
    fresh_disk,
    open_folder,
)

Told = list[StorageError | None]


def test_an_fsync_that_fails_is_told_to_all_who_wait_and_takes_the_folder_offline() -> None:
    disk = deferred_disk()
    offline: list[TopicPartition] = []
    folder = open_folder(disk, FLUSH_ALWAYS, offline=lambda each, _: offline.append(each))
    first, second = create(folder, FIRST), create(folder, SECOND)
    told: Told = []
    for log in (first, second, first):
        append(log)
        folder.flusher.appended(log, 0, told.append)
    disk.run_next()
    assert told == [None]
    append(first)
    folder.flusher.appended(first, 0, told.append)
    assert disk.waiting == 1
    disk.faults = attrs.evolve(disk.faults, fail=fail_once("fsync", suffix=".log"))
    disk.run_all()
    # The round was for the second log, which failed, and the first, which did not.
    assert [type(error) for error in told[1:]] == [DiskFailed, type(None), DiskFailed]
    assert isinstance(folder.failure, DiskFailed)
    assert offline == [FIRST, SECOND]


@pytest.mark.parametrize("code", [5, 28], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("policy", [FLUSH_ALWAYS, FlushPolicy(every_ms=10), FLUSH_NEVER], ids=str)
def test_no_fsync_is_tried_again_after_one_that_failed(policy: FlushPolicy, code: int) -> None:
    """The second would succeed, and what the first has lost would be called durable."""
    disk = fresh_disk()
    folder = open_folder(disk, policy)
    log = create(folder, FIRST)
    disk.faults = attrs.evolve(disk.faults, fail=fail_once("fsync", suffix="00.log", code=code))
    told: Told = []
    append(log)
    folder.flusher.appended(log, 0, told.append)
    folder.flusher.tick(10)
    folder.flusher.flush(log)
    disk.trace = []
    append(log)
    folder.flusher.appended(log, 20, told.append)
    folder.flusher.tick(30)
    folder.flusher.flush(log, told.append)
    assert isinstance(folder.failure, DiskFailed)
    assert isinstance(told[-1], DiskFailed)
    assert not fsyncs(disk)
    assert log.recovery_point == 0


def test_indexes_that_cannot_be_written_take_the_folder_offline_too() -> None:
    disk = fresh_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log, other = create(folder, FIRST), create(folder, SECOND)
    append(log, 8)
    disk.faults = attrs.evolve(disk.faults, fail=fail_always("pwritev", suffix=".index"))
    told: Told = []
    folder.flusher.flush(log, told.append)
    append(other)
    folder.flusher.flush(other, told.append)
    assert [type(error) for error in told] == [DiskFailed, DiskFailed]
    assert isinstance(folder.failure, DiskFailed)


def test_the_others_of_a_round_are_told_the_truth_when_one_log_fails() -> None:
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    first, second = create(folder, FIRST), create(folder, SECOND)
    append(first)
    folder.flusher.flush(first)
    told: dict[TopicPartition, StorageError | None] = {}
    for log in (first, second):
        append(log)
        folder.flusher.flush(log, lambda error, each=log.partition: told.update({each: error}))  # type: ignore[misc]
    disk.run_next()
    disk.faults = attrs.evolve(disk.faults, fail=fail_always("fsync", prefix=second.folder))
    disk.run_next()
    assert told[FIRST] is None
    assert isinstance(told[SECOND], DiskFailed)
    assert first.recovery_point == 2
    assert second.recovery_point == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_full_disk_while_flushing_keeps_the_batches_and_the_folder(seed: int) -> None:
    """Indexes and epochs find no room. They are made anew if the power fails before they do."""
    disk = fresh_disk(seed=seed)
    folder = open_folder(disk, FLUSH_ALWAYS)
    log = create(folder, FIRST)
    end = append(log, 8)
    fill_up(disk)
    told: Told = []
    folder.flusher.appended(log, 0, told.append)
    assert told == [None]
    assert folder.failure is None
    assert log.recovery_point == 0
    survivor = disk.crash(seed)
    survivor.capacity_bytes = 1 << 40
    check_numbered(open_folder(survivor).logs[FIRST], end)
    disk.capacity_bytes = 1 << 40
    folder.flusher.flush(log, told.append)
    assert told == [None, None]
    assert log.recovery_point == end
    check_numbered(open_folder(disk.crash(seed)).logs[FIRST], end)


def test_two_faults_in_one_round_are_one_failure() -> None:
    disk = fresh_disk()
    reasons: list[Exception] = []
    folder = open_folder(disk, FLUSH_ALWAYS, offline=lambda _, error: reasons.append(error))
    for partition in (FIRST, SECOND):
        append(create(folder, partition))
    rules = (fail_always("fsync", prefix=log.folder) for log in folder.logs.values())
    disk.faults = attrs.evolve(disk.faults, fail=any_of(*rules))
    for log in folder.logs.values():
        folder.flusher.flush(log)
    assert len(reasons) == 2
    assert reasons[0] is reasons[1] is folder.failure
