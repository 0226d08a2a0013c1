"""What a fetch brought for one partition, read record by record when somebody wants it.

Every batch is checked before a record of it is given. Markers are left out, and so are, for who
reads committed records only, those of transactions that were aborted: the broker says which
producers' transactions these are, and their markers say where they end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from net.client.errors import KafkaError, RecordTooLarge
from net.wire.fetch import AbortedTransaction
from storage.batch.control import MarkerKind, read_marker
from storage.batch.header import Batch, Header, headers, split
from storage.batch.records import decode
from storage.errors import InvalidBatch


class ConsumerRecord(NamedTuple):
    """A record and where it was."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class Fetched:
    """Batches of one partition, from an offset on. `next_offset` is where to read on after it."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        data: bytes,
        aborted: Sequence[AbortedTransaction] | None,
    ) -> None:
        self.next_offset = offset
        self.epoch = -1
        """That of the last batch that was passed."""
        self._topic = topic
        self._partition = partition
        self._data = memoryview(data)
        # Only who reads committed records is given a list.
        self._aborted = deque(sorted(aborted or (), key=lambda each: each.first_offset))
        self._aborting: set[int] = set()
        self._records = self._read()
        self._failure: KafkaError | None = None

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return the next records; fewer than `count` if there are no more.

        What comes before something wrong is returned first; then `KafkaError` says what it is.
        """
        if self._failure is not None:
            raise self._failure
        taken: list[ConsumerRecord] = []
        try:
            while len(taken) < count:
                record = next(self._records, None)
                if record is None:
                    break
                taken.append(record)
        except InvalidBatch as error:
            place = f"{self._topic}-{self._partition} from offset {self.next_offset} on"
            failure = KafkaError(error.error, f"{place}: {error}")
            if not taken:
                raise failure from error
            self._failure = failure
        return taken

    def _read(self) -> Iterator[ConsumerRecord]:
        whole = False
        for position, header in headers(self._data):
            whole = True
            (batch,) = split(self._data[position : position + header.size_bytes])
            if header.last_offset >= self.next_offset:
                if not self._is_left_out(header, batch):
                    yield from self._read_batch(batch)
                self.next_offset = header.end_offset
                self.epoch = header.leader_epoch
        if not whole and len(self._data):
            # A broker sends the first batch whole, however large it is (KIP-74).
            raise RecordTooLarge(
                f"{self._topic}-{self._partition}: {len(self._data)} bytes are not a whole batch"
            )

    def _is_left_out(self, header: Header, batch: Batch) -> bool:
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborting.add(self._aborted.popleft().producer_id)
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and marker.kind is MarkerKind.ABORT:
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting

    def _read_batch(self, batch: Batch) -> Iterator[ConsumerRecord]:
        epoch = batch.header.leader_epoch
        for record in decode(batch):
            if record.offset < self.next_offset:
                continue
            self.next_offset = record.offset + 1
            self.epoch = epoch
            yield ConsumerRecord(
                self._topic,
                self._partition,
                record.offset,
                record.timestamp_ms,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                tuple(
                    (bytes(name).decode(errors="replace"), None if each is None else bytes(each))
                    for name, each in record.headers
                ),
                epoch,
            )
