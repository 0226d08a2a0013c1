"""What a folder does with what it finds: clean, torn, damaged, or not readable at all."""

import errno
from contextlib import suppress

import attrs
import pytest

from storage.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TopicPartition,
)
from storage.disk import jobs
from storage.disk.faults import fail_always, fail_once
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.errors import DamagedLog, DiskFailed, DiskFull
from storage.flusher import FLUSH_ALWAYS
from storage.folder import LogFolder
from storage.log.marks import CLEANED_OFFSETS
from tests.storage.folder.worlds import (
    FIRST,
    PATH,
    SECOND,
    THIRD,
    append,
    check_numbered,
    close_folder,
    create,
    fill_up,
    fresh_disk,
    open_folder,
)

MARKER = f"{PATH}/{CLEAN_SHUTDOWN}"


def filled(disk: SimulatedDisk, count: int = 40) -> LogFolder:
    """Three logs of several segments, all of it flushed."""
    folder = open_folder(disk, FLUSH_ALWAYS)
    for partition in (FIRST, SECOND, THIRD):
        log = create(folder, partition)
        append(log, count)
        folder.flusher.flush(log)
        assert len(log.segments) > 1
    jobs.run(folder.marks.save())
    return folder


def stopped(disk: SimulatedDisk) -> SimulatedDisk:
    close_folder(filled(disk))
    return disk


def test_the_folder_itself_is_durable_when_it_is_open() -> None:
    for seed in range(20):
        disk = SimulatedDisk(seed)
        open_folder(disk)
        assert disk.crash(seed).is_folder(PATH)


def test_after_a_clean_stop_no_sealed_segment_is_read() -> None:
    disk = stopped(fresh_disk())
    read: set[str] = set()

    def watch(operation: str, path: str) -> None:
        if operation == "preadv" and path.endswith(".log"):
            read.add(path)

    disk.faults = attrs.evolve(disk.faults, fail=watch)
    folder = open_folder(disk)
    assert read <= {log.active.path() for log in folder.logs.values()}
    for log in folder.logs.values():
        check_numbered(log, 40)
        assert append(log) == 41
    assert folder.warnings == []


def test_after_a_crash_what_was_not_durable_is_read_again() -> None:
    """The same watch as above sees something if there is something to see."""
    disk = fresh_disk()
    filled(disk)
    folder = open_folder(disk.kill())
    disk = folder.disk  # type: ignore[assignment]
    append(folder.logs[FIRST], 20)
    read: set[str] = set()

    def watch(operation: str, path: str) -> None:
        if operation == "preadv" and path.endswith(".log"):
            read.add(path)

    disk.faults = attrs.evolve(disk.faults, fail=watch)
    after = open_folder(disk)
    sealed = {each.path() for log in after.logs.values() for each in log.segments[:-1]}
    assert read & sealed


def test_the_marker_of_a_clean_stop_is_gone_durably_before_anything_else_changes() -> None:
    disk = stopped(fresh_disk())
    assert MARKER in disk.files()
    disk.trace = []
    open_folder(disk)
    changes = [(str(each[0]), str(each[1])) for each in disk.trace]
    gone = changes.index(("delete", MARKER))
    durably = changes.index(("fsync_folder", PATH), gone)
    before = [each for each in changes[:durably] if each[0] not in ("fsync_folder", "make_folder")]
    assert before == [("delete", MARKER)]


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_right_after_a_clean_start_is_not_taken_for_a_clean_stop(seed: int) -> None:
    """At any operation from the start on, with appends that nobody flushed."""
    operation, ended = 0, False
    before = stopped(SimulatedDisk(seed))
    while not ended:
        operation += 2
        disk = before.kill()
        disk.crash_at(disk.operations + operation)
        with suppress(SimulatedCrash):
            folder = open_folder(disk)
            for log in folder.logs.values():
                append(log, 12)
            ended = True
        survivor = disk.crash(seed * 1000 + operation)
        if ended:
            assert MARKER not in survivor.files()
        after = open_folder(survivor)
        assert not after.closed
        for log in after.logs.values():
            check_numbered(log, 40)
            append(log)
    assert operation > 20


