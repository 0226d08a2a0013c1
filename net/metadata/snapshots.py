"""Snapshots of the image in files, named as Kafka names them: `<end offset>-<epoch>.checkpoint`.

A snapshot is a file of record batches between two control records, written whole and renamed, so
that one which has its name is complete. It is read again batch by batch and checked in every byte
before anybody believes it. Which snapshot a log begins with is `net.metadata.log`'s business. All
functions that touch files block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from net.metadata.batches import (
    MAX_BATCH_BYTES,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    control_kind,
    read_records,
    record_batch,
    snapshot_footer_batch,
    snapshot_header_batch,
)
from net.metadata.codec import BadRecord
from net.metadata.image import image_of, image_records
from protocol.controller.state import Image
from protocol.quorum.log import SnapshotId
from storage.batch.header import HEADER_BYTES, Batch, read_header, split
from storage.checkpoint import TEMPORARY_SUFFIX
from storage.disk.seam import Disk
from storage.errors import DamagedFile, InvalidBatch

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".part"
"""What is being downloaded; it counts for nothing after a restart."""
MAX_SNAPSHOT_BYTES: Final = 2 * 1024 * 1024 * 1024
"""What is larger is not downloaded."""
_RECORDS_PER_BATCH: Final = 1_000
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


def file_name(snapshot: SnapshotId) -> str:
    """Name the file of a snapshot."""
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def found_in(disk: Disk, folder: str) -> list[SnapshotId]:
    """List the snapshots in a folder, the newest last."""
    matches = (_NAME.fullmatch(name) for name in disk.list(folder))
    found = [SnapshotId(int(match[1]), int(match[2])) for match in matches if match]
    return sorted(found, key=lambda each: (each.end_offset, each.epoch))


def write(disk: Disk, folder: str, snapshot: SnapshotId, image: Image, timestamp_ms: int) -> None:
    """Write a snapshot durably, all or nothing."""
    path = f"{folder}/{file_name(snapshot)}"
    temporary = path + TEMPORARY_SUFFIX
    disk.create(temporary)
    position = 0
    for batch in _batches(image, snapshot.epoch, timestamp_ms):
        position += disk.write(temporary, (batch.view,), position)
    disk.fsync(temporary)
    disk.rename(temporary, path)
    disk.fsync_folder(folder)


def _batches(image: Image, epoch: int, timestamp_ms: int) -> Iterator[Batch]:
    yield snapshot_header_batch(epoch, timestamp_ms)
    records, offset = image_records(image), 1
    while some := list(islice(records, _RECORDS_PER_BATCH)):
        yield record_batch(some, offset, epoch, timestamp_ms)
        offset += len(some)
    yield snapshot_footer_batch(offset, epoch, timestamp_ms)


def read(disk: Disk, path: str) -> Image:
    """Read a snapshot and check all of it; `DamagedFile` says what is wrong."""
    image, offset, kind = Image(), 0, None
    try:
        for batch in _read_batches(disk, path):
            header = batch.header
            if header.base_offset != offset:
                raise DamagedFile(path, f"a batch at {header.base_offset}, not at {offset}")
            if (offset == 0) != (control_kind(batch) == SNAPSHOT_HEADER):
                raise DamagedFile(path, "the header is not what it begins with")
            if kind == SNAPSHOT_FOOTER:
                raise DamagedFile(path, "something follows the footer")
            kind = control_kind(batch)
            image = image_of((record for _, record in read_records([batch])), image)
            offset = header.end_offset
    except (InvalidBatch, BadRecord) as error:
        raise DamagedFile(path, f"after {offset} records: {error}") from error
    if kind != SNAPSHOT_FOOTER:
        raise DamagedFile(path, f"it ends after {offset} records, without a footer")
    return image


def _read_batches(disk: Disk, path: str) -> Iterator[Batch]:
    position, size = 0, disk.size(path)
    while position < size:
        head = disk.read(path, position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            raise DamagedFile(path, f"it ends within a header, at byte {position}")
        length = read_header(head).size_bytes
        if not HEADER_BYTES <= length <= MAX_BATCH_BYTES:
            raise DamagedFile(path, f"a batch of {length} bytes at byte {position}")
        yield from split(disk.read(path, position, length), MAX_BATCH_BYTES)
        position += length
