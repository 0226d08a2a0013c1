"""What an append does: roll, refuse what does not follow, and leave nothing when refused."""

import errno

import attrs
import pytest

from protocol.errors import InvariantViolation
from storage.batch.header import split
from storage.disk import jobs
from storage.disk.faults import Faults, fail_always, fail_once
from storage.disk.simulated import PLENTY_BYTES
from storage.errors import DiskFailed, DiskFull
from storage.log import cutting, flushing
from storage.log.config import LogConfig
from storage.testing.bench import SMALL, Bench


def bases(bench: Bench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


def used_bytes(bench: Bench) -> int:
    return sum(map(len, bench.disk.files().values()))


def test_a_segment_rolls_when_the_next_batch_does_not_fit(bench: Bench) -> None:
    size = bench.batch().header.size_bytes
    fitting = SMALL.segment_bytes // size
    bench.append(fitting)
    assert bases(bench) == [0]
    bench.append()
    assert bases(bench) == [0, fitting]
    assert bench.log.segments[0].size_bytes == fitting * size


def test_a_batch_larger_than_a_segment_has_one_of_its_own(bench: Bench) -> None:
    bench.append()
    bench.append(value_bytes=3000)
    bench.append()
    assert bases(bench) == [0, 1, 2]


def test_batches_of_one_append_are_spread_over_segments(bench: Bench) -> None:
    batches = [bench.batch(offset=offset) for offset in range(20)]
    bench.log.append(batches)
    assert len(bases(bench)) > 1
    assert bench.content() == b"".join(bytes(each.view) for each in batches)


def test_a_segment_rolls_when_the_next_batch_is_too_much_later() -> None:
    bench = Bench(attrs.evolve(SMALL, segment_ms=100))
    bench.log.append([bench.batch(at_ms=(1000,))])
    bench.log.append([bench.batch(at_ms=(1100,))])
    assert bases(bench) == [0]
    bench.log.append([bench.batch(at_ms=(1101,))])
    assert bases(bench) == [0, 2]


def test_time_is_counted_anew_after_a_start() -> None:
    bench = Bench(attrs.evolve(SMALL, segment_ms=100))
    bench.log.append([bench.batch(at_ms=(1000,))])
    bench.start()
    bench.log.append([bench.batch(at_ms=(1101,))])
    assert bases(bench) == [0, 1]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    bench = Bench(LogConfig(segment_bytes=1 << 20, index_interval_bytes=0, index_max_bytes=16))
    bench.append(8)
    assert bases(bench) == [0, 3, 6]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_segment_that_could_not_be_begun_is_not_there_at_the_next_start(
    bench: Bench, suffix: str
) -> None:
    """Its name would say that the batches before it end there."""
    bench.append(3)
    bench.disk.faults = Faults(fail=fail_once("create", suffix=suffix, code=errno.ENOSPC))
    with pytest.raises(DiskFull):
        bench.log.roll()
    bench.append(2)
    bench.flush()
    recovery = bench.start()
    assert (recovery.log.end_offset, recovery.torn) == (5, None)


def test_index_entries_do_not_pile_up_in_memory_until_a_flush() -> None:
    bench = Bench(LogConfig(segment_bytes=1 << 20, index_interval_bytes=0))
    bench.append(300)
    index = bench.log.active.offsets
    assert index.size_bytes == 299 * 8
    assert index.size_bytes - bench.disk.size(index.path) <= 512


def test_what_a_refused_append_took_back_is_made_durable_by_the_next_flush(bench: Bench) -> None:
    """A clean stop believes the size of the file, and only an fsync makes that size sure."""
    bench.append(2)
    bench.flush()
    bench.disk.capacity_bytes = used_bytes(bench) + 30
    with pytest.raises(DiskFull):
        bench.append()
    bench.disk.capacity_bytes = PLENTY_BYTES
    bench.disk.trace = []
    bench.flush()
    assert ("fsync", bench.log.active.path()) in bench.disk.trace


def test_a_quota_that_is_used_up_is_a_full_disk(bench: Bench) -> None:
    bench.disk.faults = Faults(fail=fail_once("pwritev", suffix=".log", code=errno.EDQUOT))
    with pytest.raises(DiskFull):
        bench.append()
    bench.append()
    assert bench.log.end_offset == 1


def test_relative_offsets_stay_within_four_bytes(bench: Bench) -> None:
    bench.append()
    bench.log.append([bench.batch(offset=2**31 - 1, at_ms=(1000,))])
    assert bases(bench) == [0]
    bench.log.append([bench.batch(offset=2**31, at_ms=(1000,))])
    assert bases(bench) == [0, 2**31]


def test_relative_offsets_stay_within_four_bytes_also_within_one_append(bench: Bench) -> None:
    far = [bench.batch(offset=offset, at_ms=(1000,)) for offset in (0, 2**31 - 1, 2**31)]
    bench.log.append(far)
    assert bases(bench) == [0, 2**31]


def test_a_batch_that_does_not_follow_is_refused(bench: Bench) -> None:
    bench.append(2)
    with pytest.raises(InvariantViolation, match="AppendsFollow"):
        bench.log.append([bench.batch(offset=1)])
    with pytest.raises(InvariantViolation, match="AppendsFollow"):
        bench.log.append([bench.batch(offset=2, records=2), bench.batch(offset=3)])
    assert bench.log.end_offset == 2


def test_a_gap_before_a_batch_is_kept(bench: Bench) -> None:
    """A follower of a leader whose log was compacted gets such batches."""
    bench.append(2)
    bench.log.append([bench.batch(offset=7)])
    assert bench.log.end_offset == 8
    found = bench.log.read(4, 8, 1 << 20)
    assert found is not None
    assert split(bench.disk.read(*attrs.astuple(found)))[0].header.base_offset == 7


def test_nothing_is_appended_while_the_log_is_cut(bench: Bench) -> None:
    bench.append(5)
    bench.flush()
    job = cutting.truncate(bench.log, 3)
    next(job)
    with pytest.raises(InvariantViolation, match="being cut"):
        bench.append()
    job.close()
    bench.append()
    assert bench.log.end_offset == 6


@pytest.mark.parametrize("room", [0, 1, 60, 130, 200])
def test_a_full_disk_refuses_a_batch_and_keeps_nothing_of_it(bench: Bench, room: int) -> None:
    bench.append(3)
    before = bench.content()
    size = len(bench.disk.files()[bench.log.active.path()])
    bench.disk.capacity_bytes = used_bytes(bench) + room
    with pytest.raises(DiskFull, match=r"00000000000000000000\.log"):
        bench.append(value_bytes=300)
    assert bench.log.end_offset == 3
    assert len(bench.disk.files()[bench.log.active.path()]) == size
    assert bench.content() == before
    bench.disk.capacity_bytes = PLENTY_BYTES
    bench.append(value_bytes=300)
    assert bench.log.end_offset == 4
    assert bench.start().log.end_offset == 4


def test_batches_before_the_one_that_is_refused_are_in_the_log(bench: Bench) -> None:
    batches = [bench.batch(offset=offset, value_bytes=300) for offset in range(8)]
    bench.disk.capacity_bytes = used_bytes(bench) + 1500
    with pytest.raises(DiskFull):
        bench.log.append(batches)
    kept = bench.log.end_offset
    assert 0 < kept < 8
    bench.disk.capacity_bytes = PLENTY_BYTES
    bench.log.append(batches[kept:])
    assert bench.content() == b"".join(bytes(each.view) for each in batches)


@pytest.mark.parametrize("suffix", [".snapshot", ".log", ".timeindex", ".index"])
def test_a_full_disk_at_a_roll_leaves_the_log_as_it_was(bench: Bench, suffix: str) -> None:
    bench.append(7)
    bench.disk.faults = Faults(fail=fail_once("*", suffix=suffix, code=errno.ENOSPC))
    with pytest.raises(DiskFull):
        bench.log.roll()
    assert bases(bench) == [0]
    assert bench.log.end_offset == 7
    bench.disk.faults = Faults()
    bench.append(20)
    assert bench.start().log.end_offset == 27


@pytest.mark.parametrize("suffix", [".index", ".timeindex", "leader-epoch-checkpoint.tmp"])
def test_batches_are_flushed_although_what_follows_from_them_has_no_room(
    bench: Bench, suffix: str
) -> None:
    bench.append(7)
    bench.disk.faults = Faults(fail=fail_always("pwritev", suffix=suffix, code=errno.ENOSPC))
    assert jobs.run(flushing.flush(bench.log)) == 7
    assert bench.log.recovery_point == 0
    for seed in range(5):
        survivor = bench.disk.crash(seed)
        survivor.faults = Faults()
        again = Bench()
        again.broker = bench.broker
        assert again.start(survivor).log.end_offset == 7


@pytest.mark.parametrize("operation", ["pwritev", "create"])
def test_a_disk_that_fails_is_no_full_disk(bench: Bench, operation: str) -> None:
    bench.disk.faults = Faults(fail=fail_always(operation))
    with pytest.raises(DiskFailed):
        bench.append(30)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_fsync_is_a_failed_disk(bench: Bench, code: int) -> None:
    """Also without room: what the system could not write, it may take for written."""
    bench.append()
    bench.disk.faults = Faults(fail=fail_always("fsync", suffix=".log", code=code))
    with pytest.raises(DiskFailed, match="t-0"):
        jobs.run(flushing.flush(bench.log))
    assert bench.log.recovery_point == 0


def test_an_index_written_before_another_had_no_room_becomes_durable(bench: Bench) -> None:
    bench.append(7)
    expected = bench.log.active.offsets.entries()
    fail = fail_once("pwritev", suffix=".timeindex", code=errno.ENOSPC)
    bench.disk.faults = Faults(fail=fail)
    jobs.run(flushing.flush(bench.log))
    bench.disk.faults = Faults()
    bench.stop()
    for seed in range(10):
        again = Bench()
        again.broker = bench.broker
        log = again.start(bench.disk.crash(seed), clean=True).log
        assert log.active.offsets.entries() == expected
    assert len(expected) > 1
