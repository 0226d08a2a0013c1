"""Offset checkpoints and the marker of a clean stop, in Kafka's formats and when damaged."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from protocol.errors import InvariantViolation
from storage.checkpoint import (
    MAX_FILE_BYTES,
    MAX_INT32,
    MAX_INT64,
    TopicPartition,
    decode_clean_shutdown,
    decode_offsets,
    encode_clean_shutdown,
    encode_offsets,
)
from storage.errors import DamagedFile

FILE = "recovery-point-offset-checkpoint"
CONTENT = b"0\n3\n__consumer_offsets 49 9223372036854775807\na-b.c 0 0\na-b.c 12 345\n"
OFFSETS = {
    TopicPartition("a-b.c", 12): 345,
    TopicPartition("__consumer_offsets", 49): MAX_INT64,
    TopicPartition("a-b.c", 0): 0,
}

partitions = st.builds(
    TopicPartition,
    st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}", fullmatch=True),
    st.integers(0, MAX_INT32),
)


def test_offsets_are_written_as_kafka_writes_them() -> None:
    assert encode_offsets(OFFSETS) == CONTENT
    assert decode_offsets(CONTENT, FILE) == OFFSETS
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(b"0\n0\n", FILE) == {}


@given(st.dictionaries(partitions, st.integers(0, MAX_INT64), max_size=8))
def test_offsets_come_back(offsets: dict[TopicPartition, int]) -> None:
    assert decode_offsets(encode_offsets(offsets), FILE) == offsets


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", 1, "missing"),
        (b"0\n", 2, "missing"),
        (b"1\n0\n", 1, "version '1'"),
        (b"zero\n0\n", 1, "version 'zero'"),
        (b"0\nmany\n", 2, "'many' is no number"),
        (b"0\n-1\n", 2, "'-1' is no number"),
        (b"0\n2\na 0 1\n", 2, "2 rows announced, 1 found"),
        (b"0\n0\na 0 1\n", 2, "0 rows announced, 1 found"),
        (b"0\n1\na 0 1", 3, "the last line does not end"),
        (b"0\n1\na 0\n", 3, "has not 3 fields"),
        (b"0\n1\na 0 1 2\n", 3, "has not 3 fields"),
        (b"0\n1\na  0 1\n", 3, "has not 3 fields"),
        (b"0\n1\n\n", 3, "has not 3 fields"),
        (b"0\n2\na 0 1\na 0 2\n", 4, "a-0 is there twice"),
        (b"0\n1\na/b 0 1\n", 3, "'a/b' is no name"),
        (b"0\n1\n.. 0 1\n", 3, "'..' is no name"),
        (b"0\n1\n%s 0 1\n" % (b"a" * 250), 3, "is no name"),
        (b"0\n1\na x 1\n", 3, "'x' is no number"),
        (b"0\n1\na 2147483648 1\n", 3, "is no number from 0 to 2147483647"),
        (b"0\n1\na 0 -1\n", 3, "'-1' is no number"),
        (b"0\n1\na 0 +1\n", 3, "is no number"),
        (b"0\n1\na 0 1_0\n", 3, "is no number"),
        (b"0\n1\na 0 01\n", 3, "is no number"),
        (b"0\n1\na 0 1\r\n", 3, "is no number"),
        (b"0\n1\na 0 9223372036854775808\n", 3, "is no number"),
        (b"0\n1\na 0 %s\n" % (b"9" * 10_000), 3, "is no number"),
        (b"0\n1\na 0 \xff\n", 3, "no ASCII"),
        (b"0\n1\na 0 \x00\n", 3, "is no number"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said_with_its_line(
    content: bytes, line: int, reason: str
) -> None:
    with pytest.raises(DamagedFile, match=reason) as caught:
        decode_offsets(content, FILE)
    assert (caught.value.file, caught.value.line) == (FILE, line)


@given(st.integers(0, len(CONTENT) - 1))
def test_a_cut_checkpoint_is_damaged(length: int) -> None:
    with pytest.raises(DamagedFile):
        decode_offsets(CONTENT[:length], FILE)


@given(st.binary(max_size=60))
@example(b"0\n1\na 0 \xb2\n")
def test_arbitrary_bytes_are_offsets_or_damaged(content: bytes) -> None:
    try:
        offsets = decode_offsets(content, FILE)
    except DamagedFile:
        return
    assert sorted(encode_offsets(offsets).split()) == sorted(content.split())


@pytest.mark.parametrize("decode", [decode_offsets, decode_clean_shutdown])
def test_a_file_too_large_is_not_read(decode: Callable[[bytes, str], object]) -> None:
    with pytest.raises(DamagedFile, match="67108865 bytes"):
        decode(bytes(MAX_FILE_BYTES + 1), FILE)


@pytest.mark.parametrize(
    ("topic", "partition", "offset"),
    [("a b", 0, 0), ("a\n", 0, 0), ("", 0, 0), ("a", -1, 0), ("a", 0, -1), ("a", 0, 2**63)],
)
def test_what_could_not_be_read_again_is_not_written(
    topic: str, partition: int, offset: int
) -> None:
    with pytest.raises(InvariantViolation):
        encode_offsets({TopicPartition(topic, partition): offset})


def test_a_clean_stop_is_written_as_kafka_writes_it() -> None:
    assert encode_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":42}', FILE) == 42
    assert decode_clean_shutdown(b'{ "brokerEpoch": -1, "later": [], "version": 0 }', FILE) == -1


@given(st.integers(-1, MAX_INT64))
def test_a_broker_epoch_comes_back(epoch: int) -> None:
    assert decode_clean_shutdown(encode_clean_shutdown(epoch), FILE) == epoch


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b"9" * 100_000,
        b'{"version":0,"brokerEpoch":42',
        b'{"version":0}',
        b'{"brokerEpoch":42}',
        b'{"version":1,"brokerEpoch":42}',
        b'{"version":false,"brokerEpoch":42}',
        b'{"version":0,"brokerEpoch":null}',
        b'{"version":0,"brokerEpoch":true}',
        b'{"version":0,"brokerEpoch":"42"}',
        b'{"version":0,"brokerEpoch":4.2}',
        b'{"version":0,"brokerEpoch":NaN}',
        b'{"version":0,"brokerEpoch":-2}',
        b'{"version":0,"brokerEpoch":9223372036854775808}',
    ],
)
def test_a_damaged_marker_of_a_clean_stop_says_nothing(content: bytes) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode_clean_shutdown(content, FILE)
    assert caught.value.file == FILE
