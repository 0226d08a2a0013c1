"""Sparse indexes: Kafka's bytes, and look-ups that agree with a naive search."""

import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch.control import MarkerKind
from storage.disk.simulated import PLENTY_BYTES, SimulatedDisk
from storage.errors import DamagedLog
from storage.log.config import LogConfig
from storage.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexCache, SparseIndex
from storage.testing.bench import Bench


def test_the_files_have_kafkas_bytes() -> None:
    bench = Bench(LogConfig(index_interval_bytes=100), start_offset=1000)
    for time_ms in (5000, 4000, 7000, 6000):
        bench.log.append([bench.batch(2, at_ms=(time_ms, time_ms))])
    size = bench.log.active.size_bytes // 4
    bench.stop()
    files = bench.disk.files()
    index = files["data/t-0/00000000000000001000.index"]
    times = files["data/t-0/00000000000000001000.timeindex"]
    # An entry for every batch but the first: relative last offset, position.
    assert index == struct.pack(">iiiiii", 3, size, 5, 2 * size, 7, 3 * size)
    # The largest time so far and its relative offset; 7000 stays the largest.
    assert times == struct.pack(">qiqi", 5000, 1, 7000, 5)


def test_an_entry_comes_when_more_than_the_interval_was_written() -> None:
    size = Bench().batch().header.size_bytes
    exactly = Bench(LogConfig(index_interval_bytes=2 * size))
    exactly.append(10)
    assert exactly.log.active.offsets.entries() == [(3, 3 * size), (6, 6 * size), (9, 9 * size)]


def test_a_time_index_ends_with_the_largest_time_when_the_segment_is_full() -> None:
    bench = Bench()
    bench.append(2)
    bench.log.roll()
    assert bench.log.segments[0].times.entries() == [(1001, 1)]
    assert bench.log.segments[0].offsets.entries() == []


entries = st.lists(st.integers(0, 300), max_size=150).map(sorted)


@given(entries, st.integers(0, 150), st.integers(-2, 305), st.integers(0, 2000))
def test_a_look_up_agrees_with_a_naive_search(
    values: list[int], saved: int, asked: int, cache_bytes: int
) -> None:
    disk = SimulatedDisk(1)
    disk.create("index")
    index = SparseIndex(disk, IndexCache(cache_bytes), "index", OFFSET_ENTRY)
    pairs = [(value, 10 * number) for number, value in enumerate(values)]
    for number, pair in enumerate(pairs):
        if number == saved:
            index.save()
        index.append(*pair)
    upto = bisect_right(values, asked)
    assert index.floor(asked) == (pairs[upto - 1] if upto else None)
    below = sum(value < asked for value in values)
    assert index.below(asked) == (pairs[below - 1] if below else None)
    assert index.last == (pairs[-1] if pairs else None)
    assert index.entries() == pairs


@given(entries, st.integers(0, 150), st.integers(-2, 305))
def test_a_cut_leaves_exactly_the_entries_before_it(
    values: list[int], saved: int, cut: int
) -> None:
    disk = SimulatedDisk(1)
    disk.create("index")
    cache = IndexCache()
    index = SparseIndex(disk, cache, "index", TIME_ENTRY)
    for number, value in enumerate(values):
        if number == saved:
            index.save()
        index.append(value, value)
    index.floor(0)
    index.keep_below(cut, 1)
    left = [(value, value) for value in values if value < cut]
    assert index.entries() == left
    index.append(400, 400)
    index.save()
    assert disk.files()["index"] == b"".join(TIME_ENTRY.pack(*e) for e in [*left, (400, 400)])
    again = SparseIndex(disk, cache, "index", TIME_ENTRY)
    again.adopt(disk.size("index"))
    assert again.floor(1000) == (400, 400)


def test_a_look_up_after_a_cut_does_not_find_what_was_cut() -> None:
    disk = SimulatedDisk(1)
    disk.create("index")
    index = SparseIndex(disk, IndexCache(), "index", OFFSET_ENTRY)
    for value in (1, 2, 3):
        index.append(value, 10 * value)
    index.save()
    assert index.floor(4) == (3, 30)
    index.keep_below(2, 0)
    index.append(5, 20)
    index.save()
    assert index.floor(4) == (1, 10)
    assert index.floor(5) == (5, 20)


