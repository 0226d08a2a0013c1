"""What a leader asks of a batch that a client produced, beyond what `header.split` has checked.

Batches from a leader are not checked here: a follower keeps what its leader kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.errors import ErrorCode
from storage.batch.codecs import CODECS
from storage.batch.header import DELETE_HORIZON, LENGTH_FROM, LOG_APPEND_TIME, Batch, Header
from storage.batch.records import MAX_RECORDS_BYTES, decode
from storage.errors import InvalidBatch


def check_produced(
    batches: Sequence[Batch],
    *,
    compacted: bool,
    max_batch_bytes: int,
    deep: bool = False,
    max_records_bytes: int = MAX_RECORDS_BYTES,
) -> Batch:
    """Return the one batch that a client may send to a partition, or say what is wrong with it.

    Kafka's leader decompresses every batch and looks at every record. This one does so only for a
    compacted topic, where each record needs a key, or when asked by `deep`: otherwise a client that
    lies about what is inside harms the readers of its own records, which check for themselves. When
    it looks, offset deltas that do not count up from 0 are refused, where Kafka would write the
    batch anew; and it refuses a delete horizon, which Kafka lets pass. The base offset may be
    anything: it is about to be replaced.
    """
    if len(batches) != 1:
        raise _invalid(f"{len(batches)} batches for one partition, where one is allowed")
    (batch,) = batches
    header = batch.header
    size_bytes = header.length + LENGTH_FROM
    if size_bytes > max_batch_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes, where {max_batch_bytes} are allowed",
        )
    # Most batches have no attributes and no producer, and need no closer look.
    if header.attributes:
        _check_kind(header)
    _check_count(header)
    if header.attributes or header.producer_id >= 0:
        _check_producer(header)
    if compacted or deep:
        _check_records(batch, compacted, max_records_bytes)
    return batch


def _check_kind(header: Header) -> None:
    if header.codec not in CODECS:
        raise InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {header.codec}"
        )
    if header.is_control:
        raise _invalid("a control batch, which only brokers write")
    if header.attributes & LOG_APPEND_TIME:
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "LogAppendTime, which only brokers may set")
    if header.attributes & DELETE_HORIZON:
        raise _invalid("a delete horizon, which only compaction may set")


def _check_count(header: Header) -> None:
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise _invalid(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )


def _check_producer(header: Header) -> None:
    if header.producer_id < 0:
        if header.is_transactional:
            raise _invalid("a transactional batch without a producer id")
    elif header.producer_epoch < 0 or header.base_sequence < 0:
        raise _invalid(
            f"producer {header.producer_id} with epoch {header.producer_epoch} and sequence"
            f" {header.base_sequence}"
        )


def _check_records(batch: Batch, compacted: bool, max_records_bytes: int) -> None:
    # As many offsets as the range has, rising and inside of it, which `decode` sees to: no gap.
    for record in decode(batch, max_records_bytes):
        if compacted and record.key is None:
            raise _invalid(
                f"the record at offset delta {record.offset - batch.header.base_offset} has no key,"
                " which a compacted topic needs"
            )


def _invalid(reason: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, reason)
