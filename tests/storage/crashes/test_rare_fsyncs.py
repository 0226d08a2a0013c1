"""Fsyncs that random crashes need too long to miss, each in the scenario that needs it.

Every scenario is right after any power failure, and goes wrong after some without the fsync.
"""

from collections.abc import Callable

import pytest

from storage.batch.control import MarkerKind
from storage.disk import jobs
from storage.disk.faults import Faults, matching
from storage.errors import DamagedFile
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


SCENARIOS = [
    pytest.param(an_abort_marker_is_cut, ".txnindex", nothing_is_aborted, id="txnindex-cut"),
    pytest.param(the_newest_record_is_cut, ".timeindex", the_newest_record_is_found, id="time-cut"),
    pytest.param(a_snapshot_survives_a_kill, ".snapshot", the_producer_is_known, id="snapshot"),
    pytest.param(a_clean_stop, ".snapshot", the_producer_is_known, id="clean-stop"),
]


def rights(bench: Bench, is_right: Callable[[Bench], bool], *, clean: bool) -> list[bool]:
    """What each power failure leaves: whether it is right."""
    found = []
    for seed in range(SEEDS):
        again = Bench()
        again.broker = bench.broker
        again.start(bench.disk.crash(seed), clean=clean)
        found.append(is_right(again))
    return found


@pytest.mark.parametrize(("scenario", "suffix", "is_right"), SCENARIOS)
def test_an_fsync_is_needed_and_there(
    scenario: Callable[[Faults], Bench], suffix: str, is_right: Callable[[Bench], bool]
) -> None:
    clean = scenario is a_clean_stop
    assert all(rights(scenario(Faults()), is_right, clean=clean))
    without = Faults(ignore=matching("fsync", suffix=suffix))
    assert not all(rights(scenario(without), is_right, clean=clean))
