"""Markers: Kafka's bytes, and no surprise at control records of other kinds."""

import struct

import pytest

from protocol.errors import ErrorCode
from storage.batch.build import build, rebuild
from storage.batch.control import Marker, MarkerKind, marker, read_marker
from storage.batch.header import Batch
from storage.batch.records import Record
from storage.errors import InvalidBatch
from tests.storage.batch.strategies import only


def control(key: bytes | None, value: bytes | None) -> Batch:
    return only(build([Record(0, 0, key, value)], control=True, transactional=True))


@pytest.mark.parametrize(
    ("kind", "kind_byte"), [(MarkerKind.ABORT, "00"), (MarkerKind.COMMIT, "01")]
)
def test_a_marker_has_the_bytes_that_kafka_writes(kind: MarkerKind, kind_byte: str) -> None:
    batch = marker(kind, 4321, 7, 9, 1000, base_offset=55, leader_epoch=3)
    without_checksum = batch[:17] + batch[21:]
    assert without_checksum.hex() == (
        "0000000000000037"  # base offset
        "00000042"  # length
        "00000003"  # leader epoch
        "02"  # magic
        "0030"  # control, transactional
        "00000000"  # last offset delta
        "00000000000003e8"  # first timestamp
        "00000000000003e8"  # max timestamp
        "00000000000010e1"  # producer id
        "0007"  # producer epoch
        "ffffffff"  # no sequence
        "00000001"  # one record
        "20000000"  # its length, attributes, deltas
        f"08000000{kind_byte}"  # key: version, type
        "0c000000000009"  # value: version, coordinator epoch
        "00"  # no headers
    )
    assert read_marker(only(batch)) == Marker(kind, 9)


@pytest.mark.parametrize("kind", [-1, 2, 3, 4, 5, 6, 1000])
def test_other_control_records_are_no_markers_and_no_error(kind: int) -> None:
    assert read_marker(control(struct.pack(">hh", 0, kind), b"whatever")) is None


def test_what_is_no_control_batch_is_no_marker() -> None:
    key, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 9)
    assert read_marker(only(build([Record(0, 0, key, value)]))) is None


def test_an_emptied_marker_says_nothing() -> None:
    assert (
        read_marker(only(rebuild(only(marker(MarkerKind.COMMIT, 1, 1, 1, 1)).header, []))) is None
    )


def test_later_versions_are_read_as_far_as_they_are_known() -> None:
    batch = control(struct.pack(">hhi", 3, 1, 0), struct.pack(">hiq", 2, 9, 0))
    assert read_marker(batch) == Marker(MarkerKind.COMMIT, 9)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00\x00\x00", b""),
        (struct.pack(">hh", -1, 1), struct.pack(">hi", 0, 9)),
        (struct.pack(">hh", 0, 1), None),
        (struct.pack(">hh", 0, 1), b"\x00\x00\x00\x00\x00"),
        (struct.pack(">hh", 0, 0), struct.pack(">hi", -1, 9)),
    ],
)
def test_a_malformed_marker_is_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read_marker(control(key, value))
    assert caught.value.error is ErrorCode.INVALID_RECORD
