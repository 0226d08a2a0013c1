"""The records inside a batch: read one by one when somebody asks, and written for a new batch.

A record is a length, an attributes byte that nobody uses, and then zig-zag varints and bytes:
timestamp delta, offset delta, key, value, headers. Keys and values are views into the decompressed
bytes. Every length is compared with the bytes that are there before anything is made of it. A
broker's hot path never comes here: see `header`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from storage.batch.codecs import NONE, decompress
from storage.batch.header import HEADER_BYTES, LOG_APPEND_TIME, Batch
from storage.disk.seam import Buffer
from storage.errors import InvalidBatch

MAX_RECORDS_BYTES: Final = 128 * 1024 * 1024
"""What the records of one batch may decompress to, unless the caller says something else."""
SMALLEST_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, no key, no value, no headers: a byte each."""

_INT32_BITS: Final = 32
_INT64_BITS: Final = 64

RecordHeader = tuple[Buffer, Buffer | None]


class Record(NamedTuple):
    """A record with its offset in the log; a value of `None` makes it a tombstone."""

    offset: int
    timestamp_ms: int
    key: Buffer | None
    value: Buffer | None
    headers: tuple[RecordHeader, ...] = ()


def decode(batch: Batch, max_bytes: int = MAX_RECORDS_BYTES) -> Iterator[Record]:
    """Yield the records of a batch whose header and checksum are known to be good.

    `InvalidBatch` comes as late as the place where something is wrong, so whoever must not act on
    half a batch reads all of it first. Its position counts from the batch's first byte, or, in a
    compressed one, from the first byte that was decompressed. As in Kafka, a negative length stands
    for `None`, and in a LogAppendTime batch all records have the batch's time. Offsets must rise,
    or compaction could not write the batch again.
    """
    header = batch.header
    body = batch.view[HEADER_BYTES:]
    if header.record_count == 0 and not body:
        return
    data = memoryview(decompress(header.codec, body, max_bytes)).toreadonly()
    place = HEADER_BYTES if header.codec == NONE else 0
    if header.record_count * SMALLEST_RECORD_BYTES > len(data):
        raise _invalid(f"{header.record_count} records in {len(data)} bytes", place)
    appended_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else None
    reader = _Reader(data, place)
    previous = -1
    for _ in range(header.record_count):
        start = reader.position
        offset_delta, timestamp_delta, key, value, headers = reader.record()
        if not previous < offset_delta <= header.last_offset_delta:
            raise _invalid(
                f"offset delta {offset_delta} after {previous} in a batch that ends at"
                f" {header.last_offset_delta}",
                place + start,
            )
        previous = offset_delta
        timestamp_ms = _wrap_64(header.first_timestamp_ms + timestamp_delta)
        yield Record(
            header.base_offset + offset_delta,
            timestamp_ms if appended_ms is None else appended_ms,
            key,
            value,
            headers,
        )
    if reader.position != len(data):
        raise _invalid(
            f"{len(data) - reader.position} bytes behind the last of {header.record_count} records",
            place + reader.position,
        )


def encode(records: Iterable[Record], base_offset: int, base_timestamp_ms: int) -> bytearray:
    """Write records one behind the other, relative to the batch that they will be in."""
    output = bytearray()
    body = bytearray()
    for record in records:
        body.clear()
        body.append(0)
        _write_varint(body, _wrap_64(record.timestamp_ms - base_timestamp_ms))
        _write_varint(body, record.offset - base_offset)
        _write_bytes(body, record.key)
        _write_bytes(body, record.value)
        _write_varint(body, len(record.headers))
        for name, value in record.headers:
            _write_bytes(body, name)
            _write_bytes(body, value)
        _write_varint(output, len(body))
        output += body
    return output


class _Reader:
    """A place in the records, and `limit`, the end of the record that is being read."""

    __slots__ = ("data", "limit", "place", "position")

    def __init__(self, data: memoryview, place: int) -> None:
        self.data = data
        self.place = place
        self.position = 0
        self.limit = len(data)

    def record(self) -> tuple[int, int, Buffer | None, Buffer | None, tuple[RecordHeader, ...]]:
        start = self.position
        self.limit = len(self.data)
        size = self.varint(_INT32_BITS)
        if not 0 < size <= len(self.data) - self.position:
            raise _invalid(f"a record of {size} bytes is not here", self.place + start)
        self.limit = self.position + size
        self.position += 1
        timestamp_delta = self.varint(_INT64_BITS)
        offset_delta = self.varint(_INT32_BITS)
        key = self.bytes()
        value = self.bytes()
        headers = self.headers()
        if self.position != self.limit:
            raise _invalid(
                f"a record is {self.limit - self.position} bytes longer than its fields",
                self.place + start,
            )
        return offset_delta, timestamp_delta, key, value, headers

    def headers(self) -> tuple[RecordHeader, ...]:
        count = self.varint(_INT32_BITS)
        # A header has two lengths, of a byte at least.
        if not 0 <= count * 2 <= self.limit - self.position:
            raise _invalid(f"{count} headers are not here", self.place + self.position)
        return tuple([self.header() for _ in range(count)]) if count else ()

    def header(self) -> RecordHeader:
        name = self.bytes()
        if name is None:
            raise _invalid("a header without a name", self.place + self.position)
        return name, self.bytes()

    def bytes(self) -> memoryview | None:
        size = self.varint(_INT32_BITS)
        if size < 0:
            return None
        end = self.position + size
        if end > self.limit:
            raise _invalid(
                f"{size} bytes are announced and {self.limit - self.position} are here",
                self.place + self.position,
            )
        found = self.data[self.position : end]
        self.position = end
        return found

    def varint(self, bits: int) -> int:
        position, number, shift = self.position, 0, 0
        limit, data = self.limit, self.data
        while position < limit and shift < bits:
            byte = data[position]
            position += 1
            if byte < 0x80:
                number |= byte << shift
                if number >> bits:
                    break
                self.position = position
                return (number >> 1) ^ -(number & 1)
            number |= (byte & 0x7F) << shift
            shift += 7
        raise _invalid(f"no number of {bits} bits", self.place + self.position)


def _write_bytes(output: bytearray, data: Buffer | None) -> None:
    if data is None:
        output.append(1)
    else:
        _write_varint(output, len(data))
        output += data


def _write_varint(output: bytearray, number: int) -> None:
    number = number << 1 if number >= 0 else ~(number << 1)
    while number >= 0x80:
        output.append(number & 0x7F | 0x80)
        number >>= 7
    output.append(number)


def _wrap_64(number: int) -> int:
    """Return what remains in 64 bits: times of hostile records overflow, as they do in Java."""
    if -(1 << 63) <= number < 1 << 63:
        return number
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _invalid(reason: str, position: int) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, reason, position)
