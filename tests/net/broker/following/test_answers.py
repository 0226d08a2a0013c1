"""What a leader's answer means: epochs counted, offsets checked, a batch cut where a log begins."""

import pytest

from net.broker.following.answers import following, runs, starting_at
from protocol.errors import ErrorCode
from storage.batch import records
from storage.batch.build import build
from storage.batch.header import Batch, checksum, split
from storage.batch.records import Record
from storage.errors import InvalidBatch
from storage.testing.numbered import numbered


def test_records_are_counted_by_epoch_and_a_gap_belongs_to_what_follows() -> None:
    batches = [
        numbered(0, records=2, leader_epoch=1),
        numbered(2, records=3, leader_epoch=1),
        numbered(9, records=1, leader_epoch=4),
    ]
    assert runs(batches, 0) == ((1, 5), (4, 5))
    assert runs([], 7) == ()


@pytest.mark.parametrize(
    "batches",
    [
        [numbered(0, records=5), numbered(3)],
        [numbered(4), numbered(4)],
        [numbered(1)],
    ],
    ids=["overlap", "twice", "before"],
)
def test_batches_that_do_not_follow_are_refused(batches: list[Batch]) -> None:
    with pytest.raises(InvalidBatch) as refused:
        following(batches, 4 if batches[0].header.base_offset else 0)
    assert refused.value.error == ErrorCode.CORRUPT_MESSAGE


def test_what_is_left_of_a_batch_keeps_its_records_and_their_sequences() -> None:
    made = [Record(offset, 100 + offset, b"%d" % offset, b"value") for offset in range(10, 15)]
    (whole,) = split(
        build(
            made,
            base_offset=10,
            leader_epoch=3,
            codec=4,
            producer_id=50,
            producer_epoch=1,
            base_sequence=2**31 - 2,
            transactional=True,
        )
    )
    rest = starting_at(whole, 13)
    header = rest.header
    assert (header.base_offset, header.end_offset, header.record_count) == (13, 15, 2)
    assert (header.base_sequence, header.last_sequence) == (1, whole.header.last_sequence)
    assert header[9:11] == whole.header[9:11]
    assert (header.leader_epoch, header.attributes) == (3, whole.header.attributes)
    assert header.crc == checksum(rest.view)
    assert [each.offset for each in records.decode(rest)] == [13, 14]
    assert [each.timestamp_ms for each in records.decode(rest)] == [113, 114]
