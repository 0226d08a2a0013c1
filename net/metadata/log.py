"""The metadata log of one node on its disk: records, snapshots, and the vote.

    <folder>/__cluster_metadata-0/00000000000000000000.log ...     the records
                                  00000000000000000120-0000000003.checkpoint
                                  quorum-state

The folder is its own: a broker's log store would take the log for one of its partitions. What a
restart finds is a snapshot that is good in every byte, the records after it, and the vote; where
that cannot be, opening fails with the file and the reason, and nothing is changed. Who may write
what, and when, is not decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import trio

from net.metadata import snapshots
from net.metadata.batches import MAX_BATCH_BYTES
from net.metadata.quorum_state import QUORUM_STATE, Vote, load_vote
from protocol.controller.state import Image
from protocol.errors import ErrorCode
from protocol.quorum.log import NO_SNAPSHOT, SnapshotId, epoch_at
from protocol.replication.log import Log as ProtocolLog
from protocol.replication.log import last_epoch
from protocol.types import Offset
from storage.batch.header import Batch, split
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk, PinnedFile
from storage.errors import DamagedFile, InvalidBatch
from storage.flusher import FLUSH_ALWAYS
from storage.folder import LogFolder, NewLog
from storage.log.config import UNLIMITED, LogConfig
from storage.log.cutting import advance_start, reset
from storage.log.index import IndexCache
from storage.log.log import Log

_log = logging.getLogger(__name__)

TOPIC: Final = "__cluster_metadata"
METADATA: Final = TopicPartition(TOPIC, 0)
LOG_CONFIG: Final = LogConfig(
    segment_bytes=64 * 1024 * 1024,
    max_batch_bytes=MAX_BATCH_BYTES,
    retention_ms=UNLIMITED,
)
_INDEX_CACHE_BYTES: Final = 4 * 1024 * 1024


@attrs.frozen
class Loaded:
    """A snapshot, and the image that it is; the one of an empty log is of nothing."""

    snapshot: SnapshotId = NO_SNAPSHOT
    image: Image = attrs.field(factory=Image)


class MetadataLog:
    """An open metadata log. `open_metadata_log` makes one."""

    def __init__(self, folder: LogFolder, log: Log, loaded: Loaded, vote: Vote) -> None:
        self.disk = folder.disk
        self.folder = folder
        self.log = log
        self.loaded = loaded
        """The newest snapshot, which is what the log begins with."""
        self.vote = vote

    @property
    def path(self) -> str:
        """The folder of the log's files."""
        return self.log.folder

    @property
    def vote_path(self) -> str:
        """The file with the vote."""
        return f"{self.path}/{QUORUM_STATE}"

    @property
    def end_offset(self) -> Offset:
        """Where the log ends, durable or not."""
        return self.log.end_offset

    def as_protocol(self) -> ProtocolLog:
        """What the quorum's core wants to know of it when it starts."""
        return _protocol_log(self.log, self.loaded.snapshot)

    def snapshot_path(self, snapshot: SnapshotId) -> str:
        """The file of a snapshot."""
        return f"{self.path}/{snapshots.file_name(snapshot)}"

    def part_path(self, snapshot: SnapshotId, number: int) -> str:
        """The file that a snapshot is downloaded into, by the number of the download."""
        return f"{self.snapshot_path(snapshot)}.{number}{snapshots.PART_SUFFIX}"

    def read(self, offset: Offset, end_offset: Offset, max_bytes: int) -> bytes:
        """Read whole batches, at least one if there is one, and as many as fit."""
        found = self.log.read(offset, end_offset, max_bytes)
        if found is None:
            return b""
        return bytes(self.disk.read(found.path, found.position, found.length))

    def pin(self, offset: Offset, end_offset: Offset, max_bytes: int) -> Pinned | None:
        """Keep the bytes that `read` would give readable, for somebody in another thread."""
        found = self.log.read(offset, end_offset, max_bytes)
        if found is None:
            return None
        return Pinned(self.disk.pin(found.path), found.path, found.position, found.length)

    def drop_old_snapshots(self) -> None:
        """Delete the snapshots before the newest."""
        for snapshot in snapshots.found_in(self.disk, self.path):
            if snapshot.end_offset < self.loaded.snapshot.end_offset:
                self.disk.delete(self.snapshot_path(snapshot))

    def drop_parts(self) -> None:
        """Delete what downloads have left, when none is under way."""
        for name in self.disk.list(self.path):
            if name.endswith(snapshots.PART_SUFFIX):
                self.disk.delete(f"{self.path}/{name}")

    def close(self, done: Callable[[Exception | None], None]) -> None:
        """Leave everything as the next start wants it. Nothing is appended any more."""
        self.folder.close(0, done)


