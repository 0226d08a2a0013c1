"""What is deleted because it is old or too much: whole segments, committed, the oldest first."""

from collections.abc import Sequence
from contextlib import suppress

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.disk import jobs
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.log.config import UNLIMITED, LogConfig
from storage.log.cutting import advance_start
from storage.log.flushing import flush
from storage.log.log import Log
from storage.retention import retained_from
from storage.testing.numbered import base_offsets, numbered
from tests.storage.folder.worlds import FIRST, SMALL, check_numbered, create, open_folder

PLAIN = attrs.evolve(SMALL, segment_bytes=1 << 20)
BATCH_BYTES = len(numbered(0).view)


def log_of(segments: Sequence[Sequence[int]], config: LogConfig, disk: SimulatedDisk) -> Log:
    """Make a log with these segments, each given by the times of its batches of one record."""
    log = create(open_folder(disk), FIRST, config)
    for number, times in enumerate(segments):
        if number:
            log.roll()
        for time_ms in times:
            log.append([numbered(log.end_offset, timestamp_ms=time_ms)])
    return log


def retained(
    segments: Sequence[Sequence[int]],
    *,
    now_ms: int = 1000,
    high_watermark: int | None = None,
    retention_ms: int = UNLIMITED,
    retention_bytes: int = UNLIMITED,
    delete: bool = True,
    compact: bool = False,
) -> int:
    """Ask for a log of three batches of one size per segment, unless it is given otherwise."""
    config = attrs.evolve(
        PLAIN,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        delete=delete,
        compact=compact,
    )
    log = log_of(segments, config, SimulatedDisk(1))
    return retained_from(log, now_ms, log.end_offset if high_watermark is None else high_watermark)


THREE = ((100, 200, 300), (400, 500, 600), (700, 800, 900))


@pytest.mark.parametrize(
    ("retention_ms", "start_offset"),
    [(UNLIMITED, 0), (900, 0), (701, 0), (700, 0), (699, 3), (400, 3), (399, 6), (100, 6), (99, 9)],
)
def test_a_segment_is_too_old_when_its_newest_record_is(
    retention_ms: int, start_offset: int
) -> None:
    assert retained(THREE, retention_ms=retention_ms) == start_offset


@pytest.mark.parametrize(
    ("kept_batches", "start_offset"),
    [(10, 0), (9, 0), (7, 0), (6, 3), (4, 3), (3, 6), (1, 6), (0, 6)],
)
def test_by_size_as_much_is_kept_as_was_asked_for_and_the_active_segment_always(
    kept_batches: int, start_offset: int
) -> None:
    sizes = [len(numbered(offset, timestamp_ms=100).view) for offset in range(9)]
    assert set(sizes) == {BATCH_BYTES}
    assert retained(THREE, retention_bytes=kept_batches * BATCH_BYTES) == start_offset


def test_one_byte_more_to_keep_keeps_one_segment_more() -> None:
    assert retained(THREE, retention_bytes=6 * BATCH_BYTES + 1) == 0
    assert retained(THREE, retention_bytes=6 * BATCH_BYTES) == 3


@pytest.mark.parametrize(
    ("high_watermark", "start_offset"), [(0, 0), (2, 0), (3, 3), (5, 3), (8, 6), (9, 9)]
)
def test_what_is_not_committed_stays_however_old_it_is(
    high_watermark: int, start_offset: int
) -> None:
    assert retained(THREE, retention_ms=0, high_watermark=high_watermark) == start_offset


def test_a_segment_that_stays_keeps_all_after_it() -> None:
    """The second has the newest record of all."""
    segments = ((100, 200), (300, 999), (400, 500), (600,))
    assert retained(segments, retention_ms=50) == 2


def test_either_reason_is_enough_for_each_segment() -> None:
    segments = ((100,), (990,), (100,), (990,))
    assert retained(segments, retention_ms=500, retention_bytes=BATCH_BYTES * 2) == 3
    assert retained(segments, retention_ms=500, retention_bytes=BATCH_BYTES * 3) == 1


