"""Housekeeping when the store is told the time: retention, compaction in turn, checkpoints."""

import errno
from random import Random

import attrs
import pytest

from storage.batch.build import build
from storage.batch.header import split
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults, fail_once
from storage.disk.simulated import SimulatedDisk
from storage.flusher import FLUSH_NEVER, FlushPolicy
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import batches_of, numbered
from tests.storage.folder.worlds import FIRST, SECOND, SMALL, THIRD, append, fresh_disk, open_store

COMPACTED = attrs.evolve(SMALL, compact=True, delete=False, min_cleanable_ratio=0.01)


def fill(log: Log, count: int = 60, keys: int = 3) -> None:
    """Write few keys again and again, all of it committed."""
    for _ in range(count):
        log.append([numbered(log.end_offset, keys=keys, timestamp_ms=1000)])
    log.committed(log.end_offset)


def create(store: LogStore, config: LogConfig, *wanted: TopicPartition) -> list[Log]:
    return jobs.run(store.create(*(NewLog(each, config) for each in wanted)))


def test_what_retention_says_is_deleted_and_told() -> None:
    moved: list[tuple[TopicPartition, int]] = []
    store = open_store(fresh_disk(), ("a", "b"), start_moved=lambda *each: moved.append(each))
    config = attrs.evolve(SMALL, retention_bytes=2000)
    first, second, third = create(store, config, FIRST, SECOND, THIRD)
    for log in (first, second):
        append(log, 60)
    first.committed(60)
    second.committed(10)
    store.tend(0)
    starts = dict(moved)
    assert set(starts) == {FIRST, SECOND}
    assert first.start_offset == starts[FIRST]
    assert 2000 <= first.size_bytes < 2000 + SMALL.segment_bytes
    assert 0 < second.start_offset <= 10
    assert third.start_offset == 0
    store.tend(0)
    assert len(moved) == 2


def test_a_log_that_is_busy_is_left_for_the_next_time() -> None:
    disk = SimulatedDisk(1)
    moved: list[int] = []
    store = open_store(disk, start_moved=lambda _, offset: moved.append(offset))
    (log,) = create(store, attrs.evolve(SMALL, retention_bytes=0), FIRST)
    append(log, 60)
    log.committed(60)
    disk.faults = Faults(deferred=True)
    for _ in range(5):
        store.tend(0)
    disk.run_all()
    assert len(moved) == 1
    assert log.start_offset == log.active.base_offset


def test_what_a_full_disk_kept_from_being_deleted_goes_when_there_is_room() -> None:
    """The start has moved then, and nothing else may move it again for a week."""
    disk = fresh_disk()
    moved: list[int] = []
    store = open_store(disk, start_moved=lambda _, offset: moved.append(offset))
    (log,) = create(store, attrs.evolve(SMALL, retention_ms=100), FIRST)
    append(log, 3)
    log.committed(3)
    disk.faults = Faults(fail=fail_once("create", suffix=".snapshot", code=errno.ENOSPC))
    store.tend(1_000)
    assert store.folders[0].failure is None
    assert log.size_bytes > 0
    store.tend(1_001)
    assert (log.size_bytes, log.start_offset, moved) == (0, 3, [3])
    store.tend(1_002)
    assert moved == [3]


def test_a_sealed_segment_becomes_durable_although_the_policy_flushes_nothing() -> None:
    """So that a start after a crash reads one segment and not all that was ever written."""
    store = open_store(fresh_disk(), policy=FLUSH_NEVER)
    (log,) = create(store, SMALL, FIRST)
    append(log, 60)
    assert log.recovery_point == 0
    store.tend(0)
    assert log.recovery_point >= log.active.base_offset
    rounds = store.folders[0].flusher.rounds
    store.tend(0)
    assert store.folders[0].flusher.rounds == rounds


def test_the_policy_s_time_is_kept() -> None:
    store = open_store(fresh_disk(), policy=FlushPolicy(every_ms=100))
    (log,) = create(store, SMALL, FIRST)
    append(log)
    store.folders[0].flusher.appended(log, 1_000, lambda _: None)
    store.tend(1_099)
    assert log.recovery_point == 0
    store.tend(1_100)
    assert log.recovery_point == 1