@pytest.mark.parametrize("seed", range(20))
def test_a_clean_stop_waits_for_the_flush_that_is_under_way(seed: int) -> None:
    disk = SimulatedDisk(seed)
    folder = filled(disk)
    disk.faults = attrs.evolve(disk.faults, deferred=True)
    for log in folder.logs.values():
        append(log, 5)
        folder.flusher.flush(log)
    ended: list[Exception | None] = []
    disk.trace = []
    folder.close(1, ended.append)
    # Two flushes of one log at a time would each take the other's files for durable.
    assert (disk.trace, disk.waiting) == ([], 1)
    while not ended:
        assert MARKER not in disk.files()
        assert disk.run_next()
    assert MARKER in disk.files()
    disk.faults = attrs.evolve(disk.faults, deferred=False)
    after = open_folder(disk.crash(seed))
    assert after.warnings == []
    for log in after.logs.values():
        check_numbered(log, 45)


def test_a_stop_on_a_disk_that_fails_leaves_no_marker() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    append(folder.logs[SECOND])
    disk.faults = attrs.evolve(disk.faults, fail=fail_once("fsync", suffix=".log"))
    close_folder(folder)
    assert isinstance(folder.failure, DiskFailed)
    assert MARKER not in disk.files()


def test_a_folder_that_is_offline_is_not_stopped_in_good_order() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    folder.fail(OSError("gone"))
    disk.trace = []
    close_folder(folder)
    assert disk.trace == []


def test_a_damaged_log_stays_closed_with_its_reason_and_the_others_open() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    segment = folder.logs[SECOND].segments[1]
    disk.flip_bit(segment.path(), 8 * 100)
    before = {path: data for path, data in disk.files().items() if SECOND.folder_name in path}
    disk.delete(f"{segment.path().removesuffix('.log')}.index")
    before.pop(f"{segment.path().removesuffix('.log')}.index")
    after = open_folder(disk)
    assert after.failure is None
    assert set(after.logs) == {FIRST, THIRD}
    reason = after.closed[SECOND]
    assert isinstance(reason, DamagedLog)
    assert reason.file == segment.path()
    assert reason.offset == segment.base_offset
    assert {path: disk.files()[path] for path in before} == before
    check_numbered(after.logs[FIRST], 40)
    append(after.logs[THIRD])


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n2\ntopic 0 1\n"])
@pytest.mark.parametrize("name", [RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_OFFSETS])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_checkpoint_is_survived_with_a_warning(
    name: str, content: bytes, clean: bool
) -> None:
    disk = fresh_disk()
    folder = filled(disk)
    if clean:
        close_folder(folder)
    disk.create(f"{PATH}/{name}")
    disk.write(f"{PATH}/{name}", (content,), 0)
    after = open_folder(disk)
    assert any(name in warning for warning in after.warnings)
    assert (after.failure, after.closed) == (None, {})
    for log in after.logs.values():
        check_numbered(log, 40)
    assert open_folder(disk).warnings == []


def test_without_its_recovery_points_a_clean_stop_is_not_believed() -> None:
    disk = stopped(fresh_disk())
    disk.truncate(f"{PATH}/{RECOVERY_POINTS}", 1)
    read: set[str] = set()

    def watch(operation: str, path: str) -> None:
        if operation == "preadv" and path.endswith(".log"):
            read.add(path)

    disk.faults = attrs.evolve(disk.faults, fail=watch)
    folder = open_folder(disk)
    assert read == {each.path() for log in folder.logs.values() for each in log.segments}


def test_a_torn_tail_is_told_with_file_place_and_offset() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    log = folder.logs[FIRST]
    append(log)
    disk.truncate(log.active.path(), log.active.size_bytes - 1)
    after = open_folder(disk)
    (warning,) = after.warnings
    assert log.active.path() in warning
    assert "offset 40" in warning
    check_numbered(after.logs[FIRST], 40)


def test_names_that_are_no_logs_are_left_alone() -> None:
    disk = stopped(fresh_disk())
    disk.make_folder(f"{PATH}/lost+found")
    disk.create(f"{PATH}/notes.txt")
    after = open_folder(disk)
    assert set(after.logs) == {FIRST, SECOND, THIRD}
    assert {"lost+found", "notes.txt"} <= set(disk.list(PATH))


