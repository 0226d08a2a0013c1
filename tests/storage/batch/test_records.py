"""Records: every field is read as Kafka reads it, and nothing is believed that is not there."""

import struct
import tracemalloc

import pytest
from hypothesis import given, settings

from protocol.errors import ErrorCode
from storage.batch.build import build
from storage.batch.codecs import GZIP, compress
from storage.batch.header import HEADER_BYTES, Batch
from storage.batch.records import Record, decode, encode
from storage.errors import InvalidBatch
from tests.storage.batch.strategies import ANY_TIMES_MS, only, plain, records, with_body

ONE = only(build([Record(0, 1000, b"k", b"v", ((b"h", b"x"),))]))
BODY = bytes(ONE.view[HEADER_BYTES:])
HUGE = b"\xfe\xff\xff\xff\x0f"
"""2**31 - 1 as a zig-zag varint."""


def error_of(batch: Batch) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        list(decode(batch))
    return caught.value


def test_a_record_has_the_bytes_of_the_format() -> None:
    assert BODY.hex(" ") == "18 00 00 00 02 6b 02 76 02 02 68 02 78"


@given(records(gaps=True, times_ms=ANY_TIMES_MS))
@settings(max_examples=150, deadline=None)
def test_what_is_encoded_is_decoded(found: list[Record]) -> None:
    assert [plain(each) for each in decode(only(build(found)))] == found


def test_bytes_are_views_into_the_batch() -> None:
    payload = bytearray(ONE.view)
    (record,) = decode(only(payload))
    assert isinstance(record.key, memoryview)
    assert isinstance(record.value, memoryview)
    assert record.key.obj is record.value.obj is payload
    assert record.key.readonly


def test_decoding_is_lazy() -> None:
    two = only(build([Record(0, 0, b"a", b"b"), Record(1, 0, b"a", b"b")]))
    damaged = with_body(two, bytes(two.view[HEADER_BYTES:-1]) + b"\x01")
    found = decode(damaged)
    assert next(found).offset == 0
    with pytest.raises(InvalidBatch):
        next(found)


@pytest.mark.parametrize("length", range(len(BODY)))
def test_a_body_cut_short_is_invalid(length: int) -> None:
    error = error_of(with_body(ONE, BODY[:length]))
    assert error.error is ErrorCode.INVALID_RECORD
    assert HEADER_BYTES <= error.position <= HEADER_BYTES + len(BODY)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x00" + BODY[1:], "a record of 0 bytes"),
        (b"\x01" + BODY[1:], "a record of -1 bytes"),
        (HUGE + BODY[1:], "a record of 2147483647 bytes"),
        (b"\x1a" + BODY[1:], "a record of 13 bytes"),
        (b"\x1a" + BODY[1:] + b"\x00", "1 bytes longer than its fields"),
        (b"\x16" + BODY[1:], "1 bytes are announced and 0 are here"),
        (b"\x20\x00\x00\x00" + HUGE + BODY[5:], "2147483647 bytes are announced"),
        (b"\x18\x00\x00\x00\x02k\x02v\x0e" + BODY[9:], "7 headers are not here"),
        (b"\x18\x00\x00\x00\x02k\x02v\x01" + BODY[9:], "-1 headers are not here"),
        (b"\x18\x00\x00\x00\x02k\x02v\x02\x01" + BODY[10:], "a header without a name"),
        (b"\x18\x00\x00\x02\x02" + BODY[5:], "offset delta 1 after -1"),
        (b"\x18\x00\x00\x01\x02" + BODY[5:], "offset delta -1 after -1"),
        (b"\x80\x80\x80\x80\x80\x00" + BODY[1:], "no number of 32 bits"),
        (b"\x80\x80\x80\x80\x10" + BODY[1:], "no number of 32 bits"),
        (b"\x2a\x00" + b"\xff" * 9 + b"\x02" + BODY[3:], "no number of 64 bits"),
        (BODY + b"\x00", "1 bytes behind the last of 1 records"),
    ],
)
def test_a_malformed_record_says_what_is_wrong(body: bytes, reason: str) -> None:
    error = error_of(with_body(ONE, body))
    assert reason in error.reason
    assert error.error is ErrorCode.INVALID_RECORD


