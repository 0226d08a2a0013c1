"""A file system that is really full."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.posix import PosixDisk
from storage.errors import DiskFull
from storage.flusher import FLUSH_ALWAYS
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import numbered
from tests.storage.folder.worlds import FIRST, check_numbered
from tests.storage.replica_log.drivers import Driver

CONFIG = LogConfig(segment_bytes=64 * 1024, index_interval_bytes=512, retention_ms=-1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, which only root can mount."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a full file system needs the right to mount one: {error}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def open_store(disk: PosixDisk, root: Path) -> LogStore:
    store = LogStore(disk, [str(root / "data")], policy=FLUSH_ALWAYS)
    jobs.run(store.open(lambda _: CONFIG))
    return store


def test_producers_are_refused_and_served_again_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600 * 1024))
    disk = PosixDisk()
    store = open_store(disk, small_disk)
    jobs.run(store.create(NewLog(FIRST, CONFIG)))
    driver = Driver(store, FIRST)
    driver.lead()
    client = 0
    while not driver.refused:
        client += 1
        driver.produce(client, count=5, value_bytes=2000)
    full_at = driver.log.end_offset
    assert disk.size(driver.log.active.path()) == driver.log.active.size_bytes
    driver.produce("still", count=5, value_bytes=2000)
    assert set(driver.refused.values()) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert driver.log.end_offset == full_at == 5 * len(driver.acknowledged)
    store.checkpoint()
    store.tend(0)
    assert store.folders[0].failure is None
    ballast.unlink()
    driver.produce("room", count=5, value_bytes=2000)
    assert driver.acknowledged["room"] == full_at
    disk.close()

    disk = PosixDisk()
    log = open_store(disk, small_disk).log(FIRST)
    assert log is not None
    assert log.end_offset == full_at + 5
    for offset in range(log.end_offset):
        found = log.read(offset, offset + 1, 1)
        assert found is not None
        content = disk.read(found.path, found.position, found.length)
        assert content == bytes(numbered(offset, value_bytes=2000).view)
    disk.close()


def fill(log: Log, value_bytes: int) -> None:
    """Append until there is no room for one more."""
    with suppress(DiskFull):
        while True:
            log.append([numbered(log.end_offset, value_bytes=value_bytes)])


def test_deleting_a_log_makes_room(small_disk: Path) -> None:
    disk = PosixDisk()
    store = open_store(disk, small_disk)
    other = TopicPartition("other", 0)
    first, second = jobs.run(store.create(NewLog(FIRST, CONFIG), NewLog(other, CONFIG)))
    first.append([numbered(0)])
    fill(second, value_bytes=10_000)
    fill(first, value_bytes=40)
    end = first.end_offset
    with pytest.raises(DiskFull):
        jobs.run(store.create(NewLog(TopicPartition("new", 0), CONFIG)))
    assert store.folders[0].failure is None
    ended: list[Exception | None] = []
    store.delete(other, ended.append)
    assert ended == [None]
    for _ in range(10):
        first.append([numbered(first.end_offset)])
    check_numbered(first, end + 10)
    disk.close()
