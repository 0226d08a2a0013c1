"""Which part of a log is cleaned, and when: never what may still change."""

from __future__ import annotations

import attrs
import pytest

from storage.batch.control import MarkerKind
from storage.disk import jobs
from storage.log import cutting, flushing
from storage.log.cleanable import plan
from tests.storage.compaction.world import CONFIG, World, reopen

COMMIT = MarkerKind.COMMIT


@pytest.fixture
def world() -> World:
    return World()


def test_a_log_that_is_not_compacted_has_no_plan() -> None:
    world = World(config=attrs.evolve(CONFIG, compact=False))
    world.put((b"a", b"1"))
    world.settle()
    assert plan(world.log, world.now_ms, world.log.end_offset) is None


def test_the_active_segment_is_never_cleaned(world: World) -> None:
    world.put((b"a", b"1"))
    world.flush()
    assert plan(world.log, world.now_ms, world.log.end_offset) is None
    world.settle()
    found = plan(world.log, world.now_ms, world.log.end_offset)
    assert found is not None
    assert found.segments == tuple(world.log.segments[:-1])


def test_the_active_segment_is_not_cleaned_even_if_a_snapshot_covers_it(world: World) -> None:
    world.put((b"a", b"1"))
    world.settle()
    jobs.run(flushing.close(world.log))
    found = plan(world.log, world.now_ms, world.log.end_offset)
    assert found is not None
    assert found.segments == tuple(world.log.segments[:-1])


def test_what_is_not_committed_is_not_cleaned(world: World) -> None:
    for _ in range(3):
        world.put((b"a", b"1"), (b"a", b"2"))
        world.roll()
    world.settle()
    for watermark, expected in ((1, None), (2, 2), (3, 2), (5, 4), (6, 6)):
        found = plan(world.log, world.now_ms, watermark)
        assert (found and found.end_offset) == expected


def test_what_an_open_transaction_may_abort_is_not_cleaned(world: World) -> None:
    for _ in range(3):
        world.put((b"a", b"1"), (b"a", b"2"))
        world.roll()
    world.put((b"a", b"3"), producer=1, transactional=True)
    world.roll()
    world.settle()
    found = plan(world.log, world.now_ms, world.log.end_offset)
    assert found is not None
    assert found.end_offset == 6
    marker = world.end(1, COMMIT)
    world.settle()
    # A marker that is not replicated may be lost, and so decides nothing yet.
    for watermark, expected in ((marker, 6), (marker + 1, marker + 1)):
        found = plan(world.log, world.now_ms, watermark)
        assert found is not None
        assert found.end_offset == expected


def test_what_is_not_durable_is_not_cleaned(world: World) -> None:
    world.put((b"a", b"1"))
    world.roll()
    world.put((b"a", b"1"))
    assert plan(world.log, world.now_ms, 2) is None
    world.flush()
    assert plan(world.log, world.now_ms, 2) is not None


def test_what_is_too_young_is_not_cleaned() -> None:
    world = World(config=attrs.evolve(CONFIG, min_compaction_lag_ms=500))
    world.put((b"a", b"1"))
    written_ms = world.log.active.max_timestamp_ms
    world.roll()
    world.now_ms += 100
    world.settle()
    assert plan(world.log, written_ms + 499, 9) is None
    found = plan(world.log, written_ms + 500, 9)
    assert found is not None
    assert found.end_offset == 1


def test_too_little_that_is_new_is_not_worth_it() -> None:
    world = World(config=attrs.evolve(CONFIG, min_cleanable_ratio=0.5))
    world.put((b"a", bytes(300)))
    world.settle()
    assert world.compact() is not None
    world.put((b"b", bytes(100)))
    world.settle()
    assert plan(world.log, world.now_ms, 9) is None
    world.put((b"c", bytes(400)))
    world.settle()
    assert plan(world.log, world.now_ms, 99) is not None


@pytest.mark.parametrize("opened_anew", [False, True])
def test_what_has_waited_too_long_is_cleaned_in_any_case(opened_anew: bool) -> None:
    config = attrs.evolve(CONFIG, min_cleanable_ratio=1.0, max_compaction_lag_ms=500)
    world = World(config=config)
    world.put((b"a", b"1"))
    written_ms = world.log.active.max_timestamp_ms
    world.settle()
    log = world.log
    if opened_anew:
        jobs.run(flushing.close(log))
        jobs.run(world.marks.save())
        log, _ = reopen(world.disk.kill(), config, clean=True)
    assert plan(log, written_ms + 500, 9) is None
    assert plan(log, written_ms + 501, 9) is not None


def test_it_begins_where_the_last_one_ended_but_not_before_the_log(world: World) -> None:
    for _ in range(3):
        world.put((b"a", b"1"))
        world.roll()
    world.settle()
    for mark, expected in ((None, 0), (1, 1), (99, 0)):
        world.marks.cleaned.values.clear()
        if mark is not None:
            world.marks.cleaned.values[world.log.partition] = mark
        found = plan(world.log, world.now_ms, 99)
        assert found is not None
        assert found.first_dirty_offset == expected
    jobs.run(cutting.advance_start(world.log, 2))
    world.marks.cleaned.values[world.log.partition] = 1
    found = plan(world.log, world.now_ms, 99)
    assert found is not None
    assert found.first_dirty_offset == 2
