"""A log that was deleted is gone, whatever was being done with it, and whatever happens then."""

from collections.abc import Callable
from contextlib import suppress

import attrs
import pytest

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults, fail_always
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.errors import DiskFailed, StorageError
from storage.flusher import FLUSH_ALWAYS
from storage.folder import LogFolder
from storage.log.compaction import CompactionReport, compact
from storage.log.cutting import advance_start, truncate
from storage.log.log import Log
from storage.testing.numbered import numbered
from tests.storage.folder.test_opening import filled
from tests.storage.folder.worlds import (
    FIRST,
    PATH,
    SECOND,
    SMALL,
    THIRD,
    append,
    check_numbered,
    create,
    delete,
    fill_up,
    fresh_disk,
    open_folder,
)


def leftovers(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.list(PATH) if name.endswith("-delete")]


@pytest.mark.parametrize("seed", range(4))
def test_a_deleted_log_stays_deleted_across_a_crash_at_any_operation(seed: int) -> None:
    before = SimulatedDisk(seed)
    filled(before)
    operation, done = 0, False
    while not done:
        operation += 1
        disk = before.kill()
        folder = open_folder(disk)
        disk.crash_at(disk.operations + operation)
        with suppress(SimulatedCrash):
            assert delete(folder, SECOND) is None
            done = True
        survivor = disk.crash(seed * 1000 + operation)
        after = open_folder(survivor)
        assert not after.closed
        assert set(after.logs) >= {FIRST, THIRD}
        assert not leftovers(survivor)
        if SECOND in after.logs:
            assert not done
        for log in after.logs.values():
            check_numbered(log, 40)
        if SECOND not in after.logs:
            assert append(create(after, SECOND)) == 1
            assert set(open_folder(survivor.crash(seed)).logs) == {FIRST, SECOND, THIRD}
    assert operation > 10


def test_its_name_is_free_at_once() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    for _ in range(3):
        assert delete(folder, SECOND) is None
        log = create(folder, SECOND)
        assert (log.end_offset, log.recovery_point) == (0, 0)
        append(log, 3)
    check_numbered(open_folder(disk.crash(1)).logs[FIRST], 40)


def test_what_is_not_there_is_deleted_already() -> None:
    folder = open_folder(fresh_disk())
    assert delete(folder, SECOND) is None


def test_a_damaged_log_can_be_deleted() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    for name in disk.list(folder.logs[SECOND].folder):
        if name.endswith(".log"):
            disk.truncate(f"{folder.logs[SECOND].folder}/{name}", 0)
    after = open_folder(disk)
    assert set(after.closed) == {SECOND}
    assert delete(after, SECOND) is None
    assert append(create(after, SECOND)) == 1


def test_a_full_disk_gets_room_by_deleting() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    fill_up(disk)
    assert delete(folder, SECOND) is None
    assert folder.failure is None
    append(folder.logs[FIRST], 10)


@pytest.mark.parametrize("operation", ["list", "rename", "fsync_folder", "delete", "fsync"])
def test_a_disk_that_fails_while_a_log_is_deleted_takes_the_folder_offline(operation: str) -> None:
    disk = fresh_disk()
    folder = filled(disk)
    disk.faults = attrs.evolve(disk.faults, fail=fail_always(operation))
    assert isinstance(delete(folder, SECOND), DiskFailed)
    assert isinstance(folder.failure, DiskFailed)


def flush_it(folder: LogFolder, log: Log) -> None:
    append(log, 3)
    folder.flusher.flush(log)


def flush_another(folder: LogFolder, log: Log) -> None:
    append(folder.logs[FIRST])
    folder.flusher.flush(folder.logs[FIRST])
    append(log)
    folder.flusher.flush(log)


def cut_it(folder: LogFolder, log: Log) -> None:
    log.turns.put(truncate(log, 5), heed(folder))


def delete_its_records(folder: LogFolder, log: Log) -> None:
    log.turns.put(advance_start(log, log.end_offset), heed(folder))


