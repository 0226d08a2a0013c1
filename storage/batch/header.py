"""The 61 bytes in front of every batch: read, checked and completed without a copy.

    0  base offset       8  length            12  leader epoch      16  magic (2)
   17  crc              21  attributes        23  last offset delta
   27  first timestamp  35  max timestamp     43  producer id       51  producer epoch
   53  base sequence    57  record count      61  records, perhaps compressed

The length counts from byte 12. The CRC-32C covers everything from byte 21 on, so a broker gives a
batch its offset and epoch without touching the checksum. Nothing here looks at a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.errors import ErrorCode
from storage.disk.seam import Buffer
from storage.errors import InvalidBatch

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_FROM: Final = 12
"""Where the bytes begin that the length field counts."""
CRC_FROM: Final = 21
_SHORTEST: Final = HEADER_BYTES - LENGTH_FROM
MAGIC: Final = 2
NO_PRODUCER: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""The first timestamp is the time from which on compaction may drop tombstones and markers."""

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_OFFSET: Final = struct.Struct(">q")
_PLACE: Final = struct.Struct(">qii")
"""Base offset, length and leader epoch, which lie side by side."""
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")


_tuple: Final = tuple.__new__


class Header(NamedTuple):
    """A batch's header, field by field, in the order of its bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.length + LENGTH_FROM

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the batch has, or had before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The offset that follows."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap around after 2**31 - 1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """Kafka's number of the compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_BITS

    @property
    def is_transactional(self) -> bool:
        """Whether a marker will decide on it."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it is a marker, which no consumer sees."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones in it; `None` before the first cleaning."""
        return self.first_timestamp_ms if self.attributes & DELETE_HORIZON else None


class Batch(NamedTuple):
    """A header and the bytes of the whole batch, header included."""

    header: Header
    view: memoryview


def read_header(buffer: Buffer, position: int = 0) -> Header:
    """Return the header at `position`; the caller knows that 61 bytes are there."""
    # For every batch: a named tuple's own `_make` takes four times as long.
    return _tuple(Header, HEADER.unpack_from(buffer, position))


def structural_fault(header: Header) -> str | None:
    """Say why this cannot be a batch's header, or `None`. The CRC is not looked at."""
    if header.magic != MAGIC:
        return f"magic {header.magic}, where only record batches of version {MAGIC} are known"
    if header.length < _SHORTEST:
        return f"a length of {header.length} bytes is less than a header"
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.record_count < 0:
        return (
            f"base offset {header.base_offset}, last offset delta {header.last_offset_delta} and"
            f" {header.record_count} records do not make a batch"
        )
    return None


def checksum(view: memoryview) -> int:
    """Compute the CRC-32C of a whole batch."""
    return int(crc32c(view[CRC_FROM:]))


def split(payload: Buffer, max_batch_bytes: int | None = None) -> list[Batch]:
    """Check what a producer or a leader sent and return its batches, without copying.

    `InvalidBatch` says where it is wrong: structure, size, checksum. Whole batches only.
    """
    view = memoryview(payload)
    position, end = 0, len(view)
    found = []
    while position < end:
        if end - position < HEADER_BYTES:
            raise InvalidBatch(
                ErrorCode.CORRUPT_MESSAGE,
                f"{end - position} bytes are left, and a batch has at least {HEADER_BYTES}",
                position,
            )
        header = read_header(view, position)
        if header.magic != MAGIC or header.length < _SHORTEST or header.base_offset < 0:
            raise _unsound(header, position)
        if header.last_offset_delta < 0 or header.record_count < 0:
            raise _unsound(header, position)
        size = header.length + LENGTH_FROM
        if max_batch_bytes is not None and size > max_batch_bytes:
            raise InvalidBatch(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes, where {max_batch_bytes} are allowed",
                position,
            )
        if size > end - position:
            raise InvalidBatch(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch of {size} bytes, of which {end - position} are here",
                position,
            )
        if crc32c(view[position + CRC_FROM : position + size]) != header.crc:
            raise InvalidBatch(
                ErrorCode.CORRUPT_MESSAGE, "the checksum does not fit the bytes", position
            )
        found.append(_tuple(Batch, (header, view[position : position + size])))
        position += size
    return found


def _unsound(header: Header, position: int) -> InvalidBatch:
    old = header.magic in (0, 1)
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if old else ErrorCode.CORRUPT_MESSAGE
    return InvalidBatch(code, structural_fault(header) or "no batch", position)


def headers(view: Buffer, position: int = 0) -> Iterator[tuple[int, Header]]:
    """Yield position and header of each whole batch in bytes that are trusted to be batches."""
    end = len(view)
    while end - position >= HEADER_BYTES:
        header = read_header(view, position)
        if header.length < _SHORTEST or header.size_bytes > end - position:
            return
        yield position, header
        position += header.size_bytes


def assign(batch: Batch, base_offset: int, leader_epoch: int) -> Batch:
    """Write offset and epoch into a batch, in place; the checksum does not cover them."""
    header, view = batch
    _PLACE.pack_into(view, 0, base_offset, header.length, leader_epoch)
    placed = _tuple(Header, (base_offset, header.length, leader_epoch, *header[3:]))
    return _tuple(Batch, (placed, view))


def stamp(batch: Batch, now_ms: int) -> Batch:
    """Make a batch LogAppendTime with this time, in place, and renew its checksum."""
    attributes = batch.header.attributes | LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(batch.view, _ATTRIBUTES_AT, attributes)
    _OFFSET.pack_into(batch.view, _MAX_TIMESTAMP_AT, now_ms)
    crc = checksum(batch.view)
    _CRC.pack_into(batch.view, _CRC_AT, crc)
    header = batch.header._replace(attributes=attributes, max_timestamp_ms=now_ms, crc=crc)
    return Batch(header, batch.view)
