"""Whenever the power fails in a compaction, the log says the same; and every step is needed.

The same checks are run with one step left out, and must then find a crash that breaks the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from storage.batch.control import MarkerKind
from storage.disk import jobs
from storage.disk.faults import Faults, Ignore, matching
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.errors import DamagedFile, StorageError
from storage.log import cutting
from storage.log.log import Log
from storage.log.producers import Producers
from storage.log.replay import snapshots_of
from tests.storage.compaction.world import (
    FOLDER,
    RETENTION_MS,
    World,
    batches,
    check_structure,
    check_view,
    content,
    producers,
    random_history,
    reopen,
    stable_end,
)

# `make deep` has more of them.
SEEDS = range(int(os.environ.get("HWMARK_COMPACTION_SEEDS", "6")))
CRASH_SEEDS = range(3)
SLOW = pytest.mark.slow


def prepared(seed: int) -> World:
    """A log that was compacted before, whose tombstones and markers are old now, and that grew.

    Producer 9 is known only from snapshots: retention has deleted what it wrote.
    """
    random = Random(seed)
    world = World(seed)
    world.put((b"gone", b"1"), producer=9)
    world.roll()
    start = world.log.end_offset
    random_history(world, random, 20)
    end_transactions(world)
    world.settle()
    world.compact()
    jobs.run(cutting.advance_start(world.log, start))
    world.now_ms += 2 * RETENTION_MS
    random_history(world, random, 15)
    end_transactions(world)
    if seed % 2:
        random_history(world, random, 5)
    world.put((b"key 1", b"before"))
    # The newest snapshot and the offsets that point to it are not durable yet.
    world.flush(checkpoint=False)
    world.roll()
    world.put((b"key 1", b"not durable"))
    return world


def end_transactions(world: World) -> None:
    for producer in (1, 2, 3):
        world.end(producer, MarkerKind.COMMIT)


def check_after_crash(world: World, disk: SimulatedDisk) -> None:
    """Open what a crash has left, and compare it with the truth; opening it again is the same."""
    disk.faults = Faults()
    log, _ = reopen(disk)
    check_view(world, log)
    check_structure(log)
    check_snapshots(log)
    assert producers(log) == producers(world.log)
    assert log.epochs.entries == world.log.epochs.entries
    assert not [name for name in disk.list(FOLDER) if name.endswith((".swap", ".cleaned"))]
    again, _ = reopen(disk.crash(1))
    assert [each.base_offset for each in again.segments] == [
        each.base_offset for each in log.segments
    ]
    assert content(again, 0) == content(log, 0)


def check_snapshots(log: Log) -> None:
    """Going on from any snapshot, no transaction stays open that is decided."""
    ended = {
        each.header.producer_id: each.header.base_offset
        for each in batches(log)
        if each.header.is_control and each.header.record_count
    }
    for offset, path in snapshots_of(log):
        try:
            known = Producers.load(log.disk.read(path, 0, log.disk.size(path)), path)
        except DamagedFile:
            continue
        for entry in known.entries.values():
            if entry.transaction_first_offset is not None:
                decided = ended.get(entry.producer_id, -1) >= offset
                assert decided or entry.transaction_first_offset >= stable_end(log)


def broken(ignore: Callable[[], Ignore] | None, seed: int) -> str | None:
    """Crash at every operation of a compaction and after it; say what was wrong first."""

    def begin() -> World:
        world = prepared(seed)
        world.disk.faults = Faults(ignore=ignore and ignore(), torn_sectors=bool(seed % 2))
        return world

    def wrong(world: World, disk: SimulatedDisk) -> str | None:
        try:
            check_after_crash(world, disk)
        except (AssertionError, StorageError, OSError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    whole = begin()
    before = whole.disk.operations
    try:
        assert whole.compact() is not None
        check_view(whole, whole.log)
        check_structure(whole.log)
    except (AssertionError, StorageError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    for operation in range(before + 1, whole.disk.operations + 1):
        world = begin()
        world.disk.crash_at(operation)
        with pytest.raises(SimulatedCrash):
            world.compact()
        for crash_seed in CRASH_SEEDS:
            if found := wrong(world, world.disk.crash(crash_seed)):
                return f"operation {operation}, crash {crash_seed}: {found}"
    for crash_seed in CRASH_SEEDS:
        if found := wrong(whole, whole.disk.crash(crash_seed)):
            return f"at the end, crash {crash_seed}: {found}"
    return None


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=SLOW) for seed in SEEDS[1:])])
def test_a_crash_at_any_operation_leaves_a_log_that_says_the_same(seed: int) -> None:
    assert broken(None, seed) is None


def test_the_crashes_hit_compactions_that_are_worth_it() -> None:
    """Tombstones, markers and aborted records go away, and segments are put together."""
    dropped = set()
    for seed in SEEDS:
        world = prepared(seed)
        markers = {each.header.base_offset for each in batches(world.log) if each.header.is_control}
        report = world.compact()
        assert report is not None
        assert report.segments_before > report.segments_after > 1
        left = {each.header.base_offset for each in batches(world.log) if each.header.is_control}
        dropped |= markers - left
        assert 9 in world.log.producers.entries
    assert len(dropped) > 5


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=SLOW) for seed in SEEDS[1:])])
def test_a_crash_while_the_start_finishes_an_exchange_changes_nothing(seed: int) -> None:
    whole = prepared(seed)
    whole.compact()
    last = whole.disk.operations
    for operation in range(last - 40, last + 1, 3):
        world = prepared(seed)
        if operation <= world.disk.operations:
            continue
        world.disk.crash_at(operation)
        with pytest.raises(SimulatedCrash):
            world.compact()
        for steps in range(1, 30, 2):
            disk = world.disk.crash(operation)
            disk.crash_at(steps)
            try:
                reopen(disk)
            except SimulatedCrash:
                check_after_crash(world, disk.crash(steps))
            else:
                break


def nth_folder_sync(remainder: int) -> Callable[[], Ignore]:
    """Leave out every other fsync of the log's folder: 0 is the decision, 1 the removal."""

    def begin() -> Ignore:
        count = -1

        def ignore(operation: str, path: str) -> bool:
            nonlocal count
            if operation != "fsync_folder" or path != FOLDER:
                return False
            count += 1
            return count % 2 == remainder

        return ignore

    return begin


