"""What compaction leaves of each batch: rules on batches in memory, with neither files nor jobs.

A cleaning looks at the log twice. `survey` learns the last record of each key and the last marker
of each producer; `clean` then goes through the log from its beginning. Records go away if a later
one has their key, if their transaction was aborted, or if they have no key, which makes them
invalid in a compacted topic. A tombstone goes away when its batch's delete horizon has passed,
which the first cleaning sets (KIP-534), and so does the marker of a transaction without batches.

A batch without records goes away, with exceptions. Like Kafka, the last batch of a live producer
stays, empty, for its sequence. Beyond Kafka, the last marker of a live producer stays, for what it
says of its epoch and coordinator; and where an epoch begins, or the cleaned segment must end, an
empty batch of no producer stays, so that both can be read from the batches alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import attrgetter

import attrs

from storage.batch.build import build, rebuild
from storage.batch.control import read_marker
from storage.batch.header import Batch, Header, read_header
from storage.batch.records import Record, decode
from storage.disk.seam import Buffer
from storage.errors import InvalidBatch
from storage.log.aborted import AbortedTransaction
from storage.log.offset_map import OffsetMap


class AbortedBatches:
    """Which batches of a part of the log belong to aborted transactions."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for each in transactions:
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def __contains__(self, header: Header) -> bool:
        if not header.is_transactional or header.producer_id not in self._by_producer:
            return False
        # Transactions of one producer follow each other, so only the next to end can be meant.
        transactions = self._by_producer[header.producer_id]
        index = bisect_right(transactions, header.base_offset, key=attrgetter("last_offset"))
        return index < len(transactions) and transactions[index].first_offset <= header.base_offset


@attrs.define
class Cleaner:
    """One cleaning of one log, batch by batch in the order of the log."""

    now_ms: int
    delete_horizon_ms: int
    """From when on tombstones and markers may go away that are cleaned for the first time now."""
    first_dirty_offset: int
    last_batches: Mapping[int, int]
    """The offset with which the last batch of each live producer ends."""
    epoch_starts: frozenset[int]
    offsets: OffsetMap
    is_full: bool = False
    records_removed: int = 0
    _last_markers: dict[int, int] = attrs.Factory(dict)
    _undecided: set[int] = attrs.Factory(set)
    """Producers with transactional batches among those kept since their last marker."""

    def survey(self, batches: Iterable[Batch], aborted: AbortedBatches) -> None:
        """Note keys and markers, until there is no room for another key (`is_full`)."""
        for batch in batches:
            header = batch.header
            if self.is_full:
                return
            if header.is_control:
                if header.producer_id in self.last_batches:
                    self._last_markers[header.producer_id] = header.base_offset
            elif header.end_offset > self.first_dirty_offset and header not in aborted:
                self._survey_keys(batch)
            if not self.is_full:
                self.offsets.end_offset = max(self.offsets.end_offset, header.end_offset)

    def _survey_keys(self, batch: Batch) -> None:
        for record in _readable(batch) or ():
            if record.key is None or record.offset < self.first_dirty_offset:
                continue
            if not self.offsets.note(record.key, record.offset):
                self.offsets.end_offset = record.offset
                self.is_full = True
                return

    def clean(self, batches: Iterable[Batch], aborted: AbortedBatches) -> list[Batch]:
        """Return what is left of these batches; those that lose nothing are as they were."""
        kept = []
        for batch in batches:
            header = batch.header
            left = self._marker(batch) if header.is_control else self._data(batch, aborted)
            self.records_removed += header.record_count
            if left is not None:
                self.records_removed -= left.header.record_count
                kept.append(left)
                if left.header.is_transactional and not left.header.is_control:
                    self._undecided.add(header.producer_id)
        return kept

    def _data(self, batch: Batch, aborted: AbortedBatches) -> Batch | None:
        header = batch.header
        if header in aborted:
            return self._emptied(header)
        if header.base_offset >= self.offsets.end_offset:
            return batch
        records = _readable(batch)
        if records is None:
            return batch
        left = [record for record in records if self._stays(record, header.delete_horizon_ms)]
        horizon_ms = self._new_horizon(header, left)
        if not left:
            return self._emptied(header)
        if len(left) == len(records) and horizon_ms is None:
            return batch
        return _batch(rebuild(header, left, horizon_ms))

    def _stays(self, record: Record, delete_horizon_ms: int | None) -> bool:
        if record.offset >= self.offsets.end_offset:
            return True
        if record.key is None or self.offsets.is_superseded(record.key, record.offset):
            return False
        passed = delete_horizon_ms is not None and delete_horizon_ms <= self.now_ms
        return record.value is not None or not passed

    def _new_horizon(self, header: Header, left: Iterable[Record]) -> int | None:
        """A batch that has tombstones gets its horizon when all of them have been surveyed."""
        is_new = header.delete_horizon_ms is None
        is_surveyed = header.end_offset <= self.offsets.end_offset
        if is_new and is_surveyed and any(record.value is None for record in left):
            return self.delete_horizon_ms
        return None

    def _marker(self, batch: Batch) -> Batch | None:
        header = batch.header
        if not header.record_count:
            return self._emptied(header)
        try:
            marker = read_marker(batch)
        except InvalidBatch:
            marker = None
        if marker is None:
            return batch
        decides = header.producer_id in self._undecided
        self._undecided.discard(header.producer_id)
        is_last = self._last_markers.get(header.producer_id) == header.base_offset
        if decides or is_last or header.base_offset >= self.offsets.end_offset:
            return batch
        if header.delete_horizon_ms is None:
            return _batch(rebuild(header, list(decode(batch)), self.delete_horizon_ms))
        return batch if header.delete_horizon_ms > self.now_ms else self._emptied(header)

    def _emptied(self, header: Header) -> Batch | None:
        """What is left of a batch that has lost all its records."""
        is_last = self.last_batches.get(header.producer_id) == header.last_offset
        if is_last and not header.is_control:
            return _batch(rebuild(header, ()))
        return placeholder(header) if header.base_offset in self.epoch_starts else None


def placeholder(header: Header) -> Batch:
    """An empty batch of nobody that has the offsets, the epoch and the largest time of another."""
    return _batch(
        build(
            (),
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            last_offset_delta=header.last_offset_delta,
            max_timestamp_ms=header.max_timestamp_ms,
        )
    )


def _readable(batch: Batch) -> list[Record] | None:
    """The records of a batch, or `None` if no consumer can read them either.

    Such a batch, which a client may have sent before the topic was compacted, is kept as it is.
    """
    try:
        return list(decode(batch))
    except InvalidBatch:
        return None


def _batch(built: Buffer) -> Batch:
    return Batch(read_header(built), memoryview(built))
