"""What files say, one piece after another, whether or not it is true: for eyes and for `jq`.

Nothing is left out because it is wrong: a fault is told and, where a length can be believed, what
comes behind it too. Memory is one buffer, whatever a file claims, and one batch for its records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

import attrs
from crc32c import crc32c

from storage import checkpoint
from storage.batch import records
from storage.batch.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from storage.batch.control import read_marker
from storage.batch.header import (
    CRC_FROM,
    HEADER_BYTES,
    Batch,
    Header,
    read_header,
    structural_fault,
)
from storage.batch.records import Record
from storage.disk.seam import Disk
from storage.errors import InvalidBatch, StorageError
from storage.inspect.index_check import entries
from storage.inspect.place import OFFSET_FILES
from storage.log import aborted
from storage.log.epochs import LEADER_EPOCHS, Epochs
from storage.log.index import OFFSET_ENTRY, TIME_ENTRY
from storage.log.producers import Producers

Row = dict[str, object]

CODEC_NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
_PIECE_BYTES: Final = 1024 * 1024
_SEGMENT: Final = re.compile(r"([0-9]{20})\.log(\.swap|\.cleaned|\.from-[0-9]+)?")
_BY_OFFSET: Final = re.compile(r"([0-9]{20})(\.index|\.timeindex|\.txnindex|\.snapshot)")


class NothingToShow(StorageError):  # noqa: N818 - it names the thing, like storage's other errors
    """A file that is none of ours."""


@attrs.frozen
class SeenBatch:
    """A batch as it lies there."""

    path: str
    position: int
    header: Header
    crc_fits: bool
    fault: str | None
    """Why it cannot stand here: its offset or its epoch."""
    marker: str | None
    """Of a control batch: what it says."""

    def to_json(self) -> Row:
        """Give it as JSON has it."""
        header = self.header
        return {
            "file": PurePath(self.path).name,
            "position": self.position,
            "size_bytes": header.size_bytes,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "leader_epoch": header.leader_epoch,
            "records": header.record_count,
            "crc": "ok" if self.crc_fits else "wrong",
            "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "transactional": header.is_transactional,
            "control": header.is_control,
            "marker": self.marker,
            "first_timestamp_ms": header.first_timestamp_ms,
            "max_timestamp_ms": header.max_timestamp_ms,
            "delete_horizon_ms": header.delete_horizon_ms,
            "fault": self.fault,
        }


@attrs.frozen
class SeenFault:
    """A place where no batch is; nothing behind it in this file can be shown."""

    path: str
    position: int
    reason: str
    left_bytes: int

    def to_json(self) -> Row:
        """Give it as JSON has it."""
        return {
            "file": PurePath(self.path).name,
            "position": self.position,
            "fault": self.reason,
            "left_bytes": self.left_bytes,
        }


def segment_base(path: str) -> int | None:
    """Tell with which offset a segment's file begins; `None` if it is no such file."""
    match = _SEGMENT.fullmatch(PurePath(path).name)
    return int(match[1]) if match else None


def segments(disk: Disk, folder: str, from_offset: int, to_offset: int) -> list[str]:
    """List the segments of a partition that can have these offsets, by their names."""
    names = [name for name in disk.list(folder) if _SEGMENT.fullmatch(name)]
    logs = [(int(name[:20]), f"{folder}/{name}") for name in sorted(names)]
    following = [*(base for base, _ in logs[1:]), checkpoint.MAX_INT64]
    return [
        path
        for (base, path), following_base in zip(logs, following, strict=True)
        if base <= to_offset and following_base > from_offset
    ]


def batches(
    disk: Disk, path: str, from_offset: int = 0, to_offset: int = checkpoint.MAX_INT64
) -> Iterator[SeenBatch | SeenFault]:
    """Yield the batches of a segment's file that have one of these offsets, both included."""
    end = disk.size(path)
    expected, epoch, position = segment_base(path) or 0, -1, 0
    while position < end:
        found = disk.read(path, position, HEADER_BYTES)
        if len(found) < HEADER_BYTES:
            reason = f"{end - position} bytes, less than a header"
            yield SeenFault(path, position, reason, end - position)
            return
        header = read_header(found)
        reason = structural_fault(header) or ""
        if not reason and header.size_bytes > end - position:
            reason = f"a batch of {header.size_bytes:,} bytes, of which {end - position:,} are here"
        if reason:
            yield SeenFault(path, position, reason, end - position)
            return
        if header.last_offset >= from_offset and header.base_offset <= to_offset:
            yield _seen(disk, path, position, header, _order_fault(header, expected, epoch))
        expected, epoch = header.end_offset, header.leader_epoch
        position += header.size_bytes


