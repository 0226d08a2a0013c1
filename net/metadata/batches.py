"""Record batches of the metadata log and of its snapshots: build them, check them, read them.

A proposal is one batch, because a batch is what is written, sent and kept whole or not at all. The
first record of an epoch is Kafka's LeaderChangeMessage, in a control batch; a snapshot begins and
ends with Kafka's control records for that, so that one which was cut short is noticed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from net.metadata.codec import AnyRecord, BadRecord, decode_record, encode_record
from protocol.errors import ErrorCode
from protocol.quorum.effects import LeaderChange
from protocol.types import Epoch, NodeId, Offset
from storage.batch.build import build
from storage.batch.codecs import NONE, ZSTD
from storage.batch.header import HEADER_BYTES, Batch, read_header, split
from storage.batch.records import Record as StoredRecord
from storage.batch.records import decode
from storage.disk.seam import Buffer
from storage.errors import InvalidBatch

MAX_BATCH_BYTES: Final = 32 * 1024 * 1024
"""What one proposal may have in the log; more is refused."""
MAX_RECORDS_BYTES: Final = 256 * 1024 * 1024
"""What the records of one batch may decompress to."""
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4

_COMPRESS_FROM_BYTES: Final = 16 * 1024
_KEY: Final = struct.Struct(">hh")
_CHANGE: Final = struct.Struct(">hi")
_HEADER_VALUE: Final = struct.Struct(">hqb")
_FOOTER_VALUE: Final = struct.Struct(">hb")
_NO_TAGS: Final = b"\x00"


class ProposalTooLarge(Exception):  # noqa: N818 - it names the thing
    """So many records in one proposal that they do not fit into a batch."""


def record_batch(
    records: Sequence[AnyRecord], base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> Batch:
    """Make one batch of records."""
    values = [encode_record(each) for each in records]
    size_bytes = sum(map(len, values))
    stored = [
        StoredRecord(base_offset + number, timestamp_ms, None, value)
        for number, value in enumerate(values)
    ]
    codec = ZSTD if size_bytes >= _COMPRESS_FROM_BYTES else NONE
    batch = _batch(build(stored, base_offset=base_offset, leader_epoch=epoch, codec=codec))
    if size_bytes > MAX_RECORDS_BYTES // 2 or batch.header.size_bytes > MAX_BATCH_BYTES:
        raise ProposalTooLarge(f"{len(records)} records of {size_bytes} bytes")
    return batch


def leader_change_batch(
    change: LeaderChange, base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> Batch:
    """Make the first batch of an epoch: Kafka's LeaderChangeMessage, version 0."""
    value = _CHANGE.pack(0, change.leader) + _voters(change.voters) + _voters(change.votes)
    return _control(LEADER_CHANGE, value + _NO_TAGS, base_offset, epoch, timestamp_ms)


def _voters(nodes: Iterable[NodeId]) -> bytes:
    """Write a compact array of voters, each with no tagged fields."""
    entries = [struct.pack(">i", node) + _NO_TAGS for node in sorted(nodes)]
    length, output = len(entries) + 1, bytearray()
    while length >= 0x80:
        output.append(length & 0x7F | 0x80)
        length >>= 7
    output.append(length)
    return bytes(output) + b"".join(entries)


def snapshot_header_batch(epoch: Epoch, timestamp_ms: int) -> Batch:
    """Make the batch that a snapshot begins with: Kafka's SnapshotHeaderRecord, version 0."""
    value = _HEADER_VALUE.pack(0, timestamp_ms, 0)
    return _control(SNAPSHOT_HEADER, value, 0, epoch, timestamp_ms)


def snapshot_footer_batch(offset: Offset, epoch: Epoch, timestamp_ms: int) -> Batch:
    """Make the batch that a snapshot ends with: Kafka's SnapshotFooterRecord, version 0."""
    return _control(SNAPSHOT_FOOTER, _FOOTER_VALUE.pack(0, 0), offset, epoch, timestamp_ms)


def _control(kind: int, value: bytes, offset: Offset, epoch: Epoch, timestamp_ms: int) -> Batch:
    record = StoredRecord(offset, timestamp_ms, _KEY.pack(0, kind), value)
    return _batch(build([record], base_offset=offset, leader_epoch=epoch, control=True))


def _batch(content: bytearray) -> Batch:
    return Batch(read_header(content), memoryview(content))


def control_kind(batch: Batch) -> int | None:
    """Tell what a control batch is; `None` for one of records."""
    if not batch.header.is_control:
        return None
    record = next(decode(batch), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise _invalid("a control record whose key has no version and type")
    return int(_KEY.unpack_from(record.key)[1])


def checked(payload: Buffer, offset: Offset) -> list[Batch]:
    """Split what a leader sent; it goes on at `offset`, has no gaps, and is sound.

    `InvalidBatch` if not. An incomplete batch at the end is no error: an answer may be cut to size.
    """
    batches = split(_whole(memoryview(payload)), MAX_BATCH_BYTES)
    for batch in batches:
        header = batch.header
        if header.base_offset != offset:
            raise _invalid(f"a batch at offset {header.base_offset}, where {offset} was to come")
        if header.record_count != header.last_offset_delta + 1:
            raise _invalid(f"{header.record_count} records for {header.last_offset_delta + 1}")
        if header.leader_epoch < 1:
            raise _invalid(f"a batch of epoch {header.leader_epoch}")
        offset = header.end_offset
    return batches


def _whole(view: memoryview) -> memoryview:
    """Leave out the last batch if it is not all there."""
    position = 0
    while len(view) - position >= HEADER_BYTES:
        size = read_header(view, position).size_bytes
        if not HEADER_BYTES <= size <= len(view) - position:
            # Nonsense is for `split` to complain of; what is merely cut is left out.
            return view if size < HEADER_BYTES else view[:position]
        position += size
    return view[:position]


def epochs_of(batches: Iterable[Batch]) -> tuple[tuple[Epoch, int], ...]:
    """Count the records of each epoch, in order."""
    headers = (batch.header for batch in batches)
    return tuple(
        (epoch, sum(each.end_offset - each.base_offset for each in run))
        for epoch, run in groupby(headers, key=lambda header: header.leader_epoch)
    )


def read_records(batches: Iterable[Batch]) -> list[tuple[Offset, AnyRecord]]:
    """Read the metadata records of these batches, which are known to be sound."""
    found: list[tuple[Offset, AnyRecord]] = []
    for batch in batches:
        if batch.header.is_control:
            continue
        for stored in decode(batch, MAX_RECORDS_BYTES):
            if stored.value is None:
                raise BadRecord(f"offset {stored.offset}: a record without a value")
            try:
                found.append((stored.offset, decode_record(stored.value)))
            except BadRecord as error:
                raise BadRecord(f"offset {stored.offset}: {error}") from error
    return found


def _invalid(reason: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, reason)
