"""New batches, whole and with their checksum: for compaction, markers, tools and tests.

A producer's batch is never built again: it is kept as it came. Records bring their own offsets, so
that compaction may leave gaps, and an empty batch still says which offsets and sequences it had.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from storage.batch.codecs import NONE, compress
from storage.batch.header import (
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Header,
    checksum,
)
from storage.batch.records import Record, encode

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
_CRC: Final = struct.Struct(">I")


def build(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    codec: int = NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytearray:
    """Build a batch of records in the order of their offsets.

    `log_append_time_ms` makes it LogAppendTime. The last offset delta and the largest timestamp
    are those of the records unless they are given; an empty batch needs the former. With a delete
    horizon, timestamps are stored relative to it instead of to the first record's (KIP-534).
    `ValueError` if offsets do not rise or do not fit.
    """
    last_offset_delta = _check_offsets(records, base_offset, last_offset_delta)
    attributes = (
        (codec if records else NONE)
        | (LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    first_timestamp_ms = records[0].timestamp_ms if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        first_timestamp_ms = delete_horizon_ms
    if log_append_time_ms is not None:
        max_timestamp_ms = log_append_time_ms
    elif max_timestamp_ms is None:
        max_timestamp_ms = max((each.timestamp_ms for each in records), default=NO_TIMESTAMP)
    body = compress(codec, encode(records, base_offset, first_timestamp_ms)) if records else b""
    output = bytearray(HEADER_BYTES)
    output += body
    HEADER.pack_into(
        output,
        0,
        base_offset,
        len(output) - LENGTH_FROM,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        first_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    _CRC.pack_into(output, CRC_FROM - _CRC.size, checksum(memoryview(output)))
    return output


def rebuild(
    header: Header, records: Sequence[Record], delete_horizon_ms: int | None = None
) -> bytearray:
    """Build what compaction leaves of a batch: these of its records, as Kafka's cleaner writes it.

    Offsets, epoch, producer and kind stay, and a delete horizon that is there stays too. The times
    follow from the records that remain, or stay if they are LogAppendTime. An empty batch keeps the
    largest timestamp, and has neither codec nor delete horizon.
    """
    if delete_horizon_ms is None:
        delete_horizon_ms = header.delete_horizon_ms
    is_log_append_time = bool(header.attributes & LOG_APPEND_TIME)
    return build(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time_ms=header.max_timestamp_ms if is_log_append_time else None,
        last_offset_delta=header.last_offset_delta,
        delete_horizon_ms=delete_horizon_ms if records else None,
        max_timestamp_ms=None if records else header.max_timestamp_ms,
    )


def _check_offsets(
    records: Sequence[Record], base_offset: int, last_offset_delta: int | None
) -> int:
    """Return the last offset delta; `ValueError` if these records cannot be in such a batch."""
    if last_offset_delta is None:
        if not records:
            raise ValueError("an empty batch must be told its last offset delta")
        last_offset_delta = records[-1].offset - base_offset
    previous = base_offset - 1
    for record in records:
        if record.offset <= previous:
            raise ValueError(f"offset {record.offset} comes after {previous}")
        previous = record.offset
    if previous > base_offset + last_offset_delta:
        raise ValueError(f"offset {previous} is behind the last offset delta {last_offset_delta}")
    return last_offset_delta
