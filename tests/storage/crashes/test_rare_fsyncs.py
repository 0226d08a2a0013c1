"""Fsyncs and renames that random crashes rarely miss, each in the scenario that needs it.

Every scenario is right after any power failure, and goes wrong after some if one is left out.
"""

from collections.abc import Callable

import pytest

from storage.batch.control import MarkerKind
from storage.disk import jobs
from storage.disk.faults import Faults, Ignore, matching
from storage.errors import DamagedFile, DamagedLog
from storage.log import cutting
from storage.log.config import LogConfig
from storage.testing.bench import PARTITION, Bench

SEEDS = 20
DENSE = LogConfig(segment_bytes=4096, index_interval_bytes=0)


def finish(bench: Bench) -> None:
    """Begin a new segment, so that the first one is trusted at a start, and make all durable."""
    bench.log.roll()
    bench.append()
    bench.broker.marks.high_watermarks.values[PARTITION] = bench.log.end_offset
    bench.flush()


def an_abort_marker_is_cut(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.log.append([bench.batch(producer_id=1, transactional=True)])
    bench.log.append([bench.marker(MarkerKind.ABORT, 1)])
    bench.flush()
    bench.disk.faults = faults
    jobs.run(cutting.truncate(bench.log, 1))
    bench.disk.faults = Faults()
    bench.log.append([bench.marker(MarkerKind.COMMIT, 1)])
    finish(bench)
    return bench


def nothing_is_aborted(bench: Bench) -> bool:
    try:
        return bench.log.aborted_between(0, bench.log.end_offset) == []
    except DamagedFile:
        return False


def the_newest_record_is_cut(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    for time_ms in (5000, 500, 9000):
        bench.log.append([bench.batch(at_ms=(time_ms,))])
    bench.flush()
    bench.disk.faults = faults
    jobs.run(cutting.truncate(bench.log, 2))
    bench.disk.faults = Faults()
    bench.log.append([bench.batch(at_ms=(500,))])
    finish(bench)
    return bench


def the_newest_record_is_found(bench: Bench) -> bool:
    return bench.log.newest_time(bench.log.end_offset) == (0, 5000, 1)


def a_snapshot_survives_a_kill(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.log.append([bench.batch(producer_id=1, sequence=7)])
    bench.log.roll()
    bench.append()
    disk = bench.disk.kill()
    disk.faults = faults
    bench.start(disk)
    bench.disk.faults = Faults()
    bench.append()
    bench.flush()
    jobs.run(cutting.advance_start(bench.log, 1))
    return bench


def a_snapshot_is_flushed(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.log.append([bench.batch(producer_id=1, sequence=7)])
    bench.disk.faults = faults
    finish(bench)
    bench.disk.faults = Faults()
    jobs.run(cutting.advance_start(bench.log, 1))
    return bench


def the_producer_is_known(bench: Bench) -> bool:
    return 1 in bench.log.producers.entries


def a_clean_stop(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.log.append([bench.batch(producer_id=1, sequence=7)])
    bench.log.roll()
    jobs.run(cutting.advance_start(bench.log, 1))
    bench.broker.marks.high_watermarks.values[PARTITION] = 2
    bench.append()
    bench.disk.faults = faults
    bench.stop()
    bench.disk.faults = Faults()
    return bench


def an_index_is_cut(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.append(3)
    bench.flush()
    bench.disk.faults = faults
    jobs.run(cutting.truncate(bench.log, 1))
    bench.disk.faults = Faults()
    bench.log.roll()
    bench.stop()
    return bench


def nothing_is_scanned(bench: Bench) -> bool:
    return bench.broker.recoveries[PARTITION].scanned_bytes == 0


def an_epoch_is_flushed(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.append()
    bench.flush()
    bench.log.append([bench.batch(epoch=2)])
    bench.disk.faults = faults
    finish_in_epoch_2(bench)
    bench.disk.faults = Faults()
    return bench


def an_epoch_is_recovered(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.append()
    bench.flush()
    bench.log.append([bench.batch(epoch=2)])
    bench.log.roll()
    bench.log.append([bench.batch(epoch=2)])
    disk = bench.disk.kill()
    disk.faults = faults
    bench.start(disk)
    bench.disk.faults = Faults()
    jobs.run(bench.broker.marks.save())
    return bench


def finish_in_epoch_2(bench: Bench) -> None:
    bench.log.roll()
    bench.log.append([bench.batch(epoch=2)])
    bench.flush()


def the_epochs_are_known(bench: Bench) -> bool:
    return bench.log.as_protocol().epochs == ((1, 0), (2, 1))


def what_was_cleaned_is_cut(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.append(8)
    bench.broker.marks.cleaned.values[PARTITION] = 7
    jobs.run(bench.broker.marks.save())
    bench.disk.faults = faults
    jobs.run(cutting.truncate(bench.log, 3))
    bench.disk.faults = Faults()
    return bench


def no_more_is_called_clean(bench: Bench) -> bool:
    return bench.broker.marks.cleaned.values[PARTITION] <= 3


def a_log_is_made_again(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.append(8)
    bench.flush()
    for name in bench.disk.list(bench.folder):
        bench.disk.delete(f"{bench.folder}/{name}")
    bench.disk.faults = faults
    bench.broker.create(PARTITION, 0)
    bench.disk.faults = Faults()
    return bench


def it_is_empty(bench: Bench) -> bool:
    return bench.log.end_offset == 0


def a_recovery_point_is_saved(faults: Faults) -> Bench:
    bench = Bench(DENSE)
    bench.append()
    bench.disk.faults = faults
    finish(bench)
    bench.disk.faults = Faults()
    return bench


def only_the_last_segment_is_scanned(bench: Bench) -> bool:
    scanned_bytes = bench.broker.recoveries[PARTITION].scanned_bytes
    return scanned_bytes == bench.log.active.size_bytes


def folder_after_renaming(name: str) -> Ignore:
    """The sync of a folder right after this file got its name."""
    renamed = False

    def ignore(operation: str, path: str) -> bool:
        nonlocal renamed
        before, renamed = renamed, operation == "rename" and name in path
        return operation == "fsync_folder" and before

    return ignore


TXN_INDEX = matching("fsync", suffix=".txnindex")
TIME_INDEX = matching("fsync", suffix=".timeindex")
INDEX = matching("fsync", suffix=".index")
SNAPSHOT = matching("fsync", suffix=".snapshot")
EPOCHS = folder_after_renaming("leader-epoch")
POINT = matching("rename", suffix="recovery-point-offset-checkpoint.tmp")
CLEANED = folder_after_renaming("cleaner-offset")

Scenario = Callable[[Faults], Bench]
IsRight = Callable[[Bench], bool]
CLEAN: list[Scenario] = [a_clean_stop, an_index_is_cut]


def rights(bench: Bench, is_right: IsRight, *, clean: bool) -> list[bool]:
    """What each power failure leaves: whether it is right."""
    found = []
    for seed in range(SEEDS):
        again = Bench()
        again.broker = bench.broker
        try:
            again.start(bench.disk.crash(seed), clean=clean)
            found.append(is_right(again))
        except DamagedLog:
            found.append(False)
    return found


@pytest.mark.parametrize(
    ("scenario", "left_out", "is_right"),
    [
        (an_abort_marker_is_cut, TXN_INDEX, nothing_is_aborted),
        (the_newest_record_is_cut, TIME_INDEX, the_newest_record_is_found),
        (an_index_is_cut, INDEX, nothing_is_scanned),
        (a_snapshot_survives_a_kill, SNAPSHOT, the_producer_is_known),
        (a_snapshot_is_flushed, SNAPSHOT, the_producer_is_known),
        (a_clean_stop, SNAPSHOT, the_producer_is_known),
        (an_epoch_is_flushed, EPOCHS, the_epochs_are_known),
        (an_epoch_is_recovered, EPOCHS, the_epochs_are_known),
        (a_log_is_made_again, POINT, it_is_empty),
        (a_recovery_point_is_saved, POINT, only_the_last_segment_is_scanned),
        (what_was_cleaned_is_cut, CLEANED, no_more_is_called_clean),
    ],
)
def test_an_fsync_is_needed_and_there(
    scenario: Scenario, left_out: Ignore, is_right: IsRight
) -> None:
    clean = scenario in CLEAN
    assert all(rights(scenario(Faults()), is_right, clean=clean))
    assert not all(rights(scenario(Faults(ignore=left_out)), is_right, clean=clean))
