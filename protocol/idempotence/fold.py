"""What a log says of its producers: the one fold, batch by batch.

A leader folds what it appends, recovery folds what it reads, and storage folds for its snapshots;
all three come here, so that they cannot differ. Of a producer its last batches are remembered, of
its latest epoch alone. Nothing here judges: a batch that is in the log counts, whatever it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from immutables import Map

from protocol.types import Offset

REMEMBERED: Final = 5
"""A client has at most this many batches in flight, so no older one comes again."""
MAX_SEQUENCE: Final = 2**31 - 1
"""After the largest sequence comes 0."""
NO_SEQUENCE: Final = -1
NO_EPOCH: Final = -1
NO_PRODUCER: Final = -1

ProducerId: TypeAlias = int
ProducerEpoch: TypeAlias = int
"""An incarnation of a producer, larger after every bump; nothing to do with a leader's epoch."""
Sequence: TypeAlias = int

Recent = TypeVar("Recent", bytes, tuple[Any, ...])
"""Batches in a row, packed or not, the oldest first; one batch is such a row too."""


class Batch(NamedTuple):
    """A batch as it is remembered: its sequences, and where it begins in the log."""

    first_sequence: Sequence
    last_sequence: Sequence
    base_offset: Offset


class LogBatch(NamedTuple):
    """A batch of a producer as it stands in a log."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    first_sequence: Sequence
    last_sequence: Sequence
    base_offset: Offset
    timestamp_ms: int = 0


class LogMarker(NamedTuple):
    """The end of a transaction as it stands in a log; it may raise the producer's epoch."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    base_offset: Offset
    timestamp_ms: int = 0


class Entry(NamedTuple):
    """What is remembered of one producer; `packed` are its batches, 16 bytes each.

    A tuple, as one is made for every batch: a frozen attrs value takes twice as long.
    """

    epoch: ProducerEpoch
    packed: bytes = b""
    timestamp_ms: int = 0

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The last batches of this epoch, the oldest first."""
        return tuple(map(Batch._make, _BATCH.iter_unpack(self.packed)))

    @property
    def last_sequence(self) -> Sequence:
        """The last sequence of this epoch; -1 if nothing of it was written yet."""
        packed = self.packed
        return _LAST.unpack_from(packed, len(packed) - _LAST.size)[0] if packed else NO_SEQUENCE

    def find(self, first_sequence: Sequence, last_sequence: Sequence) -> Offset | None:
        """Tell where the remembered batch with exactly these sequences begins."""
        for first, last, base_offset in _BATCH.iter_unpack(self.packed):
            if first == first_sequence and last == last_sequence:
                return int(base_offset)
        return None


Entries: TypeAlias = Map[ProducerId, Entry]
NOBODY: Final[Entries] = Map()
Written: TypeAlias = Iterable["LogBatch | LogMarker"]
"""What a part of a log says of producers, in its order."""
Remember: TypeAlias = Callable[[ProducerEpoch, bytes, ProducerEpoch, bytes, int], bytes]

_BATCH: Final = struct.Struct("<iiq")
_LAST: Final = struct.Struct("<4xi8x")


class Snapshot(NamedTuple):
    """What was remembered when the log ended at `offset`.

    Kafka's file has only the last batch of each producer (`thin`), and that is enough: an older one
    that comes again is known by its sequence, though not by its offset.
    """

    offset: Offset
    entries: Entries


NO_SNAPSHOT: Final = Snapshot(0, NOBODY)


def remember(
    known: ProducerEpoch, batches: Recent, epoch: ProducerEpoch, batch: Recent, limit: int
) -> Recent:
    """KAFKA-5494. Keep as many of the last batches as a client may have in flight.

    Of the last epoch alone: `batches` are of the epoch `known`, `batch` of `epoch`.
    """
    earlier = in_epoch(known, batches, epoch) + batch
    return earlier[-limit * len(batch) :]


def in_epoch(known: ProducerEpoch, batches: Recent, epoch: ProducerEpoch) -> Recent:
    """Give what is still remembered when something of `epoch` comes: another one begins anew."""
    return batches if epoch == known else batches[:0]


def packed(first_sequence: Sequence, last_sequence: Sequence, base_offset: Offset) -> bytes:
    """Make one batch small: 16 bytes, where a tuple of numbers takes ten times that."""
    return _BATCH.pack(first_sequence, last_sequence, base_offset)


def thin(entries: Entries) -> Entries:
    """Give what a snapshot keeps of its producers: of each the last batch."""
    kept = entries.mutate()
    for producer_id, entry in entries.items():
        kept[producer_id] = entry._replace(packed=entry.packed[-_BATCH.size :])
    return kept.finish()


def with_marker(entry: Entry | None, epoch: ProducerEpoch, timestamp_ms: int) -> Entry:
    """Give what is remembered of a producer once this marker of it is in the log."""
    known = b"" if entry is None else in_epoch(entry.epoch, entry.packed, epoch)
    return Entry(epoch, known, timestamp_ms)


def replay(
    snapshot: Snapshot, written: Written, keep: Remember = remember, limit: int = REMEMBERED
) -> Entries:
    """Give what is remembered after a log, of which the snapshot stands for the beginning."""
    known = snapshot.entries.mutate()
    for each in written:
        if each.producer_id == NO_PRODUCER or each.base_offset < snapshot.offset:
            continue
        entry = known.get(each.producer_id)
        if isinstance(each, LogMarker):
            entry = with_marker(entry, each.epoch, each.timestamp_ms)
        else:
            batch = packed(each.first_sequence, each.last_sequence, each.base_offset)
            was, batches = (NO_EPOCH, b"") if entry is None else (entry.epoch, entry.packed)
            batches = keep(was, batches, each.epoch, batch, limit)
            entry = Entry(each.epoch, batches, each.timestamp_ms)
        known[each.producer_id] = entry
    return known.finish()


def fold(written: Written) -> Entries:
    """Give what is remembered after a whole log."""
    return replay(NO_SNAPSHOT, written)
