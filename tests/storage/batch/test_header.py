"""Headers: found, checked, and completed in place."""

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from protocol.errors import ErrorCode
from storage.batch.build import build
from storage.batch.header import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Header,
    assign,
    checksum,
    headers,
    read_header,
    split,
    stamp,
)
from storage.batch.records import Record, decode
from storage.errors import InvalidBatch
from tests.storage.batch.strategies import BASE_OFFSETS, TIMES_MS, batches, only, plain

SMALL = bytes(build([Record(7, 1000, b"key", b"value")], base_offset=7, leader_epoch=2))
NOT_COVERED = {*range(8), *range(12, 16)}
"""Base offset and leader epoch: whoever stores a batch writes them, so no checksum covers them."""


def error_of(payload: bytes, max_batch_bytes: int | None = None) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        split(payload, max_batch_bytes)
    return caught.value


@given(st.lists(batches(), max_size=4))
@settings(max_examples=100, deadline=None)
def test_every_batch_is_found_and_nothing_is_copied(several: list[bytearray]) -> None:
    payload = b"".join(several)
    found = split(payload)
    assert [bytes(batch.view) for batch in found] == several
    assert all(batch.view.obj is payload for batch in found)
    assert [header for _, header in headers(payload)] == [batch.header for batch in found]


@pytest.mark.parametrize("position", sorted(set(range(len(SMALL))) - NOT_COVERED))
def test_a_flipped_bit_is_seen(position: int) -> None:
    for bit in range(8):
        damaged = bytearray(SMALL)
        damaged[position] ^= 1 << bit
        error_of(bytes(damaged))


@pytest.mark.parametrize("position", sorted(NOT_COVERED))
def test_a_flipped_bit_of_offset_or_epoch_changes_nothing_else(position: int) -> None:
    for bit in range(8):
        damaged = bytearray(SMALL)
        damaged[position] ^= 1 << bit
        if damaged[0] & 0x80:
            assert "base offset" in error_of(bytes(damaged)).reason
            continue
        header = only(damaged).header
        assert header._replace(base_offset=7, leader_epoch=2) == only(SMALL).header


@given(batches(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_batch_cut_short_is_refused(batch: bytearray, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, len(batch) - 1))
    assert error_of(bytes(batch[:length])).error is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_batches_or_refused(payload: bytes) -> None:
    try:
        found = split(payload)
    except InvalidBatch:
        return
    assert b"".join(bytes(batch.view) for batch in found) == payload


def test_the_position_of_the_first_bad_batch_is_told() -> None:
    damaged = bytearray(SMALL + SMALL)
    damaged[-1] ^= 1
    assert error_of(bytes(damaged)).position == len(SMALL)
    assert error_of(SMALL + SMALL[:20]).position == len(SMALL)


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_named_as_such(magic: int) -> None:
    older = SMALL[:16] + bytes([magic]) + SMALL[17:]
    assert error_of(older).error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_a_batch_may_be_as_large_as_allowed_and_not_larger() -> None:
    assert len(split(SMALL, len(SMALL))) == 1
    assert error_of(SMALL, len(SMALL) - 1).error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, HEADER_BYTES - 13, 1 << 30])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    damaged = SMALL[:8] + struct.pack(">i", length) + SMALL[12:]
    assert error_of(damaged).error is ErrorCode.CORRUPT_MESSAGE


@given(batches(), BASE_OFFSETS, st.integers(0, 1 << 30))
@settings(max_examples=100, deadline=None)
def test_offset_and_epoch_change_their_own_twelve_bytes(
    payload: bytearray, base_offset: int, leader_epoch: int
) -> None:
    before = bytes(payload)
    batch = assign(only(payload), base_offset, leader_epoch)
    assert batch.header == read_header(payload) == only(payload).header
    assert batch.header.base_offset == base_offset
    assert batch.header.leader_epoch == leader_epoch
    assert payload[8:12] == before[8:12]
    assert payload[16:] == before[16:]


@given(batches(), TIMES_MS)
@settings(max_examples=100, deadline=None)
def test_a_stamped_batch_has_its_time_and_a_good_checksum(payload: bytearray, now_ms: int) -> None:
    before = only(payload).header
    batch = stamp(only(payload), now_ms)
    assert batch.header == only(payload).header
    assert batch.header == before._replace(
        attributes=before.attributes | LOG_APPEND_TIME,
        max_timestamp_ms=now_ms,
        crc=checksum(batch.view),
    )
    assert {each.timestamp_ms for each in decode(batch)} <= {now_ms}


def test_records_move_with_their_batch() -> None:
    batch = assign(only(bytearray(SMALL)), 100, 5)
    assert [plain(each) for each in decode(batch)] == [Record(100, 1000, b"key", b"value")]


def test_sequences_wrap_around() -> None:
    header = only(SMALL).header._replace(base_sequence=(1 << 31) - 2, last_offset_delta=3)
    assert header.last_sequence == 1
    assert header._replace(base_sequence=-1).last_sequence == -1


def test_headers_stop_at_what_is_not_whole() -> None:
    found = [position for position, _ in headers(SMALL + SMALL + SMALL[:-1])]
    assert found == [0, len(SMALL)]
    assert [type(header) for _, header in headers(SMALL)] == [Header]
