"""Read a segment's file as if nothing were known of it: every batch, every checksum, in order.

It stops at the first place that is not a batch and says why. Whether that is a torn tail or damage
is for whoever knows what was durable. Memory is one buffer, whatever a length field claims.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from crc32c import crc32c

from storage.batch.header import (
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_FROM,
    MAGIC,
    Header,
    read_header,
    structural_fault,
)
from storage.disk.seam import Disk

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""How far an offset may lie from its segment's base: an index has four bytes for it."""
_BUFFER_BYTES: Final = 1024 * 1024

Visit = Callable[[int, Header, memoryview], None]
"""Called with position, header and the bytes of a batch: all of them if they fit into the buffer,
else only its beginning. They are gone when it returns."""


class Fault(NamedTuple):
    """Where a file stops being batches, which offset was to come there, and why."""

    position: int
    offset: int
    reason: str


class _Leap(NamedTuple):
    """Offsets were left out before a batch, as compaction does. Or its offset, which no checksum
    covers, is wrong: then the next batch goes on where this one should have ended."""

    offset: int
    end_offset: int


def scan(
    disk: Disk,
    path: str,
    start: int,
    end: int,
    offset: int,
    epoch: int,
    visit: Visit,
    limit: int | None = None,
) -> Fault | None:
    """Visit every good batch from position `start` to `end`; return what ended that too early.

    The first batch begins at `offset` or later, none reaches beyond `limit`, where the next segment
    begins, and no epoch is smaller than the one before.
    """
    if limit is None:
        limit = offset + MAX_RELATIVE_OFFSET + 1
    buffer = memoryview(bytearray(min(_BUFFER_BYTES, max(end - start, 1))))
    origin = position = start
    filled = 0
    leap: _Leap | None = None
    while position < end:
        at = position - origin
        if at + HEADER_BYTES > filled:
            origin, at = position, 0
            filled = disk.read_into(path, buffer[: end - position], position)
            if filled < HEADER_BYTES:
                return Fault(position, offset, f"only {end - position} bytes, less than a header")
        header = read_header(buffer, at)
        size = header.length + LENGTH_FROM
        if header.magic != MAGIC or header.base_offset < offset or header.leader_epoch < epoch:
            if leap is not None and header.base_offset == leap.end_offset:
                offset = leap.offset
            return Fault(position, offset, _misplaced(header, offset, epoch))
        if size < HEADER_BYTES or size > end - position or header.last_offset_delta < 0:
            return Fault(position, offset, _misshapen(header, end - position))
        end_offset = header.base_offset + header.last_offset_delta + 1
        if end_offset > limit:
            return Fault(position, offset, f"a batch reaches beyond {limit}: to {end_offset}")
        if at + size > filled and size <= len(buffer):
            origin, at = position, 0
            filled = disk.read_into(path, buffer[: end - position], position)
        if at + size <= filled:
            sound = crc32c(buffer[at + CRC_FROM : at + size]) == header.crc
        else:
            sound = _long_checksum(disk, path, position, size) == header.crc
        if not sound:
            return Fault(position, offset, "the checksum does not fit the bytes")
        visit(position, header, buffer[at : min(at + size, filled)])
        if header.base_offset > offset:
            leap = _Leap(offset, offset + header.last_offset_delta + 1)
        offset = end_offset
        epoch = header.leader_epoch
        position += size
    return None


def _long_checksum(disk: Disk, path: str, position: int, size: int) -> int:
    """The checksum of a batch that is longer than the buffer, piece by piece."""
    piece = memoryview(bytearray(_BUFFER_BYTES))
    checksum, at = 0, CRC_FROM
    while at < size:
        got = disk.read_into(path, piece[: size - at], position + at)
        if not got:
            break
        checksum = crc32c(piece[:got], checksum)
        at += got
    return checksum


def _misplaced(header: Header, offset: int, epoch: int) -> str:
    if header.magic == MAGIC and header.base_offset < offset:
        return f"a batch at offset {header.base_offset}, where {offset} was to come"
    if header.magic == MAGIC and header.leader_epoch >= epoch:
        return f"a batch at offset {header.base_offset}, after one whose offset leaps from {offset}"
    if header.magic == MAGIC:
        return f"a batch of epoch {header.leader_epoch} after one of epoch {epoch}"
    return structural_fault(header) or "no batch"


def _misshapen(header: Header, left: int) -> str:
    fault = structural_fault(header)
    return fault or f"a batch of {header.size_bytes} bytes, of which {left} are here"
