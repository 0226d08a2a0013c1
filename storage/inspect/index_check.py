"""Compare the sparse indexes of a segment with its batches, both read once, side by side.

An index may have fewer entries than it could: that costs time and no truth, and is not looked for.
"""

from __future__ import annotations

import abc
import struct
from collections.abc import Iterator
from typing import Final

from storage.batch.header import NO_TIMESTAMP, Header
from storage.disk.seam import Disk
from storage.log.index import OFFSET_ENTRY, TIME_ENTRY

_PIECE_ENTRIES: Final = 4096


def entries(disk: Disk, path: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """Yield the whole entries of an index file, a piece of it in memory at a time."""
    position, piece_bytes = 0, _PIECE_ENTRIES * entry.size
    while True:
        piece = disk.read(path, position, piece_bytes)
        whole = len(piece) - len(piece) % entry.size
        yield from entry.iter_unpack(memoryview(piece)[:whole])
        if len(piece) < piece_bytes:
            return
        position += len(piece)


class IndexCheck(abc.ABC):
    """An index that is told of the batches of its segment; `reason` is what is wrong with it."""

    entry: struct.Struct

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.path = path
        self.reason: str | None = None
        self.position = 0
        """Where in the file it is wrong."""
        self.base_offset = base_offset
        self._torn_bytes = disk.size(path) % self.entry.size
        self._entries = entries(disk, path, self.entry)
        self._number = -1
        self._next: tuple[int, int] | None = (-1, -1)
        self._advance()

    @abc.abstractmethod
    def batch(self, position: int, header: Header) -> None:
        """Hear of the next batch."""

    def end(self) -> None:
        """Hear that no batch follows."""
        if self.reason is None:
            if self._next is not None:
                self._fail(f"{self._next} is behind the last batch")
            elif self._torn_bytes:
                self._number += 1
                self._fail(f"{self._torn_bytes} bytes are no whole entry")

    def _advance(self) -> None:
        previous, self._next = self._next, next(self._entries, None)
        if self._next is None or previous is None:
            return
        self._number += 1
        if not (previous[0] < self._next[0] and previous[1] < self._next[1]):
            self._fail(f"{self._next} does not follow {previous}")

    def _fail(self, reason: str) -> None:
        self.reason = f"entry {self._number}: {reason}"
        self.position = self._number * self.entry.size
        self._next = None
        self._entries = iter(())


class OffsetIndexCheck(IndexCheck):
    """Entries are (relative last offset, position) of batches."""

    entry = OFFSET_ENTRY

    def batch(self, position: int, header: Header) -> None:
        """Hear of the next batch."""
        while self._next is not None and self._next[1] <= position:
            relative, pointed = self._next
            if pointed != position:
                self._fail(f"no batch begins at byte {pointed:,}")
            elif self.base_offset + relative != header.last_offset:
                self._fail(
                    f"offset {self.base_offset + relative:,}, where the batch at byte"
                    f" {position:,} ends with {header.last_offset:,}"
                )
            else:
                self._advance()


class TimeIndexCheck(IndexCheck):
    """Entries are (largest timestamp so far, relative last offset of the batch that has it)."""

    entry = TIME_ENTRY
    _largest_ms = NO_TIMESTAMP

    def batch(self, position: int, header: Header) -> None:
        """Hear of the next batch."""
        del position
        self._largest_ms = max(self._largest_ms, header.max_timestamp_ms)
        while self._next is not None and self.base_offset + self._next[1] <= header.last_offset:
            timestamp_ms, relative = self._next
            if self.base_offset + relative != header.last_offset:
                self._fail(f"no batch ends with offset {self.base_offset + relative:,}")
            elif not timestamp_ms == header.max_timestamp_ms == self._largest_ms:
                self._fail(
                    f"time {timestamp_ms} at offset {header.last_offset:,}, where the batch has"
                    f" {header.max_timestamp_ms} and the largest so far is {self._largest_ms}"
                )
            else:
                self._advance()
