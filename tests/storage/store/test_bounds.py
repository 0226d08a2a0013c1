"""Thousands of partitions on real files: descriptors, memory and index bytes stay bounded."""

import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.posix import PosixDisk
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import numbered

PARTITIONS = 4_000
MAX_OPEN_FILES = 64
MAX_PARTITION_BYTES = 16 * 1024
INDEX_CACHE_BYTES = 16 * 1024
CONFIG = LogConfig(index_interval_bytes=64)
BATCHES = 4


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.slow
def test_four_thousand_partitions_take_bounded_memory_and_few_descriptors(tmp_path: Path) -> None:
    disk = PosixDisk(max_open_files=MAX_OPEN_FILES)
    before = open_descriptors()
    paths = [f"{tmp_path}/a", f"{tmp_path}/b"]
    # Each folder's lock is a descriptor, too.
    most = before + len(paths) + MAX_OPEN_FILES
    store = LogStore(disk, paths, index_cache_bytes=INDEX_CACHE_BYTES)
    jobs.run(store.open(lambda _: CONFIG))
    wanted = [TopicPartition("topic", number) for number in range(PARTITIONS)]
    tracemalloc.start()
    jobs.run(store.create(*(NewLog(each, CONFIG) for each in wanted)))
    batches = [numbered(offset) for offset in range(BATCHES)]
    for log in each_log(store):
        log.append(batches)
        log.save_indexes()
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / PARTITIONS < MAX_PARTITION_BYTES
    assert open_descriptors() <= most

    largest = looked_up = 0
    for log in each_log(store):
        found = log.read(BATCHES - 1, BATCHES, 1)
        assert found is not None
        assert found.position > 0
        looked_up += 1
        largest = max(largest, store.cache.size_bytes)
    assert looked_up == PARTITIONS
    assert INDEX_CACHE_BYTES // 2 < largest <= INDEX_CACHE_BYTES
    assert open_descriptors() <= most
    disk.close()
    assert open_descriptors() == before


def each_log(store: LogStore) -> Iterator[Log]:
    for folder in store.folders:
        yield from folder.logs.values()