READS = ("list", "preadv", "size")
WRITES = ("make_folder", "fsync_folder", "delete", "create", "pwritev", "fsync", "rename")


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("operation", [*READS, *WRITES])
def test_a_disk_that_fails_while_a_folder_opens_takes_the_folder_offline(
    operation: str, after: int
) -> None:
    disk = fresh_disk()
    folder = filled(disk)
    for log in folder.logs.values():
        append(log, 3)
    failing = fail_once(operation, after=after)
    hits: list[str] = []

    def fail(asked: str, path: str) -> OSError | None:
        error = failing(asked, path)
        if error is not None:
            hits.append(path)
        return error

    disk.faults = attrs.evolve(disk.faults, fail=fail)
    opened = open_folder(disk)
    assert bool(opened.failure) == bool(hits)
    disk.faults = attrs.evolve(disk.faults, fail=None)
    again = open_folder(disk)
    assert again.failure is None
    assert not again.closed
    for log in again.logs.values():
        check_numbered(log, 43)


def test_a_folder_that_cannot_be_made_is_offline() -> None:
    disk = fresh_disk()
    disk.create(PATH)
    assert isinstance(open_folder(disk).failure, DiskFailed)


def test_a_new_log_is_durable() -> None:
    for seed in range(30):
        disk = SimulatedDisk(seed)
        folder = open_folder(disk)
        create(folder, FIRST)
        create(folder, SECOND, start=17)
        after = open_folder(disk.crash(seed))
        assert (after.closed, after.warnings) == ({}, [])
        assert after.logs[FIRST].end_offset == 0
        assert (after.logs[SECOND].start_offset, after.logs[SECOND].end_offset) == (17, 17)


def test_a_crash_while_a_log_is_made_leaves_an_empty_log_or_none() -> None:
    for operation in range(1, 40):
        disk = SimulatedDisk(operation)
        folder = filled(disk, 10) if operation % 2 else open_folder(disk)
        disk.crash_at(disk.operations + operation)
        new = TopicPartition("new", 0)
        done = False
        with suppress(SimulatedCrash):
            create(folder, new)
            done = True
        after = open_folder(disk.crash(operation))
        assert not after.closed
        if done:
            break
        if new in after.logs:
            assert after.logs[new].end_offset == 0
        assert append(create(after, new) if new not in after.logs else after.logs[new]) == 1
    assert done
    assert operation > 5


@pytest.mark.parametrize("operation", ["make_folder", "create", "pwritev", "fsync", "fsync_folder"])
def test_a_disk_that_fails_while_a_log_is_made_takes_the_folder_offline(operation: str) -> None:
    disk = fresh_disk()
    offline: list[TopicPartition] = []
    folder = open_folder(disk, offline=lambda partition, _: offline.append(partition))
    create(folder, FIRST)
    disk.faults = attrs.evolve(disk.faults, fail=fail_always(operation))
    with pytest.raises(DiskFailed, match=PATH):
        create(folder, SECOND)
    assert isinstance(folder.failure, DiskFailed)
    assert offline == [FIRST]
    assert SECOND not in folder.logs


@pytest.mark.parametrize("after", range(4))
def test_a_full_disk_refuses_a_new_log_and_nothing_else(after: int) -> None:
    disk = fresh_disk()
    folder = filled(disk)
    new = TopicPartition("new", 0)
    full = fail_once("pwritev" if after % 2 else "create", code=errno.ENOSPC, after=after // 2)
    disk.faults = attrs.evolve(disk.faults, fail=full)
    with pytest.raises(DiskFull):
        create(folder, new)
    assert folder.failure is None
    assert new not in folder.logs
    append(folder.logs[FIRST])
    assert append(create(folder, new)) == 1


def test_a_disk_without_any_room_refuses_a_new_log() -> None:
    disk = fresh_disk()
    folder = filled(disk)
    fill_up(disk)
    with pytest.raises(DiskFull):
        create(folder, TopicPartition("new", 0))
    assert folder.failure is None


def test_a_marker_of_a_clean_stop_that_makes_no_sense_means_a_crash() -> None:
    disk = stopped(fresh_disk())
    disk.truncate(MARKER, 5)
    folder = open_folder(disk)
    assert folder.stopped_epoch is None
    assert any(MARKER in warning for warning in folder.warnings)
    assert set(folder.logs) == {FIRST, SECOND, THIRD}


def test_a_file_with_the_name_of_a_log_is_left_alone() -> None:
    disk = stopped(fresh_disk())
    disk.create(f"{PATH}/notes-2024")
    folder = open_folder(disk)
    assert folder.failure is None
    assert set(folder.logs) == {FIRST, SECOND, THIRD}
    assert disk.exists(f"{PATH}/notes-2024")
