"""Several folders as one place: where a log goes, and what is lost with a folder."""

from collections import Counter

import attrs
import pytest

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults, any_of, fail_always
from storage.disk.simulated import SimulatedDisk
from storage.errors import DamagedLog, DiskFailed, StorageError
from storage.flusher import FLUSH_ALWAYS
from storage.folder import NewLog
from storage.log.log import Log
from storage.store import LogStore
from tests.storage.folder.worlds import (
    FIRST,
    SECOND,
    SMALL,
    append,
    check_numbered,
    delete,
    fill_up,
    fresh_disk,
    open_store,
)

PATHS = ("a", "b", "c")


def partitions(count: int, topic: str = "topic") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def create(store: LogStore, *wanted: TopicPartition) -> list[Log]:
    return jobs.run(store.create(*(NewLog(each, SMALL) for each in wanted)))


def placement(store: LogStore) -> dict[str, int]:
    return {folder.path: len(folder.logs) for folder in store.folders}


def close(store: LogStore) -> None:
    ended: list[Exception | None] = []
    store.close(1, ended.append)
    assert ended == [None]


def test_a_new_log_goes_where_the_fewest_are() -> None:
    store = open_store(fresh_disk(), PATHS)
    for partition in partitions(7):
        create(store, partition)
    assert sorted(placement(store).values()) == [2, 2, 3]
    for partition in [*store.folders[1].logs]:
        assert delete(store, partition) is None
    create(store, *partitions(2, "new"))
    assert {folder.path for folder in store.folders if TopicPartition("new", 0) in folder.logs} == {
        "b"
    }


def test_logs_made_together_are_spread_too_and_given_in_order() -> None:
    store = open_store(fresh_disk(), PATHS)
    create(store, FIRST)
    wanted = partitions(10, "many")
    made = create(store, *wanted)
    assert [log.partition for log in made] == wanted
    assert sorted(placement(store).values()) == [3, 4, 4]


def test_logs_that_are_being_made_count() -> None:
    disk = SimulatedDisk(1)
    store = open_store(disk, PATHS)
    disk.faults = Faults(deferred=True)
    made: list[list[Log] | Exception] = []
    for partition in partitions(9):
        jobs.start(disk, store.create(NewLog(partition, SMALL)), made.append)
    with pytest.raises(StorageError, match="topic-4 is there already"):
        jobs.run(store.create(NewLog(TopicPartition("topic", 4), SMALL)))
    disk.run_all()
    assert Counter(placement(store).values()) == {3: 3}
    assert all(isinstance(each, list) for each in made)


def test_many_logs_cost_one_checkpoint() -> None:
    disk = fresh_disk()
    store = open_store(disk, ("a",))
    disk.trace = []
    create(store, *partitions(50))
    renames = Counter(str(path) for operation, path, *_ in disk.trace if operation == "rename")
    assert set(renames.values()) == {1}
    after = open_store(disk.crash(1), ("a",))
    assert len(after.folders[0].logs) == 50


def test_a_closed_log_takes_a_place() -> None:
    disk = fresh_disk()
    store = open_store(disk, ("a", "b"))
    create(store, FIRST, SECOND)
    store.fail(FIRST, DamagedLog("file", 0, 0, "as if"))
    create(store, *partitions(2, "new"))
    assert [folder.log_count for folder in store.folders] == [2, 2]


def test_what_is_there_already_is_not_made_again() -> None:
    disk = fresh_disk()
    store = open_store(disk, PATHS)
    create(store, FIRST)
    with pytest.raises(StorageError, match="topic-0 is there already"):
        create(store, FIRST)


def test_logs_are_found_again_where_they_were() -> None:
    disk = fresh_disk()
    store = open_store(disk, PATHS)
    for log in create(store, *partitions(9)):
        append(log, log.partition.partition)
    close(store)
    after = open_store(disk, PATHS)
    assert placement(after) == placement(store)
    for partition in partitions(9):
        found = after.log(partition)
        assert found is not None
        check_numbered(found, partition.partition)


def offline_store(disk: SimulatedDisk) -> tuple[LogStore, dict[TopicPartition, Exception]]:
    told: dict[TopicPartition, Exception] = {}

    def offline(partition: TopicPartition, error: Exception) -> None:
        assert partition not in told
        told[partition] = error

    store = open_store(disk, PATHS, FLUSH_ALWAYS, offline=offline)
    create(store, *partitions(9))
    return store, told


