"""The small pieces all messages are made of, for the codecs that are written by hand.

A reader takes a view and a position and returns a value and the next position. It may run over the
end and raise `IndexError` or `struct.error`: callers turn these into `MalformedRequest` with
`malformed`. What would go wrong silently (a slice over the end, a negative length) is checked here.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn, TypeAlias

from net.errors import MalformedRequest

Buffer: TypeAlias = bytes | bytearray | memoryview

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
_MOST_UVARINT: Final = 0xFFFF_FFFF
_ONE_BYTE: Final = tuple(bytes([value]) for value in range(0x80))

MOST_DECODED_BYTES: Final = 4 << 20
"""How large a request may be of which every element becomes an object: a hundred times that, for
the smallest elements. A Fetch of 100,000 partitions fits; records are not decoded."""

OUT_OF_BYTES: Final = (IndexError, struct.error)
"""What reading over the end raises."""


def malformed(what: str) -> NoReturn:
    """Give up on a message."""
    raise MalformedRequest(what)


def refuse_if_large(size_bytes: int) -> None:
    """Give up on a request whose elements could take too much memory."""
    if size_bytes > MOST_DECODED_BYTES:
        malformed(f"{size_bytes} bytes, and at most {MOST_DECODED_BYTES} are taken apart")


def read_uvarint(view: Buffer, at: int) -> tuple[int, int]:
    """Read an unsigned number of up to 32 bits, seven of them per byte, the low ones first."""
    byte = view[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        at += 1
        byte = view[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MOST_UVARINT:
                break
            return value, at + 1
    malformed("a number of more than 32 bits")


def write_uvarint(value: int) -> bytes:
    """Write an unsigned number of up to 32 bits; `ValueError` if it does not fit."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value <= _MOST_UVARINT:
        raise ValueError(f"{value} does not fit 32 bits")
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def read_length(view: Buffer, at: int, flexible: bool, width: struct.Struct) -> tuple[int, int]:
    """Read the length of a string, of bytes or of an array; -1 stands for null.

    `width` is that of the old format: 16 bits for strings, 32 for everything else.
    """
    if flexible:
        length = view[at]
        if length < 0x80:
            return length - 1, at + 1
        length, at = read_uvarint(view, at)
        return length - 1, at
    length = width.unpack_from(view, at)[0]
    if length < -1:
        malformed(f"a length of {length}")
    return length, at + width.size


def read_nullable_string(view: Buffer, at: int, flexible: bool) -> tuple[str | None, int]:
    """Read a string, or null."""
    if flexible and view[at] == 0:
        return None, at + 1
    length, at = read_length(view, at, flexible, INT16)
    if length < 0:
        return None, at
    return read_text(view, at, at + length), at + length


def read_string(view: Buffer, at: int, flexible: bool) -> tuple[str, int]:
    """Read a string that must not be null."""
    length, at = read_length(view, at, flexible, INT16)
    if length < 0:
        malformed("null where a string must be")
    return read_text(view, at, at + length), at + length


def read_text(view: Buffer, at: int, end: int) -> str:
    """Read the characters of a string."""
    if end > len(view):
        malformed(f"a string of {end - at} bytes, with {len(view) - at} left")
    try:
        return str(view[at:end], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"a string that is not UTF-8: {error.reason}") from None


def write_nullable_string(value: str | None, flexible: bool) -> bytes:
    """Write a string, or null; `ValueError` if it is too long for its length field."""
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    data = value.encode()
    if flexible:
        return write_uvarint(len(data) + 1) + data
    if len(data) > 0x7FFF:
        raise ValueError(f"a string of {len(data)} bytes is too long")
    return INT16.pack(len(data)) + data


def read_count(view: Buffer, at: int, flexible: bool, smallest_bytes: int) -> tuple[int, int]:
    """Read the length of an array that must not be null; so many elements can really be there.

    `smallest_bytes` is what the shortest possible element takes.
    """
    count, at = read_length(view, at, flexible, INT32)
    if count < 0:
        malformed("null where an array must be")
    if count * smallest_bytes > len(view) - at:
        malformed(f"an array of {count} elements in {len(view) - at} bytes")
    return count, at


def write_count(count: int, flexible: bool) -> bytes:
    """Write the length of an array."""
    return write_uvarint(count + 1) if flexible else INT32.pack(count)


def skip_tags(view: Buffer, at: int) -> int:
    """Step over tagged fields that nobody here knows; return the position behind them."""
    if view[at] == 0:
        return at + 1
    count, at = read_uvarint(view, at)
    while count:
        tag, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        at += size
        if at > len(view):
            malformed(f"tagged field {tag} is longer than the message")
        count -= 1
    return at


def read_tags(view: Buffer, at: int) -> tuple[list[tuple[int, int, int]], int]:
    """Find the tagged fields; return tag, begin and end of each, and the position behind them."""
    if view[at] == 0:
        return [], at + 1
    count, at = read_uvarint(view, at)
    tags = []
    while count:
        tag, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        if at + size > len(view):
            malformed(f"tagged field {tag} is longer than the message")
        tags.append((tag, at, at + size))
        at += size
        count -= 1
    return tags, at


def write_tag(tag: int, value: bytes) -> bytes:
    """Write one tagged field."""
    return write_uvarint(tag) + write_uvarint(len(value)) + value
