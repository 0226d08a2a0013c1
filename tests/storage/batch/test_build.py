"""Building: batches of compaction keep what followers, producers and consumers rely on."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from storage.batch.build import build, rebuild
from storage.batch.codecs import CODECS, GZIP, NONE
from storage.batch.header import CODEC_BITS, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME
from storage.batch.records import Record, decode
from tests.storage.batch.strategies import ANY_TIMES_MS, TIMES_MS, batches, only, plain, records

THREE = [Record(10, 500, b"a", b"1"), Record(12, 900, b"b", b"2"), Record(13, 700, b"c", b"3")]


@given(records(gaps=True, times_ms=ANY_TIMES_MS), st.sampled_from(CODECS))
@settings(max_examples=100, deadline=None)
def test_offset_range_count_and_times_follow_from_the_records(
    found: list[Record], codec: int
) -> None:
    header = only(build(found, codec=codec)).header
    assert header.last_offset == found[-1].offset
    assert header.record_count == len(found)
    assert header.first_timestamp_ms == found[0].timestamp_ms
    assert header.max_timestamp_ms == max(each.timestamp_ms for each in found)
    assert header.codec == codec


@given(batches(codecs=(NONE,)))
@settings(max_examples=100, deadline=None)
def test_an_unchanged_uncompressed_batch_is_rebuilt_byte_for_byte(payload: bytearray) -> None:
    batch = only(payload)
    if batch.header.attributes & LOG_APPEND_TIME:
        # Rebuilding forgets the create times below the append time, in Kafka too; once.
        payload = rebuild(batch.header, list(decode(batch)))
        batch = only(payload)
    assert rebuild(batch.header, list(decode(batch))) == payload


@given(batches(), st.data())
@settings(max_examples=100, deadline=None)
def test_rebuilding_keeps_what_is_kept_and_what_identifies_the_batch(
    payload: bytearray, data: st.DataObject
) -> None:
    batch = only(payload)
    found = [plain(each) for each in decode(batch)]
    keep = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    kept = [each for each, wanted in zip(found, keep, strict=True) if wanted]
    after = only(rebuild(batch.header, kept))
    assert [plain(each) for each in decode(after)] == kept
    for field in (
        *("base_offset", "last_offset", "last_sequence", "leader_epoch"),
        *("producer_id", "producer_epoch", "base_sequence", "is_transactional", "is_control"),
    ):
        assert getattr(after.header, field) == getattr(batch.header, field), field
    forgotten = 0 if kept else CODEC_BITS | DELETE_HORIZON
    assert after.header.attributes == batch.header.attributes & ~forgotten


def test_what_remains_gives_the_create_times() -> None:
    header = only(build(THREE, base_offset=10)).header
    after = only(rebuild(header, THREE[2:])).header
    assert after.first_timestamp_ms == after.max_timestamp_ms == 700
    assert (after.base_offset, after.last_offset) == (10, 13)


def test_an_append_time_stays() -> None:
    batch = only(build(THREE, base_offset=10, log_append_time_ms=8000))
    after = only(rebuild(batch.header, list(decode(batch))[:1])).header
    assert after.first_timestamp_ms == after.max_timestamp_ms == 8000


def test_an_emptied_batch_is_a_header_that_keeps_the_largest_time() -> None:
    header = only(build(THREE, base_offset=10, codec=GZIP, delete_horizon_ms=77)).header
    after = rebuild(header, [])
    assert len(after) == HEADER_BYTES
    empty = only(after).header
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (10, 13, 0)
    assert (empty.first_timestamp_ms, empty.max_timestamp_ms) == (-1, 900)
    assert empty.attributes == 0
    assert rebuild(empty, []) == after


@given(records(gaps=True), TIMES_MS)
@settings(max_examples=50, deadline=None)
def test_a_delete_horizon_is_set_once_and_kept(found: list[Record], horizon_ms: int) -> None:
    header = only(build(found)).header
    marked = only(rebuild(header, found, delete_horizon_ms=horizon_ms))
    assert marked.header.delete_horizon_ms == horizon_ms
    assert marked.header.max_timestamp_ms == header.max_timestamp_ms
    again = only(rebuild(marked.header, list(decode(marked))))
    assert bytes(again.view) == bytes(marked.view)
    assert [plain(each) for each in decode(again)] == found


def test_an_empty_batch_must_be_told_what_it_spans() -> None:
    with pytest.raises(ValueError, match="last offset delta"):
        build([])
    header = only(build([], base_offset=5, last_offset_delta=4, codec=GZIP)).header
    assert (header.last_offset, header.max_timestamp_ms, header.codec) == (9, -1, NONE)


@pytest.mark.parametrize(
    ("offsets", "last_offset_delta"), [([9], None), ([11, 11], None), ([12, 11], 5), ([13], 2)]
)
def test_offsets_that_do_not_fit_are_refused(
    offsets: list[int], last_offset_delta: int | None
) -> None:
    found = [Record(offset, 0, None, None) for offset in offsets]
    with pytest.raises(ValueError, match="offset"):
        build(found, base_offset=10, last_offset_delta=last_offset_delta)
