"""Whatever was written, a compacted log says the same as before, and no more than it must."""

from __future__ import annotations

from random import Random

import hypothesis.strategies as st
from hypothesis import example, given, settings

from storage.batch.codecs import CODECS
from storage.batch.control import MarkerKind
from storage.batch.header import Header
from storage.disk import jobs
from storage.log import cutting
from storage.log.offset_map import MAX_KEYS
from tests.storage.compaction.world import (
    RETENTION_MS,
    World,
    batches,
    check_clean,
    check_structure,
    check_view,
    content,
    producers,
    reopen,
    stable_end,
)

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"a longer key than its digest", None])
VALUES = st.none() | st.binary(max_size=30)
ITEMS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
PRODUCERS = st.integers(1, 3)
STEPS = st.one_of(
    st.tuples(st.just("put"), ITEMS, st.sampled_from(CODECS)),
    st.tuples(st.just("idempotent"), ITEMS, PRODUCERS),
    st.tuples(st.just("transactional"), ITEMS, PRODUCERS),
    st.tuples(st.just("transactional"), ITEMS, PRODUCERS),
    st.tuples(st.just("commit"), PRODUCERS),
    st.tuples(st.just("abort"), PRODUCERS),
    st.tuples(st.just("roll")),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("compact"), st.integers(0, 2 * RETENTION_MS)),
)
HISTORIES = st.lists(STEPS, min_size=5, max_size=60)
MOST_KEYS = st.sampled_from([1, 2, 3, MAX_KEYS])


def play(history: list[tuple[object, ...]], max_keys: int = MAX_KEYS) -> World:
    """Write a history, compacting where it says so, and check after every compaction."""
    world = World()
    for kind, *rest in history:
        match kind, *rest:
            case "put", list(items), int(codec):
                world.put(*items, codec=codec)
            case "idempotent", list(items), int(producer):
                world.put(*items, producer=producer + 10)
            case "transactional", list(items), int(producer):
                world.put(*items, producer=producer, transactional=True)
            case "commit", int(producer):
                world.end(producer, MarkerKind.COMMIT)
            case "abort", int(producer):
                world.end(producer, MarkerKind.ABORT)
            case ("roll",):
                world.roll()
            case ("epoch",):
                world.epoch += 1
            case "compact", int(passed_ms):
                world.now_ms += passed_ms
                compact_and_check(world, max_keys)
    world.settle()
    compact_and_check(world, max_keys)
    return world


def compact_and_check(world: World, max_keys: int) -> None:
    world.flush()
    log = world.log
    active, stable, end = log.active, stable_end(log), log.end_offset
    before = {each.header.base_offset: bytes(each.view) for each in batches(log)}
    report = world.compact(max_keys=max_keys)
    check_view(world, log)
    check_structure(log)
    assert log.active is active
    assert log.end_offset == end
    if report is None:
        assert {each.header.base_offset: bytes(each.view) for each in batches(log)} == before
        return
    assert report.cleaned_until <= min(stable, active.base_offset)
    check_clean(world, log, report.cleaned_until)
    for batch in batches(log, report.cleaned_until):
        if batch.header.base_offset >= report.cleaned_until and not is_aborted(world, batch.header):
            assert (
                batch.header.record_count == 0
                or bytes(batch.view) == before[batch.header.base_offset]
            )


def is_aborted(world: World, header: Header) -> bool:
    written = world.truth.get(header.base_offset)
    return written is not None and written.is_aborted


@given(HISTORIES, MOST_KEYS)
@settings(max_examples=80, deadline=None)
def test_a_compacted_log_says_the_same_as_before(
    history: list[tuple[object, ...]], max_keys: int
) -> None:
    play(history, max_keys)


@given(HISTORIES)
@settings(max_examples=30, deadline=None)
def test_what_is_not_cleanable_stays_byte_for_byte(history: list[tuple[object, ...]]) -> None:
    world = play(history)
    world.put((b"a", b"1"), producer=1, transactional=True)
    world.put((b"a", b"2"))
    world.settle()
    first_open = stable_end(world.log)
    first = world.log.segment_of(first_open).base_offset
    before = content(world.log, first)
    world.compact()
    assert content(world.log, first) == before


# Segments of 280 and 773 bytes become one of at most 1,024 bytes only when both have shrunk.
GROUPED_LATE: list[tuple[object, ...]] = [
    *(("put", [(b"", None)], 0), ("commit", 1), ("commit", 1), ("put", [(b"", None)], 0)),
    *(("roll",), ("commit", 1), ("put", [(b"b", None)], 0), ("commit", 1)),
    *(("put", [(b"a", None)], 0), ("commit", 1), ("commit", 1), ("commit", 1)),
    *(("put", [(b"", None)], 0), ("commit", 1), ("commit", 1), ("roll",)),
    *(("compact", 0), ("compact", 999)),
]


@given(HISTORIES)
@example(GROUPED_LATE)
@settings(max_examples=30, deadline=None)
def test_compacting_again_changes_nothing_but_where_segments_end(
    history: list[tuple[object, ...]],
) -> None:
    world = play(history)
    before = content(world.log, 0)
    assert world.compact() is None
    world.marks.cleaned.values.clear()
    world.compact()
    check_view(world, world.log)
    once = {each.header.base_offset: each.header.record_count for each in batches(world.log)}
    world.marks.cleaned.values.clear()
    world.compact()
    again = {each.header.base_offset: each.header.record_count for each in batches(world.log)}
    # An empty batch that ended a segment goes when that segment becomes a part of another.
    assert again.items() <= once.items()
    assert not any(once[gone] for gone in once.keys() - again.keys())
    assert len(content(world.log, 0)) <= len(before)


@given(HISTORIES, st.integers(0, 1000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_producers_and_epochs_can_be_read_from_the_compacted_batches_alone(
    history: list[tuple[object, ...]], seed: int, alone: bool
) -> None:
    world = play(history)
    world.flush()
    disk = world.disk.crash(seed)
    if alone:
        for path in disk.files():
            if path.endswith((".snapshot", "leader-epoch-checkpoint")):
                disk.delete(path)
    log, _ = reopen(disk)
    assert producers(log) == producers(world.log)
    assert log.epochs.entries == world.log.epochs.entries
    assert stable_end(log) == stable_end(world.log)
    assert content(log, 0) == content(world.log, 0)
    check_view(world, log)
    check_structure(log)


@given(HISTORIES, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_a_compacted_log_can_be_truncated_anywhere(
    history: list[tuple[object, ...]], random: Random
) -> None:
    """Also where compaction has been, as after an unclean election: nothing stays open for ever."""
    world = play(history)
    undecided = {offset for offset, each in world.truth.items() if each.decided_at is None}
    jobs.run(cutting.truncate(world.log, random.randint(0, world.log.end_offset)))
    check_structure(world.log)
    end = world.log.end_offset
    for offset, each in world.truth.items():
        if each.decided_at is not None and each.decided_at >= end:
            undecided.add(offset)
    assert stable_end(world.log) >= min([end, *(each for each in undecided if each < end)])
