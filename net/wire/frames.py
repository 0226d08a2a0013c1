"""The four bytes in front of every message, which say how long it is."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sized
from typing import Final

from net.errors import MalformedRequest

LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = LENGTH.size


def read_length(buffer: bytes | bytearray | memoryview, at: int, max_bytes: int) -> int:
    """Read how long the message behind these four bytes is; it is never more than `max_bytes`.

    The four bytes must be there.
    """
    length: int = LENGTH.unpack_from(buffer, at)[0]
    if length < 0:
        raise MalformedRequest(f"a message of {length} bytes")
    if length > max_bytes:
        raise MalformedRequest(f"a message of {length} bytes, and at most {max_bytes} are allowed")
    return length


def length_of(parts: Iterable[Sized]) -> bytes:
    """Write the four bytes that go in front of these parts."""
    return LENGTH.pack(sum(map(len, parts)))