@pytest.mark.parametrize("seed", range(3))
def test_one_log_is_compacted_at_a_time_and_each_gets_its_turn(seed: int) -> None:
    """While they are written to, and however often the store is told the time."""
    disk = SimulatedDisk(seed)
    store = open_store(disk, ("a", "b"))
    wanted = [TopicPartition("topic", number) for number in range(4)]
    logs = create(store, COMPACTED, *wanted)
    random = Random(seed)
    disk.faults = Faults(deferred=True)
    seen: list[str] = []
    for _ in range(150):
        fill(random.choice(logs), 10)
        store.tend(5000)
        for _ in range(random.randint(1, 8)):
            disk.run_next()
            cleaned = {path.split("/")[1] for path in disk.files() if path.endswith(".cleaned")}
            assert len(cleaned) <= 1
            if cleaned and seen[-1:] != [*cleaned]:
                seen += cleaned
    assert set(seen) == {each.folder_name for each in wanted}


def test_logs_are_compacted_in_turn() -> None:
    """One for each time, and the one after the last comes next."""
    store = open_store(fresh_disk())
    wanted = [TopicPartition("topic", number) for number in range(4)]
    logs = create(store, COMPACTED, *wanted)
    order = []
    for _ in range(9):
        for log in logs:
            fill(log)
        sizes = {log.partition: log.size_bytes for log in logs}
        store.tend(5000)
        (shrunk,) = [log.partition for log in logs if log.size_bytes < sizes[log.partition]]
        order.append(shrunk)
    assert order == (wanted * 3)[:9]


def test_compaction_leaves_the_last_of_each_key_and_retention_does_not_touch_it() -> None:
    store = open_store(fresh_disk())
    (log,) = create(store, attrs.evolve(COMPACTED, retention_bytes=0, retention_ms=0), FIRST)
    fill(log)
    sealed = log.active.base_offset
    store.tend(10**9)
    assert log.start_offset == 0
    headers = [batch.header for batch in batches_of(log)]
    kept = [each.base_offset for each in headers if each.record_count]
    assert kept == [*range(sealed - 3, log.end_offset)]


def test_compaction_that_finds_damage_takes_one_partition() -> None:
    disk = fresh_disk()
    told: list[TopicPartition] = []
    store = open_store(disk, offline=lambda partition, _: told.append(partition))
    first, second = create(store, COMPACTED, FIRST, SECOND)
    for log in (first, second):
        fill(log)
    store.folders[0].flusher.flush(first)
    disk.flip_bit(first.segments[0].path(), 8 * 100)
    store.tend(5000)
    assert told == [FIRST]
    assert store.folders[0].failure is None
    before = second.size_bytes
    store.tend(5000)
    assert second.size_bytes < before


def test_what_is_checkpointed_is_there_after_a_crash() -> None:
    for seed in range(20):
        disk = SimulatedDisk(seed)
        store = open_store(disk, ("a", "b"))
        logs = create(store, SMALL, FIRST, SECOND)
        for log in logs:
            append(log, 10)
            log.committed(7)
            store.folders[0].flusher.flush(log)
        store.checkpoint()
        after = open_store(disk.crash(seed), ("a", "b"))
        for partition in (FIRST, SECOND):
            log = after.log(partition)  # type: ignore[assignment]
            assert log.known_high_watermark == 7
            assert log.end_offset == 10


def test_producers_that_are_silent_for_too_long_are_forgotten() -> None:
    store = open_store(fresh_disk())
    (log,) = create(store, attrs.evolve(SMALL, producer_expiry_ms=1000), FIRST)
    record = Record(0, 5_000, b"k", b"v")
    log.append(split(build([record], producer_id=9, producer_epoch=0, base_sequence=0)))
    log.committed(1)
    store.tend(5_900)
    assert 9 in log.producers.entries
    store.tend(6_100)
    assert 9 not in log.producers.entries
