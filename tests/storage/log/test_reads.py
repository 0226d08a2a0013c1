"""What a log finds: by offset, by time, within limits."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch.control import MarkerKind
from storage.batch.header import split
from storage.disk import jobs
from storage.log import cutting
from storage.testing.bench import SMALL, Bench


def offsets(bench: Bench, offset: int, end_offset: int, max_bytes: int) -> list[int]:
    found = bench.log.read(offset, end_offset, max_bytes)
    if found is None:
        return []
    content = bench.disk.read(found.path, found.position, found.length)
    assert len(content) == found.length
    return [batch.header.base_offset for batch in split(content)]


@pytest.fixture
def pairs(bench: Bench) -> Bench:
    """Batches of two records each, 0 to 39, in several segments."""
    bench.append(20, records=2)
    return bench


def test_a_read_begins_with_the_batch_that_has_the_offset(pairs: Bench) -> None:
    size = pairs.batch(2).header.size_bytes
    assert offsets(pairs, 3, 40, 2 * size) == [2, 4]
    assert offsets(pairs, 2, 40, 2 * size) == [2, 4]


def test_a_read_gives_whole_batches_within_max_bytes_and_at_least_one(pairs: Bench) -> None:
    size = pairs.batch(2).header.size_bytes
    assert offsets(pairs, 0, 40, 3 * size) == [0, 2, 4]
    assert offsets(pairs, 0, 40, 3 * size - 1) == [0, 2]
    assert offsets(pairs, 0, 40, 1) == [0]


def test_a_read_stays_in_one_segment(pairs: Bench) -> None:
    second = pairs.log.segments[1].base_offset
    assert offsets(pairs, 0, 40, 1 << 20) == list(range(0, second, 2))
    assert offsets(pairs, second, 40, 1 << 20)[0] == second


def test_a_read_gives_no_batch_that_reaches_beyond_its_end(pairs: Bench) -> None:
    assert offsets(pairs, 0, 4, 1 << 20) == [0, 2]
    assert offsets(pairs, 0, 5, 1 << 20) == [0, 2]
    assert pairs.log.read(0, 1, 1 << 20) is None


def test_a_read_at_the_end_finds_nothing(pairs: Bench) -> None:
    assert pairs.log.read(40, 40, 100) is None
    assert pairs.log.read(40, 100, 100) is None


def test_the_bytes_of_a_range_are_counted_over_segments(pairs: Bench) -> None:
    assert pairs.log.bytes_between(0, 40) == pairs.log.size_bytes
    assert pairs.log.bytes_between(3, 6) == 2 * pairs.batch(2).header.size_bytes
    assert pairs.log.bytes_between(40, 50) == 0


def test_headers_come_from_the_batch_with_the_first_offset_to_the_last(pairs: Bench) -> None:
    found = [header.base_offset for _, _, header in pairs.log.headers(13, 23)]
    assert found == [12, 14, 16, 18, 20, 22]


def test_a_record_is_found_by_its_time_though_times_go_back(bench: Bench) -> None:
    for time_ms in (100, 300, 200, 400):
        bench.log.append([bench.batch(at_ms=(time_ms,), epoch=time_ms)])
    assert bench.log.find_time(0, 4) == (0, 100, 100)
    assert bench.log.find_time(150, 4) == (1, 300, 300)
    assert bench.log.find_time(301, 4) == (3, 400, 400)
    assert bench.log.find_time(401, 4) is None
    assert bench.log.newest_time(4) == (3, 400, 400)


def test_a_record_at_or_after_the_end_is_not_found_by_its_time(bench: Bench) -> None:
    bench.append(4)
    assert bench.log.find_time(1002, 2) is None
    assert bench.log.find_time(1001, 2) == (1, 1001, 1)


def test_a_record_inside_a_batch_is_found_by_its_time(bench: Bench) -> None:
    bench.log.append([bench.batch(at_ms=(100, 300, 200))])
    assert bench.log.find_time(101, 3) == (1, 300, 1)


def test_all_records_of_a_batch_have_its_log_append_time(bench: Bench) -> None:
    bench.log.append([bench.batch(at_ms=(100, 900), append_time_ms=500)])
    assert bench.log.find_time(400, 2) == (0, 500, 1)
    assert bench.log.find_time(501, 2) is None


def test_what_is_below_the_start_is_not_found_and_hides_nothing(bench: Bench) -> None:
    for time_ms in (900, 100, 200, 300):
        bench.log.append([bench.batch(at_ms=(time_ms,))])
    jobs.run(cutting.advance_start(bench.log, 2))
    assert bench.log.find_time(150, 4) == (2, 200, 1)
    assert bench.log.find_time(400, 4) is None


def test_a_start_within_a_batch_hides_the_records_before_it(bench: Bench) -> None:
    bench.log.append([bench.batch(at_ms=(100, 300, 200))])
    jobs.run(cutting.advance_start(bench.log, 2))
    assert bench.log.find_time(150, 3) == (2, 200, 1)


batches = st.lists(
    st.tuples(st.lists(st.integers(0, 500), min_size=1, max_size=4), st.integers(0, 200)),
    max_size=25,
)


@given(batches, st.sampled_from([0, 100, 300]), st.booleans(), st.integers(0, 501))
def test_a_look_up_by_time_agrees_with_a_naive_search(
    drawn: list[tuple[list[int], int]], interval: int, restart: bool, asked: int
) -> None:
    bench = Bench(attrs.evolve(SMALL, index_interval_bytes=interval))
    for times, value_bytes in drawn:
        bench.log.append([bench.batch(at_ms=tuple(times), value_bytes=value_bytes)])
    if restart:
        bench.stop()
        bench.start(clean=True)
    records = enumerate(time_ms for times, _ in drawn for time_ms in times)
    expected = next((pair for pair in records if pair[1] >= asked), None)
    found = bench.log.find_time(asked, bench.log.end_offset)
    assert (found and found[:2]) == expected


def test_aborted_transactions_are_those_that_a_reader_has_to_skip(bench: Bench) -> None:
    bench.log.append([bench.batch(producer_id=1, transactional=True)])
    bench.log.append([bench.batch(producer_id=2, transactional=True)])
    bench.log.append([bench.marker(MarkerKind.ABORT, 1)])
    bench.log.roll()
    bench.append(2)
    bench.log.append([bench.marker(MarkerKind.COMMIT, 2)])
    for _ in range(2):
        (found,) = bench.log.aborted_between(0, 6)
        assert found == (1, 0, 2, 1)
        assert bench.log.aborted_between(1, 2) == [found]
        assert bench.log.aborted_between(3, 6) == []
        bench.start()
