"""Truncation, reset and a new start: what is left, in memory and after a power failure."""

import errno
from collections.abc import Callable

import pytest

from storage.disk import jobs
from storage.disk.faults import Faults, fail_once
from storage.disk.simulated import SimulatedCrash
from storage.errors import DamagedLog, DiskFailed, DiskFull
from storage.log import cutting, flushing
from storage.testing.bench import Bench

NO_FAULTS = Faults()


@pytest.fixture
def flushed(bench: Bench) -> Bench:
    """Batches of two records, 0 to 39, all durable."""
    bench.append(20, records=2)
    bench.flush()
    return bench


def ends_after_power_failures(bench: Bench) -> set[tuple[int, int]]:
    """Where the log begins and ends after a power failure, whatever is lost."""
    ends = set()
    for seed in range(10):
        again = Bench()
        again.broker = bench.broker
        log = again.start(bench.disk.crash(seed)).log
        ends.add((log.start_offset, log.end_offset))
    return ends


@pytest.mark.parametrize("offset", [39, 21, 20, 10, 1])
def test_a_log_is_cut_before_the_batch_with_the_offset(flushed: Bench, offset: int) -> None:
    before = flushed.content()
    jobs.run(cutting.truncate(flushed.log, offset))
    end = offset - offset % 2
    assert flushed.log.end_offset == end
    assert before.startswith(flushed.content())
    assert flushed.log.recovery_point == end
    assert ends_after_power_failures(flushed) == {(0, end)}


def test_a_cut_at_the_end_or_beyond_changes_nothing(flushed: Bench) -> None:
    before = flushed.disk.files()
    jobs.run(cutting.truncate(flushed.log, 40))
    jobs.run(cutting.truncate(flushed.log, 50))
    assert flushed.disk.files() == before


def test_what_follows_a_cut_takes_the_place_of_what_was_cut(flushed: Bench) -> None:
    jobs.run(cutting.truncate(flushed.log, 20))
    flushed.log.append([flushed.batch(epoch=7)])
    flushed.flush()
    content = flushed.content()
    log = flushed.start(flushed.disk.crash(3)).log
    assert flushed.content() == content
    assert log.epochs.entries == ((1, 0), (7, 20))


def test_the_epochs_of_what_was_cut_are_forgotten(flushed: Bench) -> None:
    flushed.log.append([flushed.batch(epoch=7)])
    jobs.run(cutting.truncate(flushed.log, 40))
    assert flushed.log.epochs.entries == ((1, 0),)


def lower_reset(bench: Bench) -> None:
    """Begin anew before all segments, as a follower does whose leader lost more than it."""
    jobs.run(cutting.reset(bench.log, 2))


def upper_reset(bench: Bench) -> None:
    jobs.run(cutting.reset(bench.log, 35))


def cut(bench: Bench) -> None:
    jobs.run(cutting.truncate(bench.log, 25))


def crashed_at(bench: Bench, act: Callable[[Bench], None], operation: int) -> bool:
    """Let the machine stop at an operation of the disk; whether there is such an operation."""
    bench.disk.crash_at(bench.disk.operations + operation)
    try:
        act(bench)
    except SimulatedCrash:
        return True
    return False


def damaged_starts(
    act: Callable[[Bench], None], faults: Faults = NO_FAULTS, most: int = 1000, seeds: int = 3
) -> int:
    """Crash at every operation, and count the starts that call what is left damage."""
    damaged = 0
    for operation in range(1, most):
        bench = Bench()
        bench.append(20, records=2)
        bench.flush()
        jobs.run(cutting.advance_start(bench.log, 20))
        bench.disk.faults = faults
        if not crashed_at(bench, act, operation):
            return damaged
        for seed in range(seeds):
            again = Bench()
            again.broker = bench.broker
            try:
                again.start(bench.disk.crash(seed))
            except DamagedLog:
                damaged += 1
    return damaged


@pytest.mark.parametrize("act", [lower_reset, upper_reset, cut])
def test_a_crash_anywhere_in_a_cut_is_no_damage(act: Callable[[Bench], None]) -> None:
    assert damaged_starts(act) == 0


def test_a_reset_lowers_the_recovery_point_durably_before_the_start() -> None:
    """Without the sync of the folder in between, the start may survive alone: a false alarm."""
    renamed = False

    def ignore(operation: str, path: str) -> bool:
        nonlocal renamed
        before, renamed = renamed, operation == "rename" and "recovery-point" in path
        return operation == "fsync_folder" and before

    assert damaged_starts(lower_reset, Faults(ignore=ignore), most=12, seeds=60) > 0


