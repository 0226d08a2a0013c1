"""A log folder as a broker leaves it, with everything in it, as plain bytes by path."""

from collections.abc import Callable

import pytest

from storage.batch.build import build
from storage.batch.control import MarkerKind, marker
from storage.batch.header import assign, split
from storage.batch.records import Record
from storage.checkpoint import TopicPartition, encode_clean_shutdown, replace
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.log import flushing
from storage.log.config import LogConfig
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.recovery import create_log, open_log

Files = dict[str, bytes]
CONFIG = LogConfig(segment_bytes=1024, index_interval_bytes=200)


def append(log: Log, batch: bytearray, epoch: int) -> None:
    log.append([assign(split(batch)[0], log.end_offset, epoch)])


def fill(log: Log, rounds: int) -> None:
    """Data in every codec, two producers' transactions, and three epochs."""
    for turn in range(rounds):
        now_ms, epoch = 1_700_000_000_000 + 1000 * turn, 1 + turn // 10
        data = [Record(at, now_ms + at, b"key", b"value" * 8) for at in range(2)]
        append(log, build(data, codec=turn % 5), epoch)
        for producer in (7, 8):
            record = [Record(0, now_ms + 5, b"key", b"in a transaction")]
            batch = build(
                record,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=turn,
                transactional=True,
            )
            append(log, batch, epoch)
            if turn % (producer - 4) == 2:
                kind = MarkerKind.COMMIT if turn % 7 % 2 else MarkerKind.ABORT
                append(log, marker(kind, producer, 0, 1, now_ms + 9), epoch)


def make(*, clean: bool) -> SimulatedDisk:
    """A folder with two logs: closed, or with a tail that no flush has covered."""
    disk = SimulatedDisk(1)
    disk.make_folder("data")
    disk.fsync_folder(".")
    marks = FolderMarks(disk, "data")
    for name, rounds in (("one", 24), ("two", 4)):
        partition = TopicPartition(name, 0)
        folder = f"data/{partition.folder_name}"
        log = create_log(disk, IndexCache(), partition, folder, CONFIG, marks)
        fill(log, rounds)
        log.committed(log.end_offset)
        if clean:
            jobs.run(flushing.close(log))
        else:
            jobs.run(flushing.flush(log))
            append(log, build([Record(0, 1, b"key", b"not durable")]), 4)
            log.save_indexes()
    jobs.run(marks.save())
    if clean:
        stopped = encode_clean_shutdown(3)
        jobs.run(replace(disk, "data/.kafka_cleanshutdown", stopped))
    return disk


@pytest.fixture(scope="session")
def folders() -> dict[str, Files]:
    """The files of a folder after a `clean` stop and after a `crash`."""
    return {"clean": make(clean=True).files(), "crash": make(clean=False).files()}


def restore(files: Files) -> SimulatedDisk:
    """Put files on a disk, durably."""
    disk = SimulatedDisk(1)
    made = {"."}
    for path, content in files.items():
        parts = path.split("/")[:-1]
        for depth in range(len(parts)):
            folder = "/".join(parts[: depth + 1])
            if folder not in made:
                disk.make_folder(folder)
                made.add(folder)
        disk.create(path)
        if content:
            disk.write(path, (content,), 0)
        disk.fsync(path)
    for folder in made:
        disk.fsync_folder(folder)
    return disk


@pytest.fixture(scope="session")
def on_disk() -> Callable[[Files], SimulatedDisk]:
    """Put files on a simulated disk."""
    return restore


def reopened(disk: SimulatedDisk, name: str, *, clean: bool = False) -> Log:
    """Open a log as a broker would that was not told of a clean stop."""
    marks = FolderMarks(disk, "data")
    marks.load()
    partition = TopicPartition(name, 0)
    folder = f"data/{partition.folder_name}"
    return open_log(disk, IndexCache(), partition, folder, CONFIG, marks, clean=clean).log


@pytest.fixture(scope="session")
def reopen() -> Callable[..., Log]:
    """Open one of the logs again."""
    return reopened
