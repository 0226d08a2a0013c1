"""Producer snapshots in Kafka's format: back and forth, literally, and damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from crc32c import crc32c
from hypothesis import given

from storage.batch.control import MarkerKind
from storage.batch.header import Header
from storage.checkpoint import MAX_FILE_BYTES
from storage.errors import DamagedFile
from storage.log.producer_snapshot import RecentBatch
from storage.log.producers import Producers

HeaderOf = Callable[..., Header]
FILE = "00000000000000000101.snapshot"

# Its checksum was computed bit by bit, not with the library that the product uses.
CONTENT = bytes.fromhex(
    "0001 d01e177b 00000002"
    "0000000000000bb8 0002 00000009 0000000000000064 00000004 0000018bcfe56800 ffffffff"
    "0000000000000060"
    "0000000000001388 0000 ffffffff ffffffffffffffff 00000000 0000018bcfe56bb8 00000007"
    "ffffffffffffffff"
)
EMPTY = bytes.fromhex("0001 48674bc7 00000000")


def remembered(header_of: HeaderOf) -> Producers:
    """Return two producers: one with a transaction from offset 96, one that only had a marker."""
    producers = Producers()
    marker = header_of(95, producer=5_000, control=True, at_ms=1_700_000_000_952)
    producers.observe_marker(marker, MarkerKind.COMMIT, 7)
    producers.observe(
        header_of(
            *(96, 5),
            producer=3_000,
            epoch=2,
            sequence=5,
            transactional=True,
            at_ms=1_700_000_000_000,
        )
    )
    return producers


def sealed(count: int, *entries: tuple[int, ...], version: int = 1) -> bytes:
    """Return a snapshot of these entries whose checksum is right."""
    body = struct.pack(">i", count) + b"".join(struct.pack(">qhiqiqiq", *each) for each in entries)
    return struct.pack(">hI", version, crc32c(body)) + body


def test_a_snapshot_is_written_as_kafka_writes_it(header_of: HeaderOf) -> None:
    assert remembered(header_of).encode() == CONTENT
    assert Producers().encode() == EMPTY


def test_a_snapshot_is_read_as_kafka_reads_it(header_of: HeaderOf) -> None:
    producers = Producers.load(CONTENT, FILE)
    assert producers.entries == remembered(header_of).entries
    assert producers.entries[3_000].recent == (RecentBatch(5, 9, 96, 100, 1_700_000_000_000),)
    assert producers.first_unstable_offset == 96
    assert Producers.load(EMPTY, FILE).entries == {}


def test_a_base_sequence_is_found_across_the_wrap() -> None:
    producers = Producers.load(sealed(1, (1, 0, 0, 10, 2, 5, -1, -1)), FILE)
    assert producers.entries[1].recent == (RecentBatch(2**31 - 2, 0, 8, 10, 5),)
    producers = Producers.load(sealed(1, (1, 0, -1, 10, 2, 5, -1, -1)), FILE)
    assert producers.entries[1].recent == (RecentBatch(-1, -1, 8, 10, 5),)


stories = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from([None, None, MarkerKind.ABORT, MarkerKind.COMMIT]),
    ),
    max_size=30,
)


def told(producers: Producers, header_of: HeaderOf, story: list[tuple[object, ...]]) -> None:
    offset = 1_000 if producers.entries else 0
    for producer, count, transactional, kind in story:
        if isinstance(kind, MarkerKind):
            producers.observe_marker(header_of(offset, producer=producer, control=True), kind, 3)
            offset += 1
        else:
            producers.observe(
                header_of(
                    *(offset, count),
                    producer=producer,
                    sequence=offset,
                    transactional=transactional,
                    at_ms=offset,
                )
            )
            offset += int(str(count))


@given(stories, stories, st.integers(1, 6))
def test_who_was_loaded_goes_on_like_who_remembered(
    header_of: HeaderOf,
    before: list[tuple[object, ...]],
    after: list[tuple[object, ...]],
    max_producers: int,
) -> None:
    """All but older batches and their times comes back: transactions, and who is forgotten next."""
    kept = Producers(max_producers)
    told(kept, header_of, before)
    loaded = Producers.load(kept.encode(), FILE, max_producers)
    kept.on_high_watermark(1_000)
    loaded.on_high_watermark(1_000)
    assert loaded.encode() == kept.encode()
    for entry in kept.entries.values():
        entry.recent = tuple(
            batch._replace(timestamp_ms=entry.timestamp_ms) for batch in entry.recent[-1:]
        )
    assert loaded.entries == kept.entries
    if kept.entries:
        told(kept, header_of, after)
        told(loaded, header_of, after)
        assert loaded.entries == kept.entries
        assert loaded.first_unstable_offset == kept.first_unstable_offset
        assert loaded.encode() == kept.encode()


def test_a_snapshot_of_too_many_is_cut_to_the_bound() -> None:
    content = sealed(3, *((number, 0, 0, number, 0, 5, -1, -1) for number in (7, 8, 9)))
    assert list(Producers.load(content, FILE, max_producers=2).entries) == [8, 9]


@given(st.integers(0, len(CONTENT) - 1))
def test_a_cut_snapshot_is_damaged(length: int) -> None:
    with pytest.raises(DamagedFile):
        Producers.load(CONTENT[:length], FILE)


@given(st.integers(0, len(CONTENT) * 8 - 1))
def test_a_snapshot_with_a_flipped_bit_is_damaged(bit: int) -> None:
    content = bytearray(CONTENT)
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedFile):
        Producers.load(content, FILE)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "0 bytes are less"),
        (EMPTY[:-1], "9 bytes are less"),
        (sealed(0, version=0), "version 0"),
        (sealed(0, version=2), "version 2"),
        (sealed(1), "1 entries announced, 0 bytes"),
        (sealed(-1), "-1 entries announced"),
        (sealed(2**31 - 1), "2147483647 entries announced"),
        (sealed(0, (1, 0, 0, 0, 0, 0, 0, -1)), "0 entries announced, 46 bytes"),
        (EMPTY + b"\0", "checksum"),
        (sealed(1, (-1, 0, 0, 0, 0, 0, 0, -1)), "-1 is no producer id"),
        (sealed(1, (1, 0, 0, 5, -1, 0, 0, -1)), "producer 1: .*delta -1"),
        (sealed(1, (1, 0, 0, 5, 6, 0, 0, -1)), "producer 1: .*delta 6"),
        (sealed(1, (1, 0, -2, 5, 0, 0, 0, -1)), "producer 1: sequence -2"),
        (sealed(2, *[(1, 0, 0, 5, 0, 0, 0, -1)] * 2), "producer 1 is there twice"),
        (sealed(2, (1, 0, 0, 5, 0, 0, 0, 3), (2, 0, 0, 6, 0, 0, 0, 3)), "begin at offset 3"),
        (bytes(MAX_FILE_BYTES + 1), "67108865 bytes"),
    ],
)
def test_what_is_wrong_with_a_snapshot_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedFile, match=reason) as caught:
        Producers.load(content, FILE)
    assert caught.value.file == FILE


int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
fields = st.tuples(
    int64, st.integers(-(2**15), 2**15 - 1), int32, int64, int32, int64, int32, int64
)


@given(st.one_of(st.binary(max_size=200), st.lists(fields, max_size=3)))
def test_arbitrary_bytes_are_a_snapshot_or_damaged(given_: bytes | list[tuple[int, ...]]) -> None:
    content = given_ if isinstance(given_, bytes) else sealed(len(given_), *given_)
    try:
        producers = Producers.load(content, FILE)
    except DamagedFile:
        return
    assert Producers.load(producers.encode(), FILE).entries == producers.entries