@pytest.mark.parametrize("how", ["flush", "checkpoint", "create", "delete", "said", "retention"])
def test_one_folder_that_fails_takes_its_partitions_and_only_them(how: str) -> None:
    disk = fresh_disk()
    store, told = offline_store(disk)
    failing = store.folders[1]
    theirs = set(failing.logs)
    victim = failing.logs[next(iter(failing.logs))]
    append(victim, 30)
    victim.committed(30)
    victim.config = attrs.evolve(SMALL, retention_bytes=0)
    faults = any_of(fail_always("fsync", prefix="b/"), fail_always("fsync_folder", prefix="b"))
    disk.faults = attrs.evolve(disk.faults, fail=faults)
    match how:
        case "flush":
            failing.flusher.flush(victim)
        case "checkpoint":
            store.checkpoint()
        case "create":
            with pytest.raises(DiskFailed):
                create(store, *partitions(3, "new"))
        case "delete":
            assert isinstance(delete(store, victim.partition), DiskFailed)
            theirs.discard(victim.partition)
        case "said":
            store.fail(victim.partition, DiskFailed("the replica saw it"))
        case "retention":
            victim.marks.recovery_points.values[victim.partition] = 30
            store.tend(0)
    assert set(told) == theirs
    assert [folder.failure is not None for folder in store.folders] == [False, True, False]
    for partition in theirs:
        assert store.log(partition) is None
    for folder in (store.folders[0], store.folders[2]):
        for log in folder.logs.values():
            durable: list[Exception | None] = []
            append(log)
            folder.flusher.appended(log, 0, durable.append)
            assert durable == [None]
    create(store, *partitions(4, "later"))
    assert not any(each.topic == "later" for each in failing.logs)
    store.tend(10**15)
    store.checkpoint()
    close(store)


def test_a_partition_of_a_lost_folder_is_not_made_elsewhere() -> None:
    """It would be there twice when the folder is back."""
    store, _ = offline_store(fresh_disk())
    partition = next(iter(store.folders[1].logs))
    store.fail(partition, DiskFailed("gone"))
    with pytest.raises(StorageError, match="is there already"):
        create(store, partition)


def test_damage_takes_one_partition_and_not_its_folder() -> None:
    store, told = offline_store(fresh_disk())
    partition = next(iter(store.folders[1].logs))
    error = DamagedLog("file", 1, 2, "rotten")
    store.fail(partition, error)
    assert told == {partition: error}
    assert store.log(partition) is None
    assert store.folders[1].failure is None
    assert store.folders[1].closed[partition] is error


def test_a_folder_that_does_not_open_leaves_the_others() -> None:
    disk = fresh_disk()
    close(offline_store(disk)[0])
    disk.faults = attrs.evolve(disk.faults, fail=fail_always("list", prefix="b"))
    store = open_store(disk, PATHS)
    assert placement(store) == {"a": 3, "b": 0, "c": 3}
    assert store.folders[1].failure is not None


def test_without_any_folder_that_works_there_is_no_store() -> None:
    disk = fresh_disk()
    disk.faults = attrs.evolve(disk.faults, fail=fail_always("fsync_folder"))
    with pytest.raises(DiskFailed, match=r"^no log folder works: .*a.*; .*b.*; .*c"):
        open_store(disk, PATHS)


def test_when_all_folders_are_lost_a_new_log_is_refused() -> None:
    store, _ = offline_store(fresh_disk())
    for folder in store.folders:
        folder.fail(DiskFailed("gone"))
    with pytest.raises(DiskFailed, match="no log folder works"):
        create(store, TopicPartition("new", 0))
    store.tend(0)
    store.checkpoint()
    close(store)


def test_a_partition_in_two_folders_is_in_neither() -> None:
    disk = fresh_disk()
    for path in ("a", "b"):
        store = open_store(disk, (path,))
        append(create(store, FIRST)[0], 5)
        create(store, SECOND._replace(topic=path))
        close(store)
    before = {path: data for path, data in disk.files().items() if FIRST.folder_name in path}
    store = open_store(disk, ("a", "b"))
    assert store.log(FIRST) is None
    for folder in store.folders:
        assert isinstance(folder.closed[FIRST], StorageError)
        assert "a and b" in str(folder.closed[FIRST])
        assert len(folder.logs) == 1
    with pytest.raises(StorageError, match="is there already"):
        create(store, FIRST)
    assert {path: disk.files()[path] for path in before} == before


@pytest.mark.parametrize("paths", [(), ("a", "a")])
def test_folders_are_named_and_each_once(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"log\.dirs="):
        LogStore(fresh_disk(), paths)


def test_deleting_what_is_not_there_is_no_error() -> None:
    assert delete(open_store(fresh_disk(), PATHS), FIRST) is None


def test_a_full_disk_takes_no_folder_offline() -> None:
    disk = fresh_disk()
    store, told = offline_store(disk)
    for folder in store.folders:
        for log in folder.logs.values():
            append(log, 30)
            log.committed(30)
            log.config = attrs.evolve(SMALL, retention_bytes=0)
    fill_up(disk)
    store.checkpoint()
    store.tend(10**15)
    assert told == {}
    assert all(folder.failure is None for folder in store.folders)
    disk.capacity_bytes = 1 << 40
    store.checkpoint()
    store.tend(10**15)
    assert all(log.start_offset > 0 for folder in store.folders for log in folder.logs.values())