def _seen(disk: Disk, path: str, position: int, header: Header, fault: str | None) -> SeenBatch:
    crc_fits = _checksum(disk, path, position, header.size_bytes) == header.crc
    marker = None
    if header.is_control and crc_fits and header.size_bytes <= _PIECE_BYTES:
        view = memoryview(disk.read(path, position, header.size_bytes))
        try:
            said = read_marker(Batch(header, view))
        except InvalidBatch as invalid:
            fault = fault or invalid.reason
        else:
            marker = said.kind.name.lower() if said else "other"
    return SeenBatch(path, position, header, crc_fits, fault, marker)


def _order_fault(header: Header, expected: int, epoch: int) -> str | None:
    if header.base_offset < expected:
        return f"offset {expected:,} was to come"
    if header.leader_epoch < epoch:
        return f"after epoch {epoch}"
    return None


def _checksum(disk: Disk, path: str, position: int, size_bytes: int) -> int:
    checksum, at = 0, CRC_FROM
    while at < size_bytes:
        piece = disk.read(path, position + at, min(_PIECE_BYTES, size_bytes - at))
        if not piece:
            break
        checksum = int(crc32c(piece, checksum))
        at += len(piece)
    return checksum


def records_of(disk: Disk, batch: SeenBatch) -> Iterator[Record]:
    """Yield the records of a batch; `InvalidBatch` where they end before they should."""
    size = batch.header.size_bytes
    if size > records.MAX_RECORDS_BYTES:
        raise NothingToShow(f"{batch.path}: a batch of {size:,} bytes is too large to look into")
    view = memoryview(disk.read(batch.path, batch.position, size))
    return records.decode(Batch(batch.header, view))


def rows(disk: Disk, path: str) -> Iterator[Row]:
    """Yield what any other file of a log says, entry by entry; `DamagedFile` where it does not."""
    name = PurePath(path).name
    if name in OFFSET_FILES:
        return _offsets(disk, path)
    if name == LEADER_EPOCHS:
        return _epochs(disk, path)
    if name == checkpoint.CLEAN_SHUTDOWN:
        return _clean_stop(disk, path)
    match = _BY_OFFSET.fullmatch(name)
    if match is None:
        raise NothingToShow(
            f"{path}: no file of a log, by its name; a segment is called like"
            " 00000000000000000000.log, an index .index, .timeindex or .txnindex"
        )
    return _READERS[match[2]](disk, path, int(match[1]))


def _index(disk: Disk, path: str, base_offset: int) -> Iterator[Row]:
    for relative, position in entries(disk, path, OFFSET_ENTRY):
        yield {"last_offset": base_offset + relative, "position": position}


def _time_index(disk: Disk, path: str, base_offset: int) -> Iterator[Row]:
    for timestamp_ms, relative in entries(disk, path, TIME_ENTRY):
        yield {"timestamp_ms": timestamp_ms, "last_offset": base_offset + relative}


def _aborted(disk: Disk, path: str, _base_offset: int) -> Iterator[Row]:
    for entry in aborted.decode(checkpoint.read_whole(disk, path), path):
        yield entry._asdict()


def _snapshot(disk: Disk, path: str, _offset: int) -> Iterator[Row]:
    for entry in Producers.load(checkpoint.read_whole(disk, path), path).entries.values():
        yield {
            "producer_id": entry.producer_id,
            "epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "offset_delta": entry.offset_delta,
            "timestamp_ms": entry.timestamp_ms,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


def _offsets(disk: Disk, path: str) -> Iterator[Row]:
    found = checkpoint.decode_offsets(checkpoint.read_whole(disk, path), path)
    for (topic, partition), offset in found.items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _epochs(disk: Disk, path: str) -> Iterator[Row]:
    for epoch, start in Epochs.decode(checkpoint.read_whole(disk, path), path).entries:
        yield {"epoch": epoch, "start_offset": start}


def _clean_stop(disk: Disk, path: str) -> Iterator[Row]:
    epoch = checkpoint.decode_clean_shutdown(checkpoint.read_whole(disk, path), path)
    yield {"broker_epoch": epoch}


_READERS: Final[dict[str, Callable[[Disk, str, int], Iterator[Row]]]] = {
    ".index": _index,
    ".timeindex": _time_index,
    ".txnindex": _aborted,
    ".snapshot": _snapshot,
}