def test_the_longest_numbers_are_read() -> None:
    times_ms = [(1 << 63) - 1, -(1 << 63), 0]
    found = [Record(offset, time_ms, None, b"") for offset, time_ms in enumerate(times_ms)]
    last = Record((1 << 31) - 1, 0, None, None)
    batch = only(build([*found, last]))
    assert [plain(each) for each in decode(batch)] == [*found, last]


def test_offsets_that_do_not_rise_are_invalid() -> None:
    body = bytes(encode([Record(1, 0, None, None), Record(1, 0, None, None)], 0, 0))
    error = error_of(with_body(ONE, body, record_count=2, last_offset_delta=1))
    assert "offset delta 1 after 1" in error.reason
    assert error.position == HEADER_BYTES + len(body) // 2


@pytest.mark.parametrize("count", [0, 2, 1 << 20, (1 << 31) - 1])
def test_a_count_that_is_not_there_is_invalid(count: int) -> None:
    tracemalloc.start()
    error = error_of(with_body(ONE, BODY, record_count=count, last_offset_delta=count))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.error is ErrorCode.INVALID_RECORD
    assert peak < 1 << 20


def test_a_count_that_cannot_be_is_seen_before_the_first_record() -> None:
    with pytest.raises(InvalidBatch, match="2 records in 13 bytes"):
        next(decode(with_body(ONE, BODY, record_count=2, last_offset_delta=1)))


def test_no_field_is_read_beyond_its_record() -> None:
    # Its header count is missing, and what follows would do.
    for following in (b"", b"\x00\x00\x00\x00"):
        error = error_of(with_body(ONE, b"\x0c\x00\x00\x00\x02k\x01" + following))
        assert error.reason == "no number of 32 bits"
        assert error.position == HEADER_BYTES + 7


def test_any_negative_length_means_none_as_in_kafka() -> None:
    (record,) = decode(with_body(ONE, b"\x0c\x00\x00\x00\x05\x07\x00"))
    assert record.key is None
    assert record.value is None


def test_positions_in_compressed_batches_count_decompressed_bytes() -> None:
    body = bytes(compress(GZIP, BODY + b"\x00"))
    error = error_of(with_body(ONE, body, attributes=GZIP))
    assert error.position == len(BODY)


def test_an_emptied_batch_has_no_records() -> None:
    assert list(decode(only(build([], last_offset_delta=9)))) == []


def test_a_delete_horizon_is_the_base_of_the_times() -> None:
    found = [Record(0, 1000, b"k", None), Record(1, 900, b"j", b"v")]
    batch = only(build(found, delete_horizon_ms=5000))
    assert batch.header.delete_horizon_ms == 5000
    assert batch.header.max_timestamp_ms == 1000
    assert struct.unpack_from(">q", batch.view, 27) == (5000,)
    assert [plain(each) for each in decode(batch)] == found
    # The first delta is 1000 - 5000 = -4000, which zig-zags to 7999.
    assert bytes(batch.view[HEADER_BYTES + 2 : HEADER_BYTES + 4]) == b"\xbf\x3e"


def test_times_wrap_around_as_in_java() -> None:
    earliest, latest = -(1 << 63), (1 << 63) - 1
    found = [Record(0, latest, None, None), Record(1, earliest, None, None)]
    batch = only(build(found))
    assert [each.timestamp_ms for each in decode(batch)] == [latest, earliest]
    # From the latest time to the earliest is one step, not 2**64 - 1 back.
    assert bytes(batch.view[-7:]) == b"\x0c\x00\x02\x02\x01\x01\x00"
