"""Batches that are a function of their offset: whoever reads one can tell what it must be.

They need no model. After a crash, a kill or a full disk, a batch that is there is compared with the
one that its offset calls for.
"""

from __future__ import annotations

from storage.batch.build import build
from storage.batch.header import Batch, split
from storage.batch.records import Record
from storage.log.log import Log


def numbered(
    base_offset: int,
    *,
    leader_epoch: int = 1,
    records: int = 1,
    value_bytes: int = 40,
    timestamp_ms: int | None = None,
    keys: int | None = None,
) -> Batch:
    """Make the batch that belongs at an offset; its time is the offset unless it is given.

    With `keys` there are so many of them, in turn; otherwise each record has its own.
    """
    made = []
    for offset in range(base_offset, base_offset + records):
        key = b"key %d" % (offset if keys is None else offset % keys)
        value = (b"%d." % offset * value_bytes)[:value_bytes]
        made.append(Record(offset, offset if timestamp_ms is None else timestamp_ms, key, value))
    (batch,) = split(build(made, base_offset=base_offset, leader_epoch=leader_epoch))
    return batch


def batches_of(log: Log, offset: int | None = None) -> list[Batch]:
    """Read a log to its end as a consumer does, from its start or from an offset on."""
    position = log.start_offset if offset is None else offset
    found: list[Batch] = []
    while (part := log.read(position, log.end_offset, 1 << 20)) is not None:
        found += split(log.disk.read(part.path, part.position, part.length))
        position = found[-1].header.end_offset
    return found


def base_offsets(log: Log) -> list[int]:
    """Where the batches of a log begin."""
    return [batch.header.base_offset for batch in batches_of(log)]