def compact_it(folder: LogFolder, log: Log) -> None:
    log.config = attrs.evolve(SMALL, compact=True, min_cleanable_ratio=0)
    log.committed(log.end_offset)
    compact(log, 10**6, log.end_offset, heed(folder))
    assert isinstance(folder.disk, SimulatedDisk)
    assert folder.disk.waiting == 1


def delete_it_twice(folder: LogFolder, log: Log) -> None:
    folder.delete(log.partition, lambda _: None)


def heed(folder: LogFolder) -> Callable[[CompactionReport | Exception | None], None]:
    return lambda result: folder.fail(result) if isinstance(result, Exception) else None


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize(
    "begin",
    [flush_it, flush_another, cut_it, delete_its_records, compact_it, delete_it_twice],
)
def test_what_is_being_done_with_it_ends_first_or_comes_to_nothing(
    begin: Callable[[LogFolder, Log], None], steps: int
) -> None:
    """And neither harms the folder, nor what gets the same name."""
    disk = SimulatedDisk(steps)
    folder = filled(disk)
    disk.faults = Faults(deferred=True)
    begin(folder, folder.logs[SECOND])
    for _ in range(steps):
        disk.run_next()
    ended: list[Exception | None] = []
    folder.delete(SECOND, ended.append)
    made: Log | None = None
    while disk.run_next():
        if ended and made is None:
            made = create(folder, SECOND)
            made.append([numbered(0, leader_epoch=7)])
    assert ended == [None]
    assert folder.failure is None
    assert not leftovers(disk)
    disk.faults = Faults()
    made = made or create(folder, SECOND)
    assert made.recovery_point == 0
    after = open_folder(disk.crash(steps))
    assert not after.closed
    check_numbered(after.logs[FIRST], 40)
    assert after.logs[SECOND].end_offset <= 1


def test_who_waits_for_a_deleted_log_is_told_once() -> None:
    disk = fresh_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log, other = create(folder, FIRST), create(folder, SECOND)
    disk.faults = Faults(deferred=True)
    told: list[StorageError | None] = []
    append(other)
    folder.flusher.flush(other)
    append(log)
    folder.flusher.appended(log, 0, told.append)
    folder.delete(FIRST, lambda _: None)
    disk.run_all()
    assert len(told) == 1
    assert told[0] is not None
    assert folder.failure is None


@pytest.mark.parametrize("seed", range(2))
def test_a_log_made_where_another_was_is_not_called_damaged(seed: int) -> None:
    """Whatever the checkpoints still say of the old one when the power fails."""
    before = SimulatedDisk(seed)
    filled(before)
    operation, done = 0, False
    while not done:
        operation += 1
        disk = before.kill()
        folder = open_folder(disk)
        disk.crash_at(disk.operations + operation)
        with suppress(SimulatedCrash):
            delete(folder, SECOND)
            create(folder, SECOND)
            done = True
        survivor = disk.crash(seed * 1000 + operation)
        after = open_folder(survivor)
        assert not after.closed
        if SECOND not in after.logs:
            survivor.crash_at(survivor.operations + 1 + operation % 12)
            with suppress(SimulatedCrash):
                create(after, SECOND)
            assert not open_folder(survivor.crash(seed)).closed


def test_the_checkpoints_forget_a_deleted_log() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    delete(folder, SECOND)
    assert not any(SECOND in file.values for file in folder.marks.files)
    after = open_folder(disk.crash(1))
    assert not any(SECOND in file.values for file in after.marks.files)


def test_the_checkpoints_do_not_keep_what_has_no_folder() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    folder.marks.recovery_points.values[TopicPartition("gone", 3)] = 7
    jobs.run(folder.marks.save())
    open_folder(disk)
    for name in disk.list(PATH):
        if name.endswith("checkpoint"):
            assert b"gone" not in disk.files()[f"{PATH}/{name}"]
