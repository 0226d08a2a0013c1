"""A segment: one file of batches, an offset index and a time index, all named by its base offset.

It finds positions; it neither decides when to roll nor makes anything durable. Everything it knows
besides its files can be read from them again. The base offset of a segment is the end offset of
the one before, so that a missing file shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from storage.batch.header import HEADER_BYTES, LENGTH_FROM, NO_TIMESTAMP, Header, read_header
from storage.disk.seam import Disk
from storage.errors import DamagedLog
from storage.log import aborted
from storage.log.aborted import AbortedTransaction
from storage.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexCache, SparseIndex

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
ABORTED: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
_WALK_BYTES: Final = 4096


def file_name(offset: int, suffix: str) -> str:
    """Name a file of a log as Kafka does: twenty digits, so that names sort like offsets."""
    return f"{offset:020d}{suffix}"


class Segment:
    """The batches from `base_offset` to `end_offset`, and where they lie."""

    __slots__ = (
        "_disk",
        "_interval_bytes",
        "_last_indexed_ms",
        "_unindexed_bytes",
        "_unsaved_aborted",
        "base_offset",
        "end_offset",
        "first_timestamp_ms",
        "folder",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "size_bytes",
        "suffix",
        "times",
    )

    def __init__(
        self,
        disk: Disk,
        cache: IndexCache,
        folder: str,
        base_offset: int,
        interval_bytes: int,
        suffix: str = "",
    ) -> None:
        self._disk = disk
        self._interval_bytes = interval_bytes
        self._unindexed_bytes = 0
        self._last_indexed_ms = NO_TIMESTAMP
        self._unsaved_aborted: list[AbortedTransaction] = []
        self.folder = folder
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = 0
        self.suffix = suffix
        """What its names end with until it takes the place of others."""
        self.first_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.offsets = SparseIndex(disk, cache, self.path(INDEX), OFFSET_ENTRY)
        self.times = SparseIndex(disk, cache, self.path(TIME_INDEX), TIME_ENTRY)

    def path(self, kind: str = LOG) -> str:
        """The path of one of its files."""
        return f"{self.folder}/{file_name(self.base_offset, kind)}{self.suffix}"

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of everything that belongs to it alone, whether it is there or not."""
        return (self.path(), self.offsets.path, self.times.path, self.path(ABORTED))

    def create(self) -> None:
        """Make its files, empty."""
        for path in (self.path(), self.offsets.path, self.times.path):
            self._disk.create(path)
        # One may be left of a segment with the same base that was dropped before a crash.
        self._disk.delete(self.path(ABORTED))

    def delete(self) -> None:
        """Remove its files. Whoever has pinned one reads on."""
        self.offsets.forget()
        self.times.forget()
        for path in self.files:
            self._disk.delete(path)

    def rename(self, suffix: str) -> None:
        """End its names like this from now on; the file of batches gets its name last.

        If that fails half-way, it still knows the name that each file has.
        """
        for index in (self.times, self.offsets):
            source, target = index.path, index.path.removesuffix(self.suffix) + suffix
            self._disk.rename(source, target)
            index.forget()
            index.path = target
        self._disk.rename(self.path(), self.path().removesuffix(self.suffix) + suffix)
        self.suffix = suffix

    def note(self, header: Header, position: int) -> None:
        """A batch lies at `position` now, at the end."""
        # For every batch, so the header's own properties, which cost a call each, are not used.
        last_offset = header.base_offset + header.last_offset_delta
        timestamp_ms = header.max_timestamp_ms
        size = header.length + LENGTH_FROM
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
            self.max_timestamp_offset = last_offset
        if not position:
            self.first_timestamp_ms = timestamp_ms
        if self._unindexed_bytes > self._interval_bytes:
            self.offsets.append(last_offset - self.base_offset, position)
            if self.max_timestamp_ms > self._last_indexed_ms:
                self._note_time()
            self._unindexed_bytes = size
        else:
            self._unindexed_bytes += size
        self.size_bytes = position + size
        self.end_offset = last_offset + 1

    def note_aborted(self, ended: AbortedTransaction) -> None:
        """The marker of an aborted transaction lies here."""
        self._unsaved_aborted.append(ended)

    def aborted(self) -> list[AbortedTransaction]:
        """The transactions whose abort marker lies here, in the order of their markers."""
        path = self.path(ABORTED)
        if not self._disk.exists(path):
            return list(self._unsaved_aborted)
        saved = self._disk.read(path, 0, self._disk.size(path))
        return aborted.decode(saved, path) + self._unsaved_aborted

    def keep_aborted_below(self, offset: int) -> None:
        """Forget the markers at or after this offset; what lies after them may be torn."""
        self._keep_saved_aborted_below(offset)
        self._unsaved_aborted = [each for each in self._unsaved_aborted if each[2] < offset]

    def _keep_saved_aborted_below(self, offset: int) -> None:
        path = self.path(ABORTED)
        if self._disk.exists(path):
            saved = self._disk.read(path, 0, self._disk.size(path))
            kept = aborted.count_below(saved, offset)
            self._disk.truncate(path, kept * aborted.ENTRY_BYTES)

    def save_indexes(self) -> tuple[str, ...]:
        """Write what the indexes still hold in memory; return the files that changed."""
        changed = [index.path for index in (self.offsets, self.times) if index.save()]
        if self._unsaved_aborted:
            path = self.path(ABORTED)
            if not self._disk.exists(path):
                self._disk.create(path)
            entries = aborted.encode(self._unsaved_aborted)
            size_bytes = self._disk.size(path)
            try:
                self._disk.write(path, (entries,), size_bytes)
            except OSError:
                # Without room for all of it, nothing may stay: the next attempt comes behind it.
                self._disk.truncate(path, size_bytes)
                raise
            self._unsaved_aborted = []
            changed.append(path)
        return tuple(changed)

    def seal(self) -> tuple[str, ...]:
        """No batch comes any more: the time index gets the largest timestamp, as in Kafka."""
        self._note_time()
        return self.save_indexes()

    def trust(self, size_bytes: int, offset_bytes: int, time_bytes: int) -> None:
        """Its files are sound and have these sizes; a torn last index entry does not count."""
        self.size_bytes = size_bytes
        self.offsets.adopt(offset_bytes)
        self.times.adopt(time_bytes)
        self._recall_time()

    def forget_indexes(self) -> None:
        """Its indexes are made anew from its batches, which follow. The files stay as they are."""
        for index in (self.offsets, self.times):
            index.forget()
        self.trust(0, 0, 0)

    def renew_indexes(self, known_below: int) -> None:
        """Its batches are read and found good: empty the files for what they said.

        Of aborted transactions, those with a marker before `known_below` were not noted again.
        """
        for index in (self.offsets, self.times):
            self._disk.create(index.path)
        self._keep_saved_aborted_below(known_below)

    def replace_indexes(self) -> None:
        """Do the same for a segment that the next start would trust: all or nothing. It blocks."""
        self._note_time()
        self.offsets.replace()
        self.times.replace()

    def settle(self) -> None:
        """Find out where it ends, from the headers that follow the last index entry."""
        entry = self.offsets.last
        self.end_offset = self.base_offset
        self._unindexed_bytes = 0
        for position, header in self._walk_from(entry):
            self._unindexed_bytes += header.size_bytes
            self.end_offset = header.end_offset
            if header.max_timestamp_ms > self.max_timestamp_ms:
                self.max_timestamp_ms = header.max_timestamp_ms
                self.max_timestamp_offset = header.last_offset
            if not position:
                self.first_timestamp_ms = header.max_timestamp_ms
        if entry:
            self.first_timestamp_ms = next(self.walk(0))[1].max_timestamp_ms

    def cut(self, offset: int) -> None:
        """Forget what is at or after this offset. The file is cut at its batch, if it has one."""
        found = self.find(offset)
        if found is None:
            self.settle()
            return
        self.size_bytes = found[0]
        self.offsets.keep_below(offset - self.base_offset, 0)
        self.times.keep_below(offset - self.base_offset, 1)
        self.keep_aborted_below(offset)
        self._disk.truncate(self.path(), self.size_bytes)
        self._recall_time()
        self.settle()

    def end_before(self, offset: int) -> int:
        """Where the batches end that lie wholly before this offset: earlier if there is a gap."""
        entry = self.offsets.floor(offset - 1 - self.base_offset)
        end_offset = self.base_offset
        for _, header in self._walk_from(entry):
            if header.last_offset >= offset:
                break
            end_offset = header.end_offset
        return end_offset

    def _recall_time(self) -> None:
        last = self.times.last
        self._last_indexed_ms = self.max_timestamp_ms = last[0] if last else NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset + (last[1] if last else 0)

    def find(self, offset: int) -> tuple[int, Header] | None:
        """Return position and header of the first batch that ends after `offset`."""
        entry = self.offsets.floor(offset - self.base_offset)
        for position, header in self._walk_from(entry):
            if header.last_offset >= offset:
                return position, header
        return None

    def find_time(self, timestamp_ms: int) -> Iterator[tuple[int, Header]]:
        """Yield the batches that have a record of this time or later, or had one."""
        entry = self.times.below(timestamp_ms)
        begin = self.find(self.base_offset + entry[1]) if entry else (0, None)
        for position, header in self.walk(begin[0] if begin else self.size_bytes):
            if header.max_timestamp_ms >= timestamp_ms:
                yield position, header

    def boundary(self, start: int, limit: int) -> int:
        """Return where the last whole batch before position `limit` ends; one batch at least."""
        if limit >= self.size_bytes:
            return self.size_bytes
        entry = self.offsets.floor(limit, column=1)
        end = start
        indexed = entry is not None and entry[1] > start
        for position, header in self._walk_from(entry) if indexed else self.walk(start):
            if position > start and position + header.size_bytes > limit:
                return position
            end = position + header.size_bytes
            if end >= limit:
                return end
        return end

    def _walk_from(self, entry: tuple[int, int] | None) -> Iterator[tuple[int, Header]]:
        """Yield what `walk` does from an entry of the offset index on, or from the beginning.

        Index files have no checksum, so what one says is believed only if its batch is there.
        """
        if entry is None:
            yield from self.walk(0)
            return
        relative_offset, position = entry
        offset = self.base_offset + relative_offset
        if not 0 < position < self.size_bytes:
            raise self._wrong_index(position, offset)
        start = self._disk.read(self.path(), position, HEADER_BYTES)
        if len(start) == HEADER_BYTES and read_header(start).last_offset != offset:
            raise self._wrong_index(position, offset)
        yield from self.walk(position)

    def walk(
        self, position: int, path: str = "", size_bytes: int = -1
    ) -> Iterator[tuple[int, Header]]:
        """Yield position and header of each batch from one on; the bytes are trusted.

        `path` and `size_bytes` are those of its file, if they have not become its own yet.
        """
        path = path or self.path()
        end = self.size_bytes if size_bytes < 0 else size_bytes
        buffer, origin = bytearray(), position
        while position < end:
            at = position - origin
            if at + HEADER_BYTES > len(buffer):
                buffer, origin, at = self._disk.read(path, position, _WALK_BYTES), position, 0
            if len(buffer) < HEADER_BYTES:
                raise self._damage(position, "the file ends within a batch")
            header = read_header(buffer, at)
            if header.length < HEADER_BYTES - LENGTH_FROM or header.size_bytes > end - position:
                raise self._damage(position, f"a batch of {header.size_bytes} bytes does not fit")
            yield position, header
            position += header.size_bytes

    def _note_time(self) -> None:
        if self.max_timestamp_ms > self._last_indexed_ms:
            self.times.append(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)
            self._last_indexed_ms = self.max_timestamp_ms

    def _wrong_index(self, position: int, offset: int) -> DamagedLog:
        """What an index names must be there: `hwmark log repair` sets the index aside."""
        reason = f"no batch at byte {position} of the segment ends at this offset"
        return DamagedLog(self.offsets.path, 0, offset, reason)

    def _damage(self, position: int, reason: str) -> DamagedLog:
        return DamagedLog(self.path(), position, self.base_offset, reason)
