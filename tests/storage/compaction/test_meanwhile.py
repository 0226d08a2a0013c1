"""A compaction takes its time: what readers, writers, cuts and a failing disk do meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from storage.disk import jobs
from storage.disk.faults import Fail, Faults, fail_always, fail_once
from storage.disk.jobs import Job
from storage.errors import DamagedLog, DiskFailed, DiskFull
from storage.log import cutting, flushing
from storage.log.cleanable import plan
from storage.log.compaction import CompactionReport, compact
from storage.log.rewriting import clean
from storage.log.swapping import swap
from tests.storage.compaction.test_crashes import check_after_crash, prepared
from tests.storage.compaction.world import (
    FOLDER,
    World,
    check_structure,
    check_view,
    content,
    reopen,
)


def begin(world: World) -> list[CompactionReport | Exception | None]:
    """Begin to compact on a disk that does what may block only when it is told."""
    world.disk.faults = Faults(deferred=True)
    found: list[CompactionReport | Exception | None] = []
    compact(world.log, world.now_ms, world.log.end_offset, found.append)
    return found


def leftovers(world: World) -> list[str]:
    return [name for name in world.disk.list(FOLDER) if name.endswith((".swap", ".cleaned"))]


@pytest.mark.parametrize("seed", range(4))
def test_readers_and_writers_go_on_between_any_two_steps(seed: int) -> None:
    world = prepared(seed)
    check_view(world, world.log)
    found = begin(world)
    steps = 0
    while not found:
        # Whoever found a file before a step has pinned it, and reads the same after it.
        range_ = world.log.read(world.log.start_offset, world.log.end_offset, 10**6)
        assert range_ is not None
        with world.disk.pin(range_.path) as pinned:
            before = pinned.read(range_.position, range_.length)
            assert world.disk.run_next()
            assert pinned.read(range_.position, range_.length) == before
        check_view(world, world.log)
        world.put((b"key 1", b"%d" % steps))
        for offset in range(0, world.log.end_offset, 7):
            world.log.segment_of(offset).find(offset)
            world.log.segment_of(offset).aborted()
        steps += 1
    assert isinstance(found[0], CompactionReport)
    assert steps > 10
    assert set(world.cache._files) <= set(world.disk.files())
    check_structure(world.log)
    assert not leftovers(world)


def truncate(world: World) -> Job[None]:
    return cutting.truncate(world.log, world.log.segments[1].base_offset + 1)


def shorten(world: World) -> Job[None]:
    return cutting.advance_start(world.log, world.log.segments[1].base_offset)


def reset(world: World) -> Job[None]:
    return cutting.reset(world.log, 1000)


@pytest.mark.parametrize("change", [truncate, shorten, reset])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_lost_a_segment_meanwhile_is_left_alone(
    change: Callable[[World], Job[None]], seed: int
) -> None:
    whole = prepared(seed)
    found, steps = begin(whole), 0
    while not found:
        whole.disk.run_next()
        steps += 1
    given_up = 0
    for at in range(steps):
        world = prepared(seed)
        found = begin(world)
        for _ in range(at):
            world.disk.run_next()
        world.log.turns.put(change(world), list[Exception | None]().append)
        world.disk.run_all()
        assert not isinstance(found[0], Exception)
        given_up += found[0] is None
        assert not leftovers(world)
        check_structure(world.log)
        expected = content(world.log, 0)
        world.disk.faults = Faults()
        world.flush()
        log, _ = reopen(world.disk.crash(at))
        assert content(log, 0) == expected
    assert given_up


FAILURES: dict[str, Fail] = {
    "no room for the batches": fail_once("pwritev", suffix=".log.cleaned", code=errno.ENOSPC),
    "no room for an index": fail_always("pwritev", suffix=".index.cleaned", code=errno.ENOSPC),
    "no room for a name": fail_once("create", suffix=".timeindex.cleaned", code=errno.ENOSPC),
    "no room for a new name": fail_always("rename", suffix=".log.cleaned", code=errno.ENOSPC),
    "no room for the recovery point": fail_always("pwritev", suffix=".tmp", code=errno.EDQUOT),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_full_disk_leaves_the_log_as_it_was_and_passes(failure: str) -> None:
    world = prepared(1)
    before = content(world.log, 0)
    world.disk.faults = Faults(fail=FAILURES[failure])
    with pytest.raises(DiskFull):
        world.compact()
    assert content(world.log, 0) == before
    assert not leftovers(world)
    world.disk.faults = Faults()
    assert world.compact() is not None
    check_view(world, world.log)
    check_structure(world.log)


@pytest.mark.parametrize("operation", ["fsync", "fsync_folder", "rename"])
@pytest.mark.parametrize("after", range(8))
def test_a_failing_disk_is_reported_and_the_next_start_finds_a_good_log(
    operation: str, after: int
) -> None:
    world = prepared(2)
    world.disk.faults = Faults(fail=fail_once(operation, prefix=FOLDER, after=after))
    with pytest.raises(DiskFailed):
        world.compact()
    world.disk.faults = Faults()
    check_view(world, world.log)
    for seed in range(5):
        check_after_crash(world, world.disk.crash(seed))


def test_a_rotten_batch_is_not_built_anew() -> None:
    world = World()
    world.put((b"a", b"1" * 50), (b"b", b"2" * 50))
    world.put((b"a", b"3"))
    world.settle()
    world.disk.flip_bit(world.log.segments[0].path(), 8 * 100)
    before = world.disk.files()
    with pytest.raises(DamagedLog, match="checksum"):
        world.compact()
    assert world.disk.files() == before


def test_a_length_that_cannot_be_is_damage() -> None:
    world = World()
    world.put((b"a", b"1" * 50))
    world.settle()
    world.disk.write(world.log.segments[0].path(), (b"\x7f\xff\xff\xff",), 8)
    with pytest.raises(DamagedLog, match="no whole batch"):
        world.compact()


def test_a_batch_larger_than_a_step_is_cleaned_too() -> None:
    world = World()
    world.put((b"a", b"small"))
    world.put((b"b", bytes(3 * 1024 * 1024)), (b"a", b"large"))
    world.put((b"b", b"small"))
    world.settle()
    report = world.compact()
    assert report is not None
    assert report.bytes_after < 1000
    check_view(world, world.log)


def test_a_swap_of_what_is_no_longer_there_changes_nothing() -> None:
    world = prepared(1)
    planned = plan(world.log, world.now_ms, world.log.end_offset)
    assert planned is not None
    cleaned = jobs.run(clean(world.log, planned))
    assert cleaned is not None
    jobs.run(cutting.advance_start(world.log, world.log.segments[1].base_offset))
    before = content(world.log, world.log.start_offset)
    assert jobs.run(swap(world.log, cleaned)) is False
    assert content(world.log, world.log.start_offset) == before
    assert not leftovers(world)


def test_a_segment_that_was_cut_and_written_again_is_not_swapped() -> None:
    world = prepared(0)
    planned = plan(world.log, world.now_ms, world.log.end_offset)
    assert planned is not None
    cleaned = jobs.run(clean(world.log, planned))
    assert cleaned is not None
    jobs.run(cutting.truncate(world.log, planned.end_offset - 1))
    world.put((b"key 1", b"another"))
    world.roll()
    world.put((b"key 1", b"one more"))
    before = content(world.log, 0)
    assert jobs.run(swap(world.log, cleaned)) is False
    assert content(world.log, 0) == before


def test_nothing_of_the_old_segments_stays_in_the_cache() -> None:
    world = prepared(0)
    for offset in range(world.log.end_offset):
        world.log.segment_of(offset).find(offset)
    assert world.cache.size_bytes
    world.compact()
    assert set(world.cache._files) <= {segment.offsets.path for segment in world.log.segments[-1:]}
    assert world.cache.size_bytes == sum(map(len, world.cache._files.values()))


@pytest.mark.parametrize("seed", range(4))
def test_a_compacted_log_is_the_same_after_a_clean_stop(seed: int) -> None:
    world = prepared(seed)
    world.put((b"key 2", b"ahead"), ahead_ms=900)
    world.put((b"key 3", b"not ahead"))
    world.settle()
    world.compact()
    jobs.run(flushing.close(world.log))
    jobs.run(world.marks.save())
    log, _ = reopen(world.disk.kill(), clean=True)
    assert content(log, 0) == content(world.log, 0)
    check_view(world, log)
    check_structure(log)


def test_two_compactions_of_the_same_history_write_the_same_bytes() -> None:
    one, other = (prepared(Random(5).randrange(6)) for _ in range(2))
    one.compact()
    other.compact()
    assert one.disk.files() == other.disk.files()
