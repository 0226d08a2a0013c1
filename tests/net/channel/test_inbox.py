"""Frames are cut in place, and memory follows what came, not what a length says."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from net.channel.inbox import SMALL_BYTES, Inbox
from net.errors import MalformedRequest


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _feed(inbox: Inbox, data: bytes) -> None:
    room = inbox.room()
    room[: len(data)] = data
    inbox.came(len(data))


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 300) | st.integers(0, 3 * SMALL_BYTES), max_size=6),
    st.lists(st.integers(1, SMALL_BYTES), max_size=20).map(lambda cuts: [*cuts, SMALL_BYTES]),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    sizes: list[int], cuts: list[int]
) -> None:
    bodies = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    stream = b"".join(map(_frame, bodies))
    inbox = Inbox(1 << 20)
    found: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        size = min(cuts[turn % len(cuts)], len(inbox.room()), len(stream) - at)
        _feed(inbox, stream[at : at + size])
        found += [bytes(frame) for frame in inbox.frames()]
        at, turn = at + size, turn + 1
    assert found == bodies


def test_a_length_alone_makes_no_memory() -> None:
    inbox = Inbox(1 << 30)
    _feed(inbox, struct.pack(">i", 1 << 30))
    assert list(inbox.frames()) == []
    inbox.room()
    assert inbox.capacity_bytes == SMALL_BYTES


def test_a_large_buffer_is_given_back_when_small_frames_follow() -> None:
    inbox = Inbox(1 << 30)
    large = _frame(bytes(10 * SMALL_BYTES))
    at = 0
    while at < len(large):
        size = min(len(inbox.room()), len(large) - at)
        _feed(inbox, large[at : at + size])
        at += size
        for frame in inbox.frames():
            assert len(frame) == 10 * SMALL_BYTES
    assert inbox.capacity_bytes > 10 * SMALL_BYTES
    for _ in range(200):
        _feed(inbox, _frame(b"small"))
        assert [bytes(frame) for frame in inbox.frames()] == [b"small"]
    assert inbox.capacity_bytes == SMALL_BYTES


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1, -(2**31)])
def test_a_length_that_is_not_allowed_is_refused(length: int) -> None:
    inbox = Inbox(100)
    _feed(inbox, struct.pack(">i", length))
    with pytest.raises(MalformedRequest):
        list(inbox.frames())
