"""Transaction markers: control batches of one record that says how a transaction ended.

The key is a version and a type, the value a version and the epoch of the coordinator that decided.
Other types of control records exist (a quorum's leader changes and snapshots); they are nobody's
marker, and no error.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

import attrs

from protocol.errors import ErrorCode
from storage.batch.build import build
from storage.batch.header import HEADER_BYTES, Batch
from storage.batch.records import Record, decode
from storage.errors import InvalidBatch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class MarkerKind(enum.IntEnum):
    """How a transaction ended, by the numbers in the log."""

    ABORT = 0
    COMMIT = 1


_KINDS: Final = {each.value: each for each in MarkerKind}


@attrs.frozen
class Marker:
    """What a transaction marker says."""

    kind: MarkerKind
    coordinator_epoch: int


def marker(
    kind: MarkerKind,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytearray:
    """Build the batch that ends a producer's transaction in a partition."""
    key = _KEY.pack(_VERSION, kind)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return build(
        [Record(base_offset, timestamp_ms, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: Batch) -> Marker | None:
    """Return what a batch says about a transaction; `None` if it is no marker, or emptied."""
    if not batch.header.is_control:
        return None
    record = next(decode(batch), None)
    if record is None:
        return None
    if record.key is None or len(record.key) < _KEY.size:
        raise _invalid("a control record whose key has no version and type")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise _invalid(f"a control record of version {version}")
    if kind not in _KINDS:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise _invalid("a transaction marker without the epoch of its coordinator")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise _invalid(f"a transaction marker of version {version}")
    return Marker(_KINDS[kind], coordinator_epoch)


def _invalid(reason: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, reason, HEADER_BYTES)