def test_a_cut_in_a_gap_ends_with_the_batch_before_it(bench: Bench) -> None:
    bench.append(5)
    bench.log.append([bench.batch(offset=10)])
    bench.flush()
    jobs.run(cutting.truncate(bench.log, 8))
    assert bench.log.end_offset == bench.log.recovery_point == 5
    assert ends_after_power_failures(bench) == {(0, 5)}


def test_a_cut_that_leaves_nothing_above_the_start_empties_the_log(flushed: Bench) -> None:
    jobs.run(cutting.advance_start(flushed.log, 21))
    jobs.run(cutting.truncate(flushed.log, 21))
    assert (flushed.log.start_offset, flushed.log.end_offset) == (21, 21)
    assert ends_after_power_failures(flushed) == {(21, 21)}


@pytest.mark.parametrize("offset", [0, 13, 40, 1000])
def test_a_reset_leaves_an_empty_log_at_its_offset(flushed: Bench, offset: int) -> None:
    jobs.run(cutting.reset(flushed.log, offset))
    assert flushed.content() == b""
    assert (flushed.log.start_offset, flushed.log.end_offset) == (offset, offset)
    assert flushed.log.epochs.entries == ()
    assert ends_after_power_failures(flushed) == {(offset, offset)}


def test_a_cut_below_all_segments_is_a_reset(flushed: Bench) -> None:
    jobs.run(cutting.advance_start(flushed.log, 30))
    jobs.run(cutting.truncate(flushed.log, 2))
    assert (flushed.log.start_offset, flushed.log.end_offset) == (2, 2)


def test_a_new_start_deletes_the_segments_before_it_alone(flushed: Bench) -> None:
    second, third = (segment.base_offset for segment in flushed.log.segments[1:3])
    jobs.run(cutting.advance_start(flushed.log, third - 1))
    assert flushed.log.segments[0].base_offset == second
    assert flushed.log.start_offset == third - 1
    assert not any(name.startswith(f"{0:020d}") for name in flushed.disk.list(flushed.folder))
    assert ends_after_power_failures(flushed) == {(third - 1, 40)}


def test_a_start_at_the_end_leaves_no_batch(flushed: Bench) -> None:
    jobs.run(cutting.advance_start(flushed.log, 100))
    assert (flushed.log.start_offset, flushed.log.end_offset) == (40, 40)
    assert flushed.log.size_bytes == 0
    flushed.append()
    assert flushed.log.end_offset == 41


def test_the_epochs_before_a_new_start_are_forgotten(flushed: Bench) -> None:
    for _ in range(3):
        flushed.log.append([flushed.batch(epoch=7)])
    jobs.run(cutting.advance_start(flushed.log, 41))
    assert flushed.log.epochs.entries == ((7, 41),)


def test_a_flush_that_a_cut_overtakes_does_not_say_that_what_was_cut_is_durable(
    bench: Bench,
) -> None:
    """Else the next start misses it, and calls that damage."""
    bench.append(5)
    flush = flushing.flush(bench.log)
    work = next(flush)
    jobs.run(cutting.truncate(bench.log, 2))
    work()
    with pytest.raises(StopIteration):
        flush.send(None)
    assert bench.log.recovery_point <= 2
    jobs.run(bench.broker.marks.save())
    assert bench.start().log.end_offset == 2


def test_a_cut_whose_fsync_fails_is_no_full_disk_that_passes(flushed: Bench) -> None:
    """A second fsync may succeed without having written what the first one lost."""
    flushed.disk.faults = Faults(fail=fail_once("fsync", suffix=".log", code=errno.ENOSPC))
    with pytest.raises(DiskFailed):
        jobs.run(cutting.truncate(flushed.log, 20))


def test_a_start_never_goes_back(flushed: Bench) -> None:
    jobs.run(cutting.advance_start(flushed.log, 9))
    jobs.run(cutting.advance_start(flushed.log, 5))
    assert flushed.log.start_offset == 9


@pytest.mark.parametrize("mark", ["recovery-point", "log-start"])
def test_a_cut_without_room_for_its_mark_cuts_nothing_and_can_be_tried_again(
    flushed: Bench, mark: str
) -> None:
    """The second time, the mark must not be taken for written."""
    before = flushed.content()
    suffix = f"{mark}-offset-checkpoint.tmp"
    flushed.disk.faults = Faults(fail=fail_once("pwritev", suffix=suffix, code=errno.ENOSPC))
    with pytest.raises(DiskFull):
        jobs.run(cutting.reset(flushed.log, 7))
    assert flushed.content() == before
    assert (flushed.log.start_offset, flushed.log.end_offset) == (0, 40)
    jobs.run(cutting.reset(flushed.log, 7))
    assert ends_after_power_failures(flushed) == {(7, 7)}