def test_a_log_that_is_compacted_and_not_deleted_has_no_retention() -> None:
    assert retained(THREE, retention_ms=0, retention_bytes=0, delete=False, compact=True) == 0
    assert retained(THREE, retention_ms=0, retention_bytes=0, delete=True, compact=True) == 9


def test_records_without_a_time_never_grow_old() -> None:
    assert retained(((-1, -1), (5,)), retention_ms=0) == 0


def test_an_empty_log_keeps_its_empty_segment() -> None:
    assert retained(((),), retention_ms=0, retention_bytes=0) == 0


def test_records_deleted_before_do_not_come_back() -> None:
    log = log_of(THREE, attrs.evolve(PLAIN, retention_ms=400), SimulatedDisk(1))
    jobs.run(advance_start(log, 5))
    assert retained_from(log, 1000, log.end_offset) == 5


@given(
    segments=st.lists(
        st.lists(st.sampled_from((-1, 0, 10, 50, 90, 100)), max_size=4), min_size=1, max_size=6
    ),
    now_ms=st.integers(0, 200),
    high_watermark=st.integers(0, 25),
    retention_ms=st.sampled_from((UNLIMITED, 0, 10, 50, 99)),
    retention_batches=st.sampled_from((None, 0, 1, 3, 8)),
    delete=st.booleans(),
)
def test_it_says_what_a_naive_reading_of_the_rules_says(
    segments: list[list[int]],
    now_ms: int,
    high_watermark: int,
    retention_ms: int,
    retention_batches: int | None,
    delete: bool,
) -> None:
    """A segment without batches is made only at the end."""
    segments = [times for times in segments[:-1] if times] + [segments[-1]]
    config = attrs.evolve(
        PLAIN,
        retention_ms=retention_ms,
        retention_bytes=UNLIMITED if retention_batches is None else retention_batches * 100,
        delete=delete,
    )
    log = log_of(segments, config, SimulatedDisk(1))
    sizes = [segment.size_bytes for segment in log.segments]
    start = 0
    for index, times in enumerate(segments):
        newest = max(times, default=-1)
        is_old = retention_ms != UNLIMITED and newest >= 0 and newest < now_ms - retention_ms
        is_last = index == len(segments) - 1
        left = sum(sizes[index + 1 :])
        is_too_much = config.retention_bytes != UNLIMITED and left >= config.retention_bytes
        is_committed = start + len(times) <= high_watermark
        if not (delete and is_committed and (is_old or (is_too_much and not is_last))):
            break
        start += len(times)
    assert retained_from(log, now_ms, high_watermark) == start


@pytest.mark.parametrize("now_ms", [450, 750, 1050])
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_while_old_segments_go_leaves_a_log_from_the_old_start_or_the_new(
    seed: int, now_ms: int
) -> None:
    """At any operation, and after the last one."""
    config = attrs.evolve(PLAIN, retention_ms=100)
    done = False
    operation = 0
    while not done:
        operation += 1
        disk = SimulatedDisk(seed)
        log = log_of(THREE, config, disk)
        jobs.run(flush(log))
        jobs.run(log.marks.save())
        start = retained_from(log, now_ms, log.end_offset)
        assert start > 0
        disk.crash_at(disk.operations + operation)
        with suppress(SimulatedCrash):
            jobs.run(advance_start(log, start))
            done = True
        folder = open_folder(disk.crash(seed + operation), config=config)
        assert not folder.closed
        after = folder.logs[FIRST]
        assert after.end_offset == 9
        assert after.start_offset in ((start,) if done else (0, start))
        assert base_offsets(after) == list(range(after.start_offset, 9))
        after.append([numbered(9)])
    assert operation > 5


def test_a_log_that_is_old_as_a_whole_is_empty_and_goes_on_where_it_was() -> None:
    disk = SimulatedDisk(1)
    log = log_of(THREE, attrs.evolve(PLAIN, retention_ms=10), disk)
    jobs.run(advance_start(log, retained_from(log, 2000, 9)))
    assert (log.start_offset, log.end_offset, log.size_bytes) == (9, 9, 0)
    assert len(log.segments) == 1
    log.append([numbered(9)])
    assert base_offsets(log) == [9]
    check_numbered(open_folder(disk.kill()).logs[FIRST], 10)
