"""kafka-python reads compacted files as we do, empty batches included."""

from __future__ import annotations

import warnings
from random import Random

import pytest

from storage.batch.control import MarkerKind
from storage.batch.header import split
from storage.batch.records import decode
from tests.storage.compaction.world import RETENTION_MS, World, random_history

with warnings.catch_warnings():
    # It reads its own schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]


@pytest.mark.parametrize("seed", range(8))
def test_kafka_python_reads_what_compaction_has_written(seed: int) -> None:
    random, world = Random(seed), World(seed)
    empty = horizons = 0
    for _ in range(3):
        random_history(world, random, 25)
        for producer in (1, 2, 3):
            world.end(producer, MarkerKind.COMMIT)
            world.put((b"key 0", b"%d" % producer), producer=producer + 10)
        world.settle()
        assert world.compact() is not None
        world.now_ms += RETENTION_MS
    for segment in world.log.segments:
        content = bytes(world.disk.read(segment.path(), 0, segment.size_bytes))
        oracle = MemoryRecords(content)
        for ours in split(content):
            theirs = oracle.next_batch()
            assert theirs.validate_crc()
            found = list(theirs)
            expected = list(decode(ours))
            assert [each.offset for each in found] == [each.offset for each in expected]
            assert [each.timestamp for each in found] == [each.timestamp_ms for each in expected]
            if not ours.header.is_control:
                assert [(each.key, each.value) for each in found] == [
                    (each.key, each.value) for each in expected
                ]
            empty += not expected
            horizons += ours.header.delete_horizon_ms is not None
        assert oracle.next_batch() is None
    assert empty
    assert horizons
