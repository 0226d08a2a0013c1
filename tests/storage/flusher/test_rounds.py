"""One round of fsyncs for all who asked before it, and the next for all who asked meanwhile."""

from collections import Counter
from functools import partial
from random import Random

import pytest

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults
from storage.disk.simulated import SimulatedDisk
from storage.errors import StorageError
from storage.flusher import FLUSH_ALWAYS, LogClosed
from tests.storage.folder.worlds import (
    FIRST,
    SECOND,
    append,
    check_numbered,
    create,
    fresh_disk,
    open_folder,
)

Told = list[StorageError | None]


def deferred_disk(seed: int = 1) -> SimulatedDisk:
    return SimulatedDisk(seed, Faults(deferred=True))


def note(told: list[int], number: int, error: StorageError | None) -> None:
    assert error is None
    told.append(number)


def note_end(
    ends: dict[TopicPartition, int], partition: TopicPartition, end: int, error: StorageError | None
) -> None:
    assert error is None
    ends[partition] = end


def fsyncs(disk: SimulatedDisk) -> Counter[str]:
    return Counter(str(path) for operation, path, *_ in disk.trace or () if operation == "fsync")


def test_a_thousand_appends_to_twenty_logs_share_the_round_after_the_one_under_way() -> None:
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    logs = [create(folder, TopicPartition("topic", number)) for number in range(20)]
    told: list[int] = []
    append(logs[0])
    folder.flusher.appended(logs[0], 0, lambda _: told.append(-1))
    for number in range(1000):
        append(logs[number % 20])
        folder.flusher.appended(logs[number % 20], 0, partial(note, told, number))
    assert (folder.flusher.rounds, disk.waiting) == (1, 1)
    disk.run_next()
    assert told == [-1]
    disk.trace = []
    disk.run_next()
    assert folder.flusher.rounds == 2
    assert disk.waiting == 0
    assert sorted(told[1:]) == list(range(1000))
    synced = fsyncs(disk)
    assert set(synced.values()) == {1}
    assert {log.active.path() for log in logs} <= set(synced)


def test_a_log_hears_of_its_appends_in_their_order() -> None:
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log = create(folder, FIRST)
    told: list[int] = []
    for number in range(100):
        append(log)
        folder.flusher.appended(log, 0, partial(note, told, number))
        if number % 7 == 0:
            disk.run_next()
    disk.run_all()
    assert told == list(range(100))


def test_an_append_during_a_round_is_not_taken_for_durable_when_it_ends() -> None:
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log = create(folder, FIRST)
    append(log)
    folder.flusher.flush(log)
    append(log, 3)
    disk.run_next()
    assert log.recovery_point == 1
    assert log.unflushed_records == 3


def test_whoever_appends_when_told_waits_for_the_next_round() -> None:
    """Nothing of the round that ends is left to be done when the next one begins."""
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    first, second = create(folder, FIRST), create(folder, SECOND)
    append(create(folder, TopicPartition("other", 0)))
    told: list[str] = []

    def go_on(_: StorageError | None) -> None:
        told.append("first")
        append(second)
        folder.flusher.appended(second, 0, lambda _: told.append("second again"))

    folder.flusher.flush(next(iter(folder.logs.values())))
    append(first)
    append(second)
    folder.flusher.appended(first, 0, go_on)
    folder.flusher.appended(second, 0, lambda _: told.append("second"))
    disk.run_next()
    disk.run_next()
    assert told == ["first", "second"]
    assert second.unflushed_records == 1
    disk.run_next()
    assert told[2:] == ["second again"]
    assert second.unflushed_records == 0
    assert second.recovery_point == 2


def test_a_log_that_closes_is_not_flushed_any_more_and_tells_who_waits() -> None:
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log, other = create(folder, FIRST), create(folder, SECOND)
    told: Told = []
    append(other)
    folder.flusher.flush(other)
    append(log)
    folder.flusher.appended(log, 0, told.append)
    folder.flusher.close(log)
    folder.flusher.flush(log, told.append)
    disk.trace = []
    disk.run_all()
    assert [type(error) for error in told] == [LogClosed, LogClosed]
    assert not any(path.startswith(log.folder) for path in fsyncs(disk))
    assert other.recovery_point == 1
    assert folder.failure is None


def test_what_is_to_happen_between_rounds_happens_between_rounds() -> None:
    disk = deferred_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log = create(folder, FIRST)
    happened: list[tuple[str, int]] = []
    folder.flusher.after_round(lambda: happened.append(("idle", folder.flusher.rounds)))
    append(log)
    folder.flusher.flush(log)
    folder.flusher.flush(log)
    folder.flusher.after_round(lambda: happened.append(("between", folder.flusher.rounds)))
    assert happened == [("idle", 0)]
    disk.run_next()
    assert happened[1:] == [("between", 1)]
    assert folder.flusher.rounds == 2


@pytest.mark.parametrize("seed", range(60))
def test_a_power_failure_takes_nothing_that_was_called_durable(seed: int) -> None:
    """Appends to several logs and rounds in any order, and a crash at any moment."""
    random = Random(seed)
    disk = deferred_disk(seed)
    folder = open_folder(disk, FLUSH_ALWAYS)
    logs = [create(folder, TopicPartition("topic", number)) for number in range(3)]
    durable = dict.fromkeys(folder.logs, 0)
    for _ in range(random.randint(1, 80)):
        if random.random() < 0.6:
            log = random.choice(logs)
            end = append(log, random.randint(1, 3))

            folder.flusher.appended(log, 0, partial(note_end, durable, log.partition, end))
        elif random.random() < 0.8:
            disk.run_next()
        else:
            jobs.start(disk, folder.marks.save(), lambda _: None)
    after = open_folder(disk.crash(seed))
    assert not after.closed
    assert set(after.logs) == set(durable)
    for partition, log in after.logs.items():
        check_numbered(log, durable[partition])


def test_flushing_takes_no_more_memory_of_logs_that_are_gone() -> None:
    disk = fresh_disk()
    folder = open_folder(disk, FLUSH_ALWAYS)
    log = create(folder, FIRST)
    folder.flusher.close(log)
    assert len(folder.flusher._closed) == 1
    folder.logs.clear()
    del log
    assert len(folder.flusher._closed) == 0
