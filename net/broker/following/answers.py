"""What a leader's answer for one partition means to the replica that asked: an event for it.

Batches are checked here, down to their checksums, because they go into the log as they are. Their
bytes are not copied: the event is handled before the buffer is used again.
"""

from __future__ import annotations

import logging

from net.wire.fetch import FetchedPartition
from protocol.errors import ErrorCode
from protocol.replication import EpochEnd
from protocol.replication.effects import SendFetch
from protocol.replication.events import FetchAnswered, FetchRefused
from protocol.types import Epoch
from storage.batch import records
from storage.batch.build import rebuild
from storage.batch.header import Batch, read_header, split
from storage.errors import InvalidBatch

_log = logging.getLogger(__name__)


def event_for(
    asked: SendFetch, answer: FetchedPartition, name: str
) -> FetchAnswered | FetchRefused:
    """Turn an answer into what the replica wants to know; bad batches are like a refusal."""
    start_offset = max(answer.log_start_offset, 0)
    if answer.error_code:
        return FetchRefused(asked.leader_epoch, answer.error_code, start_offset)
    diverging = answer.diverging
    if diverging is not None:
        return FetchAnswered(
            asked.leader_epoch,
            asked.offset,
            asked.last_epoch,
            EpochEnd(max(diverging.epoch, 0), diverging.end_offset),
            answer.high_watermark,
            start_offset,
        )
    try:
        batches = following(_batches(answer), asked.offset)
    except InvalidBatch as error:
        _log.warning("%s: the leader %d sent a bad batch: %s", name, asked.leader, error)
        return FetchRefused(asked.leader_epoch, error.error, start_offset)
    return FetchAnswered(
        asked.leader_epoch,
        asked.offset,
        asked.last_epoch,
        None,
        answer.high_watermark,
        start_offset,
        runs(batches, asked.offset),
        batches,
        answer.records_bytes,
    )


def _batches(answer: FetchedPartition) -> list[Batch]:
    """Check what was sent; parsed records are one view, or none."""
    return split(answer.records[0]) if answer.records_bytes else []


def following(batches: list[Batch], offset: int) -> list[Batch]:
    """Check that these batches follow a log that ends at `offset`; cut one that begins before it.

    Compaction leaves gaps, so a batch may begin later. One that begins earlier is the first after a
    log start that lies amid a batch (DeleteRecords): a log that begins anew there cannot take it
    whole.
    """
    if batches and batches[0].header.base_offset < offset:
        batches[0] = starting_at(batches[0], offset)
    end_offset = offset
    for header, _ in batches:
        if header.base_offset < end_offset:
            raise InvalidBatch(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch at offset {header.base_offset}, where one at {end_offset} or later"
                " has to follow",
                0,
            )
        end_offset = header.end_offset
    return batches


def starting_at(batch: Batch, offset: int) -> Batch:
    """Build what remains of a batch from an offset within it."""
    header = batch.header
    if offset >= header.end_offset:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch that ends at offset {header.end_offset}, where {offset} was asked for",
            0,
        )
    left_out = offset - header.base_offset
    sequence = header.base_sequence
    rest = rebuild(
        header._replace(
            base_offset=offset,
            last_offset_delta=header.last_offset_delta - left_out,
            base_sequence=(sequence + left_out) & 0x7FFFFFFF if sequence >= 0 else sequence,
        ),
        [record for record in records.decode(batch) if record.offset >= offset],
    )
    return Batch(read_header(rest), memoryview(rest))


def runs(batches: list[Batch], offset: int) -> tuple[tuple[Epoch, int], ...]:
    """Count the offsets of each epoch in turn; a gap belongs to the batch after it."""
    found: list[tuple[Epoch, int]] = []
    for header, _ in batches:
        count = header.end_offset - offset
        if found and found[-1][0] == header.leader_epoch:
            count += found.pop()[1]
        found.append((header.leader_epoch, count))
        offset = header.end_offset
    return tuple(found)