def test_a_last_entry_that_is_not_whole_is_left_out() -> None:
    disk = SimulatedDisk(1)
    disk.create("index")
    disk.write("index", (OFFSET_ENTRY.pack(1, 2) + b"\0\0\0",), 0)
    index = SparseIndex(disk, IndexCache(), "index", OFFSET_ENTRY)
    index.adopt(disk.size("index"))
    assert index.entries() == [(1, 2)]
    index.append(3, 4)
    index.save()
    assert disk.files()["index"] == OFFSET_ENTRY.pack(1, 2) + OFFSET_ENTRY.pack(3, 4)


def test_the_cache_keeps_at_most_so_many_bytes() -> None:
    disk = SimulatedDisk(1)
    cache = IndexCache(max_bytes=100)
    for number in range(10):
        path = f"index{number}"
        disk.create(path)
        disk.write(path, (OFFSET_ENTRY.pack(number, number) * 5,), 0)
        first, second = cache.get(disk, path, 40, OFFSET_ENTRY)
        assert list(first) == list(second) == [number] * 5
        assert cache.size_bytes <= 100
    for number in range(10):
        cache.forget(f"index{number}")
    assert cache.size_bytes == 0


def test_the_cache_keeps_to_its_bytes_when_indexes_grow_that_are_in_it() -> None:
    disk = SimulatedDisk(1)
    cache = IndexCache(max_bytes=100)
    indexes = [SparseIndex(disk, cache, f"index{number}", OFFSET_ENTRY) for number in range(4)]
    for index in indexes:
        disk.create(index.path)
    for value in range(6):
        for index in indexes:
            index.append(value, 10 * value)
            index.save()
            assert cache.size_bytes <= 100
            assert index.floor(value) == (value, 10 * value)
            assert cache.size_bytes <= 100


def test_entries_that_have_no_room_leave_nothing_in_the_file() -> None:
    """Else a cut, which knows of no such entries, would leave them there."""
    disk = SimulatedDisk(1, capacity_bytes=20)
    disk.create("index")
    index = SparseIndex(disk, IndexCache(), "index", OFFSET_ENTRY)
    index.append(1, 100)
    index.save()
    index.append(2, 200)
    index.append(3, 300)
    with pytest.raises(OSError, match="No space"):
        index.save()
    assert disk.files()["index"] == OFFSET_ENTRY.pack(1, 100)
    index.keep_below(3, 0)
    index.save()
    assert disk.files()["index"] == OFFSET_ENTRY.pack(1, 100) + OFFSET_ENTRY.pack(2, 200)


def test_aborted_transactions_that_have_no_room_are_written_once_there_is() -> None:
    bench = Bench()
    bench.log.append([bench.batch(producer_id=1, transactional=True)])
    bench.log.append([bench.marker(MarkerKind.ABORT, 1)])
    expected = bench.log.aborted_between(0, 2)
    bench.disk.capacity_bytes = sum(map(len, bench.disk.files().values())) + 20
    assert not bench.log.save_indexes()
    bench.disk.capacity_bytes = PLENTY_BYTES
    assert bench.log.save_indexes()
    assert bench.log.aborted_between(0, 2) == expected
    assert len(expected) == 1


@pytest.mark.parametrize("wrong", [-7, 1 << 30, 3], ids=["negative", "beyond", "between batches"])
def test_an_entry_that_points_to_no_batch_is_told_with_the_index_and_the_offset(
    wrong: int,
) -> None:
    """A clean start believes its indexes; what rots in the middle of one is met by a look-up."""
    bench = Bench(LogConfig(index_interval_bytes=100))
    bench.append(8)
    bench.stop()
    path = "data/t-0/00000000000000000000.index"
    entries = list(OFFSET_ENTRY.iter_unpack(bench.disk.files()[path]))
    (offset, _), last = entries[1], entries[-1]
    rotten = b"".join(
        OFFSET_ENTRY.pack(*(entry if entry[0] != offset else (offset, wrong))) for entry in entries
    )
    bench.disk.write(path, (rotten,), 0)
    bench.start(clean=True)
    with pytest.raises(DamagedLog) as damage:
        bench.log.read(offset, bench.log.end_offset, 1000)
    assert (damage.value.file, damage.value.offset) == (path, offset)
    found = bench.log.read(last[0], bench.log.end_offset, 1000)
    assert found is not None
    assert found.position == last[1]
