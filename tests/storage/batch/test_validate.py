"""What a leader takes from a producer, and what it answers to the rest."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from protocol.errors import ErrorCode
from storage.batch.build import build
from storage.batch.codecs import CODECS, GZIP
from storage.batch.header import Batch
from storage.batch.records import Record, encode
from storage.batch.validate import check_produced
from storage.errors import InvalidBatch
from tests.storage.batch.strategies import only, records, with_body

KEYED = [Record(0, 10, b"a", b"1"), Record(1, 11, b"b", None)]
KEYLESS = [Record(0, 10, b"a", b"1"), Record(1, 11, None, b"2")]
GOOD = only(build(KEYED, producer_id=5, producer_epoch=1, base_sequence=0, transactional=True))


def error_of(*batches: Batch, **options: Any) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        check_produced(batches, **{"compacted": False, "max_batch_bytes": 1 << 20} | options)
    return caught.value.error


def changed(**fields: int) -> Batch:
    return Batch(GOOD.header._replace(**fields), GOOD.view)


@given(records(), st.sampled_from(CODECS), st.booleans())
@settings(max_examples=100, deadline=None)
def test_what_a_client_builds_is_taken(found: list[Record], codec: int, compacted: bool) -> None:
    if compacted:
        found = [each._replace(key=each.key or b"") for each in found]
    batch = only(build(found, codec=codec))
    assert check_produced([batch], compacted=compacted, max_batch_bytes=1 << 20, deep=True) is batch


def test_exactly_one_batch_is_taken() -> None:
    assert error_of() is ErrorCode.INVALID_RECORD
    assert error_of(GOOD, GOOD) is ErrorCode.INVALID_RECORD


def test_a_batch_may_be_as_large_as_allowed_and_not_larger() -> None:
    size = len(GOOD.view)
    assert check_produced([GOOD], compacted=True, max_batch_bytes=size) is GOOD
    assert error_of(GOOD, max_batch_bytes=size - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x30}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x40}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x08}, ErrorCode.INVALID_TIMESTAMP),
        ({"attributes": 0x05}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 3}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 0}, ErrorCode.INVALID_RECORD),
        ({"producer_epoch": -1}, ErrorCode.INVALID_RECORD),
        ({"base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": -1}, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_header_that_no_client_may_send_is_refused(
    fields: dict[str, int], error: ErrorCode
) -> None:
    assert error_of(changed(**fields)) is error


def test_a_batch_without_producer_needs_neither_epoch_nor_sequence() -> None:
    batch = only(build(KEYED))
    assert check_produced([batch], compacted=False, max_batch_bytes=1000) is batch


def test_the_base_offset_may_be_anything() -> None:
    batch = only(build([each._replace(offset=each.offset + 77) for each in KEYED], base_offset=77))
    assert check_produced([batch], compacted=True, max_batch_bytes=1000) is batch


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_needs_keys(codec: int) -> None:
    batch = only(build(KEYLESS, codec=codec))
    assert error_of(batch, compacted=True) is ErrorCode.INVALID_RECORD
    assert check_produced([batch], compacted=False, max_batch_bytes=1000, deep=True) is batch


@pytest.mark.parametrize("deltas", [(0, 2), (1, 2), (0, 0), (1, 0)])
def test_offsets_inside_must_count_up_when_looked_at(deltas: tuple[int, int]) -> None:
    body = encode([Record(delta, 10, b"k", b"v") for delta in deltas], 0, 10)
    assert error_of(with_body(GOOD, bytes(body)), deep=True) is ErrorCode.INVALID_RECORD


def test_only_who_looks_inside_sees_garbage_there() -> None:
    garbage = with_body(GOOD, b"\x00" * 40)
    assert check_produced([garbage], compacted=False, max_batch_bytes=1000) is garbage
    assert error_of(garbage, deep=True) is ErrorCode.INVALID_RECORD
    assert error_of(garbage, compacted=True) is ErrorCode.INVALID_RECORD
    broken = with_body(GOOD, b"\x00" * 40, attributes=GZIP)
    assert error_of(broken, deep=True) is ErrorCode.CORRUPT_MESSAGE


def test_what_is_inside_may_be_as_large_as_allowed() -> None:
    batch = only(build([Record(0, 0, b"k", bytes(10_000))], codec=GZIP))
    assert error_of(batch, compacted=True, max_records_bytes=9_999) is ErrorCode.MESSAGE_TOO_LARGE
