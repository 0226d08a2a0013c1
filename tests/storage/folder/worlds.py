"""Log folders on a simulated disk, for the tests of everything that has several logs."""

from collections.abc import Callable, Sequence

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.seam import Disk
from storage.disk.simulated import SimulatedDisk
from storage.flusher import FLUSH_NEVER, FlushPolicy
from storage.folder import LogFolder, NewLog, Offline, nobody_is_told
from storage.log.config import LogConfig
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import batches_of, numbered

PATH = "data"
SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=100, retention_ms=-1)
FIRST, SECOND, THIRD = (TopicPartition("topic", number) for number in range(3))


def fresh_disk(*, seed: int = 1) -> SimulatedDisk:
    """A disk with nothing on it."""
    return SimulatedDisk(seed)


def open_folder(
    disk: Disk,
    policy: FlushPolicy = FLUSH_NEVER,
    config: LogConfig = SMALL,
    offline: Offline = nobody_is_told,
) -> LogFolder:
    """Start with what is on a disk."""
    folder = LogFolder(disk, PATH, IndexCache(), policy, offline)
    jobs.run(folder.open(lambda _: config))
    return folder


def open_store(
    disk: Disk,
    paths: Sequence[str] = (PATH,),
    policy: FlushPolicy = FLUSH_NEVER,
    config: LogConfig | Callable[[TopicPartition], LogConfig] = SMALL,
    offline: Offline = nobody_is_told,
    start_moved: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None,
) -> LogStore:
    """Start with what is on a disk, several folders."""
    store = LogStore(disk, paths, policy=policy, offline=offline, start_moved=start_moved)
    jobs.run(store.open(config if callable(config) else lambda _: config))
    return store


def create(
    folder: LogFolder, partition: TopicPartition, config: LogConfig = SMALL, start: int = 0
) -> Log:
    """Make a log in a folder."""
    (log,) = jobs.run(folder.create([NewLog(partition, config, start)]))
    return log


def append(log: Log, count: int = 1, epoch: int = 1) -> int:
    """Append batches that are a function of their offsets; return where the log ends then."""
    for _ in range(count):
        log.append([numbered(log.end_offset, leader_epoch=epoch)])
    return log.end_offset


def check_numbered(log: Log, end_offset: int) -> None:
    """Everything up to an offset is there and as it was appended, and so is what follows."""
    found = batches_of(log)
    offsets = [batch.header.base_offset for batch in found]
    assert offsets == list(range(log.start_offset, log.end_offset))
    assert log.end_offset >= end_offset
    for batch in found:
        expected = numbered(batch.header.base_offset, leader_epoch=batch.header.leader_epoch)
        assert bytes(batch.view) == bytes(expected.view)


def close_folder(folder: LogFolder, broker_epoch: int = 1) -> None:
    """Stop in good order, on a disk that does everything at once."""
    ended: list[Exception | None] = []
    folder.close(broker_epoch, ended.append)
    assert ended == [None]


def delete(target: LogFolder | LogStore, partition: TopicPartition) -> Exception | None:
    """Delete a log, on a disk that does everything at once; return what went wrong."""
    ended: list[Exception | None] = []
    target.delete(partition, ended.append)
    (result,) = ended
    return result


def fill_up(disk: SimulatedDisk, room_bytes: int = 0) -> None:
    """Leave a disk only so much room."""
    disk.capacity_bytes = sum(map(len, disk.files().values())) + room_bytes
