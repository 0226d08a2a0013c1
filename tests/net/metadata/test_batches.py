"""Batches of the metadata log, with Kafka's own bytes where Kafka reads them."""

import struct

import pytest
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.serial import entity_reader

from net.metadata.batches import (
    ProposalTooLarge,
    checked,
    control_kind,
    epochs_of,
    leader_change_batch,
    read_records,
    record_batch,
    snapshot_footer_batch,
    snapshot_header_batch,
)
from net.metadata.codec import BadRecord
from protocol.controller.records import RemoveTopicRecord, TopicRecord
from protocol.controller.state import TopicConfig
from protocol.quorum.effects import LeaderChange
from storage.batch.build import build
from storage.batch.records import Record, decode
from storage.errors import InvalidBatch

SOME = [RemoveTopicRecord(f"t{number}") for number in range(3)]


def test_a_leader_change_is_kafkas() -> None:
    voters = frozenset(range(1, 200))
    batch = leader_change_batch(LeaderChange(3, voters, frozenset({3, 2})), 7, 4, 1_000)
    (record,) = decode(batch)
    assert (batch.header.base_offset, batch.header.leader_epoch) == (7, 4)
    assert batch.header.is_control
    assert struct.unpack(">hh", record.key or b"") == (0, 2)
    message, size = entity_reader(LeaderChangeMessage)(bytes(record.value or b""), 0)
    assert size == len(record.value or b"")
    assert message.leader_id == 3
    assert [each.voter_id for each in message.voters] == sorted(voters)
    assert [each.voter_id for each in message.granting_voters] == [2, 3]


def test_control_batches_say_what_they_are() -> None:
    assert control_kind(snapshot_header_batch(1, 5)) == 3
    assert control_kind(snapshot_footer_batch(9, 1, 5)) == 4
    assert control_kind(record_batch(SOME, 0, 1, 5)) is None


def test_records_of_a_batch_have_its_offsets_and_control_records_are_left_out() -> None:
    change = leader_change_batch(LeaderChange(1, frozenset(), frozenset()), 4, 2, 0)
    batches = [change, record_batch(SOME, 5, 2, 0)]
    assert read_records(batches) == [(5, SOME[0]), (6, SOME[1]), (7, SOME[2])]
    assert epochs_of(batches) == ((2, 4),)


def test_large_proposals_are_compressed_and_too_large_ones_refused() -> None:
    topics = [TopicRecord(f"t{n}", "x" * 100, TopicConfig()) for n in range(1_000)]
    batch = record_batch(topics, 0, 1, 0)
    assert batch.header.size_bytes < 20_000
    assert [record for _, record in read_records([batch])] == topics
    with pytest.raises(ProposalTooLarge):
        record_batch([RemoveTopicRecord("x" * (129 << 20))], 0, 1, 0)


def two_batches() -> bytes:
    return bytes(record_batch(SOME, 5, 1, 0).view) + bytes(record_batch(SOME, 8, 2, 0).view)


def test_what_a_leader_sent_is_split_and_counted() -> None:
    batches = checked(two_batches(), 5)
    assert epochs_of(batches) == ((1, 3), (2, 3))


def test_a_batch_that_is_cut_off_at_the_end_is_left_out() -> None:
    whole = two_batches()
    first = len(record_batch(SOME, 5, 1, 0).view)
    for size in range(first, len(whole)):
        assert len(checked(whole[:size], 5)) == 1
    for size in range(first):
        assert checked(whole[:size], 5) == []


@pytest.mark.parametrize("offset", [4, 6, 8])
def test_a_gap_is_not_believed(offset: int) -> None:
    with pytest.raises(InvalidBatch, match="was to come"):
        checked(two_batches(), offset)


def test_bytes_that_changed_are_not_believed() -> None:
    content = two_batches()
    for place in (8, 16, 20, 61, 80, len(content) - 1):
        bad = bytearray(content)
        bad[place] ^= 0x40
        try:
            found = checked(bad, 5)
        except InvalidBatch:
            continue
        # A length that grew looks like a batch that is cut off: nothing of it is taken.
        assert len(found) < 2


def test_batches_that_no_leader_writes_are_refused() -> None:
    gap = build([Record(5, 0, None, b""), Record(7, 0, None, b"")], base_offset=5, leader_epoch=1)
    with pytest.raises(InvalidBatch, match="2 records for 3"):
        checked(gap, 5)
    no_epoch = build([Record(5, 0, None, b"")], base_offset=5, leader_epoch=0)
    with pytest.raises(InvalidBatch, match="epoch 0"):
        checked(no_epoch, 5)


def test_a_record_that_nobody_knows_is_named_with_its_offset() -> None:
    batch = build([Record(5, 0, None, b'{"type":"new"}')], base_offset=5, leader_epoch=1)
    with pytest.raises(BadRecord, match=r"offset 5: .*'new'"):
        read_records(checked(batch, 5))
    batch = build([Record(5, 0, b"key", None)], base_offset=5, leader_epoch=1)
    with pytest.raises(BadRecord, match="offset 5: a record without a value"):
        read_records(checked(batch, 5))
