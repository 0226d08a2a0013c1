"""Batches that librdkafka and aiokafka wrote, read, stored and written again: see their README."""

from pathlib import Path

import pytest

from storage.batch.build import build, rebuild
from storage.batch.codecs import NONE, SNAPPY, XERIAL_HEADER
from storage.batch.header import HEADER_BYTES, assign
from storage.batch.records import Record, decode
from storage.batch.validate import check_produced
from tests.storage.batch.strategies import only, plain

VECTORS = sorted(Path(__file__).with_name("vectors").glob("*.bin"))
EXPECTED = [
    Record(
        number,
        1_700_000_000_000 + 10 * number - (50 if number == 9 else 0),
        None if number == 3 else b"key-%d" % (number % 5),
        None if number == 7 else b"value %d " % number * 20,
        ((b"trace", b"%d" % number), (b"empty", b""), (b"none", None)) if number % 4 == 0 else (),
    )
    for number in range(20)
]


def test_all_clients_and_codecs_are_here() -> None:
    clients = {path.name.partition("-")[0] for path in VECTORS}
    kinds = {only(path.read_bytes()).header.attributes for path in VECTORS}
    assert clients == {"librdkafka", "aiokafka"}
    assert kinds == {0, 1, 2, 3, 4, 0x10, 0x11, 0x12, 0x13, 0x14}
    snappy = [path.read_bytes()[HEADER_BYTES:] for path in VECTORS if "snappy" in path.name]
    assert sorted(body.startswith(XERIAL_HEADER) for body in snappy) == [False, True]


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_leader_takes_it_and_finds_its_records(path: Path) -> None:
    batch = check_produced([only(path.read_bytes())], compacted=False, max_batch_bytes=1 << 20)
    assert [plain(each) for each in decode(batch)] == EXPECTED
    header = batch.header
    assert (header.record_count, header.last_offset_delta) == (20, 19)
    assert (header.first_timestamp_ms, header.max_timestamp_ms) == (
        EXPECTED[0].timestamp_ms,
        EXPECTED[-1].timestamp_ms,
    )


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_storing_it_changes_nothing_but_offset_and_epoch(path: Path) -> None:
    original = path.read_bytes()
    stored = bytearray(original)
    batch = assign(only(stored), 1 << 40, 12)
    assert stored[8:12] == original[8:12]
    assert stored[16:] == original[16:]
    moved = [each._replace(offset=each.offset + (1 << 40)) for each in EXPECTED]
    assert [plain(each) for each in decode(only(stored))] == moved
    back = assign(batch, 0, only(original).header.leader_epoch)
    assert bytes(back.view) == original


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_it_can_be_built_again(path: Path) -> None:
    original = path.read_bytes()
    header = only(original).header
    built = build(
        EXPECTED,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    assert built == rebuild(header, list(decode(only(original))))
    if header.codec == NONE:
        assert built == original
    elif header.codec == SNAPPY and original[HEADER_BYTES:].startswith(XERIAL_HEADER):
        assert built[HEADER_BYTES:] == original[HEADER_BYTES:]
    else:
        # Two encoders need not agree on the bytes, only on what comes out of them.
        assert [plain(each) for each in decode(only(built))] == EXPECTED