STEPS: dict[str, Callable[[], Ignore]] = {
    "fsync of the batches": lambda: matching("fsync", suffix=".log.cleaned"),
    "fsync of the offset index": lambda: matching("fsync", suffix=".index.cleaned"),
    "fsync of the time index": lambda: matching("fsync", suffix=".timeindex.cleaned"),
    "fsync of the snapshot": lambda: matching("fsync", suffix=".snapshot"),
    "saving the recovery point": lambda: matching("*", suffix="point-offset-checkpoint.tmp"),
    "rename of the batches to .swap": lambda: matching("rename", suffix=".log.cleaned"),
    "rename of the offset index to .swap": lambda: matching("rename", suffix=".index.cleaned"),
    "rename of the time index to .swap": lambda: matching("rename", suffix=".timeindex.cleaned"),
    "fsync of the folder that decides": nth_folder_sync(0),
    "fsync of the folder before the last rename": nth_folder_sync(1),
    "rename of the batches": lambda: matching("rename", suffix=".log.swap"),
    "rename of the offset index": lambda: matching("rename", suffix=".index.swap"),
    "rename of the time index": lambda: matching("rename", suffix=".timeindex.swap"),
}


@SLOW
@pytest.mark.parametrize("step", STEPS)
def test_without_any_one_of_its_steps_a_compaction_is_not_safe(step: str) -> None:
    # Those that notice most steps come first, in order to be done soon.
    assert any(broken(STEPS[step], seed) for seed in (0, 4, 2, 1, 3, 5))
