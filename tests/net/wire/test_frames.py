"""The length in front of a message is bounded and never negative."""

import pytest

from net.errors import MalformedRequest
from net.wire.frames import LENGTH_BYTES, length_of, read_length


def test_a_length_is_read_where_it_stands() -> None:
    assert read_length(b"xx\x00\x00\x01\x00", 2, 256) == 256


def test_a_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="257 bytes, and at most 256"):
        read_length(b"\x00\x00\x01\x01", 0, 256)


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="-1 bytes"):
        read_length(b"\xff\xff\xff\xff", 0, 256)


def test_the_length_of_parts_is_written() -> None:
    parts = [b"abc", memoryview(b"de"), bytearray(300)]
    assert read_length(length_of(parts), 0, 1000) == 305
    assert len(length_of(parts)) == LENGTH_BYTES
