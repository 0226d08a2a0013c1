"""What is remembered of one producer, and the `.snapshot` in which a log keeps all of them.

Kafka's format, version 1: version (int16), CRC-32C of what follows it (uint32), number of entries
(int32), and 46 bytes for each. Of a producer's recent batches only the last is kept, with the time
of a marker if that came after it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs
from crc32c import crc32c

from storage.batch.header import NO_TIMESTAMP
from storage.checkpoint import check_size
from storage.disk.seam import Buffer
from storage.errors import DamagedFile

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_ENTRIES_AT: Final = _HEAD.size + _COUNT.size


class RecentBatch(NamedTuple):
    """One of the last batches of a producer, in order to know it when it comes again."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


@attrs.define
class ProducerEntry:
    """One producer: who it is, its last batches, and its transaction if one is open."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = NO_EPOCH
    """That of the last marker."""
    timestamp_ms: int = NO_TIMESTAMP
    """The largest of its last batch or marker."""
    transaction_first_offset: int | None = None
    recent: tuple[RecentBatch, ...] = ()
    """Of the current epoch alone, the oldest first."""

    @property
    def last_sequence(self) -> int:
        """The last sequence of this epoch; -1 if it has written nothing yet."""
        return self.recent[-1].last_sequence if self.recent else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The last offset of this epoch, markers not counted; -1 if there is none."""
        return self.recent[-1].last_offset if self.recent else NO_OFFSET

    @property
    def offset_delta(self) -> int:
        """How far the last batch reaches from its first offset."""
        return self.recent[-1].last_offset - self.recent[-1].base_offset if self.recent else 0


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """Write a snapshot of these producers, in this order."""
    body = b"".join((_COUNT.pack(len(entries)), *map(_pack, entries)))
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def _pack(entry: ProducerEntry) -> bytes:
    first_offset = entry.transaction_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_offset,
        entry.offset_delta,
        entry.timestamp_ms,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
    )


def decode(
    content: Buffer, file: str
) -> tuple[list[ProducerEntry], list[tuple[ProducerEntry, int]]]:
    """Read a snapshot: who has no open transaction, and who has one, by its first offset.

    `DamagedFile` if it is none, or says what cannot be.
    """
    idle = []
    ongoing: dict[int, ProducerEntry] = {}
    for entry in _entries(content, file):
        first_offset = entry.transaction_first_offset
        if first_offset is None:
            idle.append(entry)
        elif first_offset in ongoing:
            raise DamagedFile(file, f"two transactions begin at offset {first_offset}")
        else:
            ongoing[first_offset] = entry
    return idle, [(ongoing[first_offset], first_offset) for first_offset in sorted(ongoing)]


def _entries(content: Buffer, file: str) -> list[ProducerEntry]:
    check_size(content, file)
    if len(content) < _ENTRIES_AT:
        raise DamagedFile(file, f"{len(content)} bytes are less than an empty snapshot has")
    version, crc = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise DamagedFile(file, f"version {version}, where only {_VERSION} is known")
    view = memoryview(content)
    if crc32c(view[_HEAD.size :]) != crc:
        raise DamagedFile(file, "the checksum does not fit the bytes")
    (count,) = _COUNT.unpack_from(content, _HEAD.size)
    if count * _ENTRY.size != len(content) - _ENTRIES_AT:
        raise DamagedFile(
            file, f"{count} entries announced, {len(content) - _ENTRIES_AT} bytes of them found"
        )
    seen: set[int] = set()
    entries = []
    for fields in _ENTRY.iter_unpack(view[_ENTRIES_AT:]):
        entry = _unpack(fields, file)
        if entry.producer_id in seen:
            raise DamagedFile(file, f"producer {entry.producer_id} is there twice")
        seen.add(entry.producer_id)
        entries.append(entry)
    return entries


def _unpack(fields: tuple[int, ...], file: str) -> ProducerEntry:
    producer_id, epoch, sequence, last_offset, delta, timestamp_ms, coordinator, first = fields
    if producer_id < 0:
        raise DamagedFile(file, f"{producer_id} is no producer id")
    recent: tuple[RecentBatch, ...] = ()
    if last_offset >= 0:
        if not 0 <= delta <= last_offset or sequence < NO_SEQUENCE:
            raise DamagedFile(
                file,
                f"producer {producer_id}: sequence {sequence} and offset delta {delta} do not make"
                f" a batch that ends at offset {last_offset}",
            )
        base_sequence = sequence if sequence < 0 else (sequence - delta) & 0x7FFFFFFF
        base_offset = last_offset - delta
        recent = (RecentBatch(base_sequence, sequence, base_offset, last_offset, timestamp_ms),)
    first_offset = first if first >= 0 else None
    return ProducerEntry(producer_id, epoch, coordinator, timestamp_ms, first_offset, recent)
