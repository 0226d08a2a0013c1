"""What a fetch brought is checked, filtered and given in order."""

from __future__ import annotations

import pytest

from net.client.consuming.fetched import Fetched
from net.client.errors import KafkaError, RecordTooLarge
from net.wire.fetch import AbortedTransaction
from storage.batch.build import build
from storage.batch.control import MarkerKind, marker
from storage.batch.records import Record


def _batch(first: int, count: int, producer_id: int = -1, transactional: bool = False) -> bytes:
    records = [Record(first + n, 0, None, b"%d" % (first + n)) for n in range(count)]
    return bytes(
        build(
            records,
            base_offset=first,
            leader_epoch=3,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=transactional,
        )
    )


def _marker(kind: MarkerKind, producer_id: int, offset: int) -> bytes:
    return bytes(marker(kind, producer_id, 0, 0, 0, base_offset=offset))


def _fetched(
    *batches: bytes, offset: int = 0, aborted: list[AbortedTransaction] | None = None
) -> Fetched:
    return Fetched("topic", 0, offset, b"".join(batches), aborted)


def _offsets(fetched: Fetched, count: int = 1000) -> list[int]:
    return [each.offset for each in fetched.take(count)]


def test_records_before_the_wanted_offset_are_left_out() -> None:
    fetched = _fetched(_batch(0, 5), _batch(5, 5), offset=7)
    assert _offsets(fetched, 2) == [7, 8]
    assert (fetched.next_offset, fetched.epoch) == (9, 3)
    assert _offsets(fetched) == [9]
    assert _offsets(fetched) == []
    assert fetched.next_offset == 10


def test_a_batch_that_is_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    fetched = _fetched(_batch(0, 5), _batch(5, 5)[:-1])
    assert _offsets(fetched) == [0, 1, 2, 3, 4]
    assert fetched.next_offset == 5


def test_bytes_that_are_no_whole_batch_are_an_error() -> None:
    with pytest.raises(RecordTooLarge):
        _fetched(_batch(0, 5)[:-1]).take(1)


def test_a_damaged_batch_is_told_after_the_good_ones_and_nothing_of_it_is_given() -> None:
    damaged = bytearray(_batch(5, 5))
    damaged[-2] ^= 1
    fetched = _fetched(_batch(0, 5), bytes(damaged))
    assert _offsets(fetched) == [0, 1, 2, 3, 4]
    for _ in range(2):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: topic-0 from offset 5 on"):
            fetched.take(1000)
    assert fetched.next_offset == 5


def test_markers_are_never_given() -> None:
    fetched = _fetched(_batch(0, 2, 9, True), _marker(MarkerKind.COMMIT, 9, 2), _batch(3, 1))
    assert _offsets(fetched) == [0, 1, 3]
    fetched = _fetched(_batch(0, 1), _marker(MarkerKind.COMMIT, 9, 1))
    assert _offsets(fetched) == [0]
    assert fetched.next_offset == 2


def test_aborted_transactions_are_left_out_up_to_their_markers() -> None:
    log = (
        _batch(0, 2, 9, True),  # aborted
        _batch(2, 1, 8, True),  # committed
        _batch(3, 1),
        _marker(MarkerKind.ABORT, 9, 4),
        _batch(5, 1, 9, True),  # the same producer, committed
        _marker(MarkerKind.COMMIT, 8, 6),
        _marker(MarkerKind.COMMIT, 9, 7),
        _batch(8, 1, 9, True),  # aborted again
        _marker(MarkerKind.ABORT, 9, 9),
        _batch(10, 1),
    )
    aborted = [AbortedTransaction(9, 8), AbortedTransaction(9, 0)]
    assert _offsets(_fetched(*log, aborted=aborted)) == [2, 3, 5, 10]
    assert _offsets(_fetched(*log)) == [0, 1, 2, 3, 5, 8, 10]