@attrs.frozen
class Pinned:
    """Bytes of the log that stay readable until they are read."""

    file: PinnedFile
    path: str
    position: int
    length: int

    def batches(self) -> list[Batch]:
        """Read and check them, and let the file go. It blocks; `InvalidBatch` if they are bad."""
        with self.file:
            content = self.file.read(self.position, self.length)
        if len(content) < self.length:
            reason = f"{self.path} ends before byte {self.position + self.length}"
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason, self.position)
        return split(content)


def open_metadata_log(
    disk: Disk, folder_path: str, config: LogConfig = LOG_CONFIG
) -> Job[MetadataLog]:
    """Open the log in a folder, or make an empty one there. `StorageError` if it cannot be."""
    folder = LogFolder(disk, folder_path, IndexCache(_INDEX_CACHE_BYTES), FLUSH_ALWAYS)
    yield from folder.open(lambda _partition: config)
    if folder.failure is not None:
        raise folder.failure
    if METADATA in folder.closed:
        raise folder.closed[METADATA]
    log = folder.logs.get(METADATA)
    if log is None:
        (log,) = yield from folder.create([NewLog(METADATA, config)])
    for warning in folder.warnings:
        _log.warning("%s", warning)
    loaded: Loaded = yield partial(_load_snapshot, disk, log)
    yield from _begin_with(log, loaded.snapshot)
    vote: Vote = yield partial(
        load_vote,
        disk,
        f"{log.folder}/{QUORUM_STATE}",
        last_epoch(_protocol_log(log, loaded.snapshot)),
    )
    opened = MetadataLog(folder, log, loaded, vote)
    opened.drop_old_snapshots()
    opened.drop_parts()
    return opened


async def opened(disk: Disk, folder_path: str, config: LogConfig = LOG_CONFIG) -> MetadataLog:
    """Open the log and wait until that is done, on a disk of this loop."""
    found: list[MetadataLog | Exception] = []
    is_done = trio.Event()

    def done(result: MetadataLog | Exception) -> None:
        found.append(result)
        is_done.set()

    jobs.start(disk, open_metadata_log(disk, folder_path, config), done)
    await is_done.wait()
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return result


async def closed(log: MetadataLog) -> None:
    """Close the log and wait until that is done."""
    is_done = trio.Event()
    log.close(lambda _result: is_done.set())
    await is_done.wait()


def _load_snapshot(disk: Disk, log: Log) -> Loaded:
    """Find the newest good snapshot that the log can begin with. It blocks."""
    problems = []
    for snapshot in reversed(snapshots.found_in(disk, log.folder)):
        if snapshot.end_offset < log.start_offset:
            break
        path = f"{log.folder}/{snapshots.file_name(snapshot)}"
        try:
            return Loaded(snapshot, snapshots.read(disk, path))
        except DamagedFile as error:
            problems.append(str(error))
    if log.start_offset > 0:
        detail = "; ".join(problems) or "there is none"
        reason = f"the log begins at {log.start_offset} and has no good snapshot of what is before"
        raise DamagedFile(log.folder, f"{reason}: {detail}")
    for problem in problems:
        _log.warning("%s; doing without it, as the log has all of it", problem)
    return Loaded()


def _begin_with(log: Log, snapshot: SnapshotId) -> Job[None]:
    """Finish what a crash has cut short: the log begins with its newest snapshot.

    If the log has not the snapshot's last entry, an installation was under way that replaces it.
    """
    end = snapshot.end_offset
    if end == log.start_offset:
        return
    if epoch_at(log.as_protocol(), end - 1) == snapshot.epoch:
        yield from advance_start(log, end)
    else:
        yield from reset(log, end)


def _protocol_log(log: Log, snapshot: SnapshotId) -> ProtocolLog:
    """Give the quorum's view: below its start, the log knows the snapshot's epoch."""
    if not snapshot.end_offset:
        return log.as_protocol()
    found = log.as_protocol()
    later = (each for each in found.epochs if each[0] > snapshot.epoch)
    first = (snapshot.epoch, snapshot.end_offset - 1)
    return ProtocolLog(snapshot.end_offset, found.end_offset, (first, *later))
