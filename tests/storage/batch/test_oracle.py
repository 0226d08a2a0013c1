"""kafka-python's own record module: what it writes we read, and what we write it reads."""

import warnings
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from storage.batch.build import build
from storage.batch.codecs import CODECS, NONE
from storage.batch.control import MarkerKind, marker
from storage.batch.header import split, stamp
from storage.batch.records import Record, decode
from tests.storage.batch.strategies import BASE_OFFSETS, TIMES_MS, only, plain, records

with warnings.catch_warnings():
    # It reads its own schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import (  # type: ignore[import-untyped]
        DefaultRecordBatch,
        DefaultRecordBatchBuilder,
    )
    from kafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]


def written_by_oracle(found: list[Record], codec: int, **fields: int) -> bytes:
    """Build a batch at offset 0 with kafka-python."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=fields.get("transactional", 0),
        producer_id=fields.get("producer_id", -1),
        producer_epoch=fields.get("producer_epoch", -1),
        base_sequence=fields.get("base_sequence", -1),
        batch_size=1 << 24,
    )
    for each in found:
        headers = [(bytes(name).decode(), value) for name, value in each.headers]
        builder.append(each.offset, each.timestamp_ms, each.key, each.value, headers)
    return bytes(builder.build())


def read_by_oracle(batch: Any) -> list[Record]:
    """Return what kafka-python finds in a batch."""
    assert isinstance(batch, DefaultRecordBatch)
    assert batch.validate_crc()
    return [
        Record(
            each.offset,
            each.timestamp,
            each.key,
            each.value,
            tuple((name.encode(), value) for name, value in each.headers),
        )
        for each in batch
    ]


@given(records(), st.sampled_from(CODECS))
@settings(max_examples=150, deadline=None)
def test_what_kafka_python_writes_we_read(found: list[Record], codec: int) -> None:
    assert [plain(each) for each in decode(only(written_by_oracle(found, codec)))] == found


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_really_compresses(codec: int) -> None:
    found = [Record(offset, 5, b"key", bytes(1000)) for offset in range(100)]
    batch = only(written_by_oracle(found, codec))
    assert batch.header.codec == codec
    assert [plain(each) for each in decode(batch)] == found


@given(BASE_OFFSETS.flatmap(lambda base: records(base, gaps=True)), st.sampled_from(CODECS))
@settings(max_examples=150, deadline=None)
def test_what_we_write_kafka_python_reads(found: list[Record], codec: int) -> None:
    batch = build(found, base_offset=found[0].offset, codec=codec)
    assert read_by_oracle(MemoryRecords(bytes(batch)).next_batch()) == found


@given(
    records(),
    st.booleans(),
    st.integers(0, 1 << 60),
    st.integers(0, 1 << 14),
    st.integers(0, 1 << 30),
)
@settings(max_examples=100, deadline=None)
def test_an_uncompressed_batch_has_the_very_bytes_that_kafka_python_writes(
    found: list[Record],
    transactional: bool,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    fields = {
        "transactional": transactional,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
    }
    ours = build(
        found,
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    assert ours == written_by_oracle(found, NONE, **fields)


@given(st.lists(records(), max_size=4))
@settings(max_examples=50, deadline=None)
def test_batches_in_a_row_are_found_where_kafka_python_finds_them(
    several: list[list[Record]],
) -> None:
    payload = b"".join(written_by_oracle(found, NONE) for found in several)
    oracle, expected = MemoryRecords(payload), []
    while (batch := oracle.next_batch()) is not None:
        expected.append(read_by_oracle(batch))
    assert [[plain(each) for each in decode(batch)] for batch in split(payload)] == expected
    assert len(expected) == len(several)


@given(records(), TIMES_MS, st.sampled_from(CODECS))
@settings(max_examples=100, deadline=None)
def test_kafka_python_sees_a_stamped_batch_as_log_append_time(
    found: list[Record], now_ms: int, codec: int
) -> None:
    batch = stamp(only(build(found, codec=codec)), now_ms)
    oracle = DefaultRecordBatch(batch.view)
    assert oracle.timestamp_type == DefaultRecordBatch.LOG_APPEND_TIME
    expected = [each._replace(timestamp_ms=now_ms) for each in found]
    assert read_by_oracle(oracle) == expected
    assert [plain(each) for each in decode(batch)] == expected


@pytest.mark.parametrize("kind", MarkerKind)
def test_kafka_python_reads_our_markers(kind: MarkerKind) -> None:
    oracle = DefaultRecordBatch(marker(kind, 4321, 7, 9, 1000, base_offset=55, leader_epoch=3))
    assert oracle.validate_crc()
    assert oracle.is_control_batch
    assert oracle.is_transactional
    assert (oracle.producer_id, oracle.producer_epoch, oracle.base_sequence) == (4321, 7, -1)
    (record,) = oracle
    assert (record.offset, record.timestamp) == (55, 1000)
    assert record.commit is (kind is MarkerKind.COMMIT)
    assert record.abort is (kind is MarkerKind.ABORT)
