"""The index of aborted transactions: Kafka's bytes, damage, and what a fetch must skip."""

from __future__ import annotations

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given

from storage.checkpoint import MAX_FILE_BYTES, MAX_INT64
from storage.errors import DamagedFile
from storage.log.aborted import (
    ENTRY_BYTES,
    AbortedTransaction,
    count_below,
    decode,
    encode,
    overlapping,
)

FILE = "00000000000000000000.txnindex"
CONTENT = bytes.fromhex(
    "0000 0000000000000bb8 0000000000000005 000000000000000f 000000000000000d"
    "0000 0000000000001388 000000000000000d 0000000000000010 0000000000000011"
)
ENTRIES = [AbortedTransaction(3_000, 5, 15, 13), AbortedTransaction(5_000, 13, 16, 17)]
# The example of Kafka's own description of the index.
OVERLAPPING = [
    AbortedTransaction(0, 0, 10, 11),
    AbortedTransaction(1, 5, 15, 13),
    AbortedTransaction(2, 18, 35, 25),
    AbortedTransaction(3, 32, 50, 40),
]


def packed(*fields: int) -> bytes:
    return struct.pack(">hqqqq", *fields)


def test_aborted_transactions_are_written_as_kafka_writes_them() -> None:
    assert ENTRY_BYTES == 34
    assert encode(ENTRIES) == CONTENT
    assert decode(CONTENT, FILE) == ENTRIES
    assert encode([]) == b""
    assert decode(b"", FILE) == []
    assert encode(ENTRIES[:1]) + encode(ENTRIES[1:]) == CONTENT


@st.composite
def indexes(draw: st.DrawFn, largest: int = MAX_INT64 - 1) -> list[AbortedTransaction]:
    lasts = sorted(draw(st.lists(st.integers(1, largest), unique=True, max_size=8)))
    return [
        AbortedTransaction(
            draw(st.integers(0, MAX_INT64)),
            draw(st.integers(0, last - 1)),
            last,
            draw(st.integers(0, last + 1)),
        )
        for last in lasts
    ]


@given(indexes())
def test_aborted_transactions_come_back(entries: list[AbortedTransaction]) -> None:
    assert decode(encode(entries), FILE) == entries


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (CONTENT[:-1], "67 bytes are no multiple of 34"),
        (CONTENT + b"\0", "69 bytes are no multiple of 34"),
        (packed(1, 1, 5, 15, 13), "entry 0: version 1"),
        (packed(-1, 1, 5, 15, 13), "entry 0: version -1"),
        (packed(0, -1, 5, 15, 13), "entry 0"),
        (packed(0, 1, -1, 15, 13), "entry 0"),
        (packed(0, 1, 15, 15, 13), "entry 0"),
        (packed(0, 1, 5, 15, -1), "entry 0"),
        (packed(0, 1, 5, 15, 17), "entry 0"),
        (packed(0, 1, 5, 15, 13) * 2, "entry 1: .* cannot follow offset 15"),
        (packed(0, 1, 5, 15, 13) + packed(0, 2, 5, 14, 13), "entry 1"),
        (bytes(34 * 2), "entry 0"),
        (bytes(MAX_FILE_BYTES + 34), "67108898 bytes, where at most"),
    ],
)
def test_what_is_wrong_with_an_index_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedFile, match=reason) as caught:
        decode(content, FILE)
    assert caught.value.file == FILE


@given(st.binary(max_size=140) | st.binary(min_size=68, max_size=68))
def test_arbitrary_bytes_are_an_index_or_damaged(content: bytes) -> None:
    try:
        entries = decode(content, FILE)
    except DamagedFile:
        return
    assert encode(entries) == content


@pytest.mark.parametrize(("offset", "count"), [(15, 0), (16, 1), (17, 2), (99, 2)])
def test_a_cut_keeps_the_markers_before_it(offset: int, count: int) -> None:
    assert count_below(CONTENT, offset) == count


@given(indexes(largest=100), st.binary(max_size=70), st.integers(0, 120))
def test_a_torn_or_damaged_end_is_not_counted(
    entries: list[AbortedTransaction], end: bytes, offset: int
) -> None:
    content = encode(entries) + end
    count = count_below(content, offset)
    kept = decode(content[: count * ENTRY_BYTES], FILE)
    assert kept[: len(entries)] == [each for each in entries if each.last_offset < offset]
    assert all(each.last_offset < offset for each in kept)


@pytest.mark.parametrize(
    "bad",
    [
        packed(1, 1, 20, 25, 13),
        packed(0, -1, 20, 25, 13),
        packed(0, 1, 25, 25, 13),
        packed(0, 1, 20, 25, 27),
        packed(0, 1, 5, 16, 13),
        bytes(34),
    ],
)
def test_nothing_after_a_damaged_entry_is_counted(bad: bytes) -> None:
    assert count_below(CONTENT + bad + packed(0, 1, 30, 35, 36), 99) == 2


@pytest.mark.parametrize(
    ("fetch", "upper", "producers", "complete"),
    [
        (0, 100, [0, 1, 2, 3], False),
        (0, 32, [0, 1, 2], True),
        (0, 35, [0, 1, 2, 3], True),
        (10, 35, [0, 1, 2, 3], True),
        (11, 35, [1, 2, 3], True),
        (20, 41, [2, 3], False),
        (36, 40, [3], True),
        (16, 18, [], True),
        (51, 60, [], False),
        (5, 5, [], True),
    ],
)
def test_a_fetch_skips_the_transactions_that_overlap_with_it(
    fetch: int, upper: int, producers: list[int], complete: bool
) -> None:
    found = overlapping(OVERLAPPING, fetch, upper)
    assert [each.producer_id for each in found.transactions] == producers
    assert found.complete == complete


@given(st.data())
def test_a_complete_search_has_found_all_there_is(data: st.DataObject) -> None:
    """Entries as a log makes them: what is stable only grows, and later ones begin after it."""
    entries: list[AbortedTransaction] = []
    last = stable = 0
    for producer in range(data.draw(st.integers(0, 8))):
        first = data.draw(st.integers(stable, max(stable, last) + 3))
        last = max(first, last) + data.draw(st.integers(1, 3))
        stable = data.draw(st.integers(stable, last + 1))
        entries.append(AbortedTransaction(producer, first, last, stable))
    fetch = data.draw(st.integers(0, last + 2))
    upper = data.draw(st.integers(fetch, last + 4))
    found = overlapping(entries, fetch, upper)
    expected = [each for each in entries if each.last_offset >= fetch and each.first_offset < upper]
    assert found.transactions == (expected if fetch < upper else [])
    if fetch < upper:
        assert found.complete == any(each.last_stable_offset >= upper for each in entries)
