"""What a log remembers of those who wrote to it with a producer id, and which offsets are stable.

It is told of every batch in the order of the log, and remembers by the protocol's own fold
(`protocol.idempotence.fold`): whether a batch is a duplicate or out of order is the protocol's
question, which finds here what it needs. It is not cut: after a truncation, recovery loads the last
snapshot that is not later and tells it the batches after that.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from protocol.errors import InvariantViolation
from protocol.idempotence.fold import REMEMBERED, in_epoch, remember
from storage.batch.control import MarkerKind
from storage.batch.header import Header
from storage.disk.seam import Buffer
from storage.log.aborted import AbortedTransaction
from storage.log.producer_snapshot import NO_EPOCH, ProducerEntry, RecentBatch, decode, encode

MAX_PRODUCERS: Final = 100_000


class Completed(NamedTuple):
    """A transaction that is decided, but whose marker may still be lost with this replica."""

    first_offset: int
    last_offset: int


class Producers:
    """All producers of a log, bounded in number.

    Beyond `max_producers`, whoever has not written for longest is forgotten. It costs that producer
    what expiry would: its next batch looks like its first. Who has an open transaction is never
    forgotten, as that transaction would become visible: so the true bound is `max_producers` and
    the open transactions, of which each has a batch in the log.
    """

    __slots__ = ("_completed", "_high_watermark", "_idle", "_ongoing", "entries", "max_producers")

    def __init__(self, max_producers: int = MAX_PRODUCERS) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.max_producers = max_producers
        self._high_watermark = 0
        # Producers without an open transaction, the one that has not written for longest first.
        self._idle: OrderedDict[int, None] = OrderedDict()
        # Producer ids by the first offset of their open transaction: ascending, as the log is.
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        # Ascending in both offsets: one that began before an earlier one outlasts and hides it.
        self._completed: deque[Completed] = deque()

    def observe(self, header: Header) -> None:
        """Hear of a data batch that is now in the log."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        if header.is_control:
            raise InvariantViolation("DataIsNoMarker", header, "a marker is told with its kind")
        entry = self._entry(producer_id)
        entry.timestamp_ms = header.max_timestamp_ms
        batch = RecentBatch(
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp_ms,
        )
        entry.recent = remember(
            entry.epoch, entry.recent, header.producer_epoch, (batch,), REMEMBERED
        )
        entry.epoch = header.producer_epoch
        if header.is_transactional and entry.transaction_first_offset is None:
            self._begin(entry, header.base_offset)
        elif entry.transaction_first_offset is None:
            self._wrote(producer_id)
        self._forget_beyond_the_bound()

    def observe_marker(
        self, header: Header, kind: MarkerKind, coordinator_epoch: int
    ) -> AbortedTransaction | None:
        """Hear of a marker that is now in the log; say what it adds to the index of aborted ones.

        A marker for a transaction without a batch in this log decides nothing here.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        entry = self._entry(producer_id)
        entry.recent = in_epoch(entry.epoch, entry.recent, header.producer_epoch)
        entry.epoch = header.producer_epoch
        entry.coordinator_epoch = coordinator_epoch
        entry.timestamp_ms = header.max_timestamp_ms
        first_offset = entry.transaction_first_offset
        if first_offset is not None:
            entry.transaction_first_offset = None
            del self._ongoing[first_offset]
            self._complete(Completed(first_offset, header.base_offset))
        self._wrote(producer_id)
        self._forget_beyond_the_bound()
        if first_offset is None or kind is MarkerKind.COMMIT:
            return None
        undecided = self.first_undecided_offset
        stable = header.base_offset + 1 if undecided is None else undecided
        return AbortedTransaction(producer_id, first_offset, header.base_offset, stable)

    def _entry(self, producer_id: int) -> ProducerEntry:
        """Find a producer, or meet it."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        return entry

    def _begin(self, entry: ProducerEntry, first_offset: int) -> None:
        if self._ongoing and first_offset <= next(reversed(self._ongoing)):
            raise InvariantViolation(
                "BatchesInOrder",
                entry,
                f"producer {entry.producer_id}: a transaction at offset {first_offset} after one"
                f" at {next(reversed(self._ongoing))}, where batches are told in order",
            )
        entry.transaction_first_offset = first_offset
        self._ongoing[first_offset] = entry.producer_id
        self._idle.pop(entry.producer_id, None)

    def _wrote(self, producer_id: int) -> None:
        self._idle[producer_id] = None
        self._idle.move_to_end(producer_id)

    def _forget_beyond_the_bound(self) -> None:
        while len(self.entries) > self.max_producers and self._idle:
            forgotten, _ = self._idle.popitem(last=False)
            del self.entries[forgotten]

    def _complete(self, completed: Completed) -> None:
        if completed.last_offset < self._high_watermark:
            return
        while self._completed and self._completed[-1].first_offset > completed.first_offset:
            self._completed.pop()
        self._completed.append(completed)

    @property
    def has_seen_markers(self) -> bool:
        """Whether any of them has ended a transaction in this log."""
        return any(entry.coordinator_epoch != NO_EPOCH for entry in self.entries.values())

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the first transaction begins that has no marker yet."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that has no marker below the high watermark.

        The high watermark is the last one told. Nothing from here on is shown to read_committed.
        """
        return self._first_unstable(self._high_watermark)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Tell up to where a read_committed consumer reads, if this is the high watermark."""
        first_unstable = self._first_unstable(high_watermark)
        return high_watermark if first_unstable is None else min(first_unstable, high_watermark)

    def _first_unstable(self, high_watermark: int) -> int | None:
        undecided = self.first_undecided_offset
        for first_offset, last_offset in self._completed:
            if last_offset >= high_watermark:
                return first_offset if undecided is None else min(first_offset, undecided)
        return undecided

    def on_high_watermark(self, high_watermark: int) -> None:
        """Hear that everything below is replicated: markers there are final, and forgotten.

        Told before a replay, it also keeps old transactions from piling up.
        """
        if high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
        while self._completed and self._completed[0].last_offset < self._high_watermark:
            self._completed.popleft()

    def expire(self, now_ms: int, expiry_ms: int) -> int:
        """Forget who has not written for this long and has no open transaction; say how many."""
        expired = [
            producer_id
            for producer_id in self._idle
            if now_ms - self.entries[producer_id].timestamp_ms >= expiry_ms
        ]
        for producer_id in expired:
            del self._idle[producer_id]
            del self.entries[producer_id]
        return len(expired)

    def encode(self) -> bytes:
        """Write a snapshot: open transactions by first offset, then the others by last write."""
        ids = (*self._ongoing.values(), *self._idle)
        return encode([self.entries[producer_id] for producer_id in ids])

    @classmethod
    def load(cls, content: Buffer, file: str, max_producers: int = MAX_PRODUCERS) -> Producers:
        """Read a snapshot; `DamagedFile` if it is none, or says what cannot be.

        Of transactions that were decided but not replicated it says nothing, as in Kafka: who needs
        them replays from a snapshot that is not above the high watermark.
        """
        producers = cls(max_producers)
        idle, ongoing = decode(content, file)
        for entry, first_offset in ongoing:
            producers.entries[entry.producer_id] = entry
            producers._begin(entry, first_offset)
        for entry in idle:
            producers.entries[entry.producer_id] = entry
            producers._wrote(entry.producer_id)
        producers._forget_beyond_the_bound()
        return producers
