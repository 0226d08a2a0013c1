"""Sparse indexes: files of sorted entries of one size, written at the end, searched by bisection.

An offset index has (relative offset of a batch's last record, position of the batch), a time index
has (largest timestamp so far, relative offset of the batch that has it); both are big-endian, as in
Kafka. An index can always be made again from its segment. Entries wait in memory until some have
come together; what was read from a file stays in a cache shared by all logs and bounded in bytes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from storage import checkpoint
from storage.disk import jobs
from storage.disk.seam import Disk

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
_SAVE_BYTES: Final = 512
"""How many bytes of entries wait in memory at most."""
_Search: TypeAlias = Callable[..., int]
_Columns: TypeAlias = "tuple[array[int], array[int]]"


class IndexCache:
    """What index files have that were searched lately, column by column, in so many bytes at most.

    As arrays of the machine's own numbers they are searched without a call for each step.
    """

    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._files: OrderedDict[str, _Columns] = OrderedDict()

    def get(self, disk: Disk, path: str, size_bytes: int, entry: struct.Struct) -> _Columns:
        """Return the entries in the first `size_bytes` of an index file."""
        found = self._files.get(path)
        if found is None:
            found = _columns(disk.read(path, 0, size_bytes), entry)
            self._files[path] = found
            self.size_bytes += _bytes_of(found)
            self._drop_beyond_the_bound()
        else:
            self._files.move_to_end(path)
        return found

    def extend(self, path: str, entries: bytearray, entry: struct.Struct) -> None:
        """Entries were written at the end of a file."""
        found = self._files.get(path)
        if found is not None:
            self.size_bytes -= _bytes_of(found)
            for column, more in zip(found, _columns(entries, entry), strict=True):
                column.extend(more)
            self.size_bytes += _bytes_of(found)
            self._drop_beyond_the_bound()

    def forget(self, path: str) -> None:
        """A file was cut, deleted or replaced."""
        found = self._files.pop(path, None)
        if found is not None:
            self.size_bytes -= _bytes_of(found)

    def _drop_beyond_the_bound(self) -> None:
        while self.size_bytes > self.max_bytes and len(self._files) > 1:
            _, dropped = self._files.popitem(last=False)
            self.size_bytes -= _bytes_of(dropped)


def _columns(content: bytearray, entry: struct.Struct) -> _Columns:
    whole = memoryview(content)[: len(content) - len(content) % entry.size]
    if entry is OFFSET_ENTRY:
        both = array("i", whole.tobytes())
        if sys.byteorder == "little":
            both.byteswap()
        return both[0::2], both[1::2]
    pairs = list(entry.iter_unpack(whole))
    return array("q", [first for first, _ in pairs]), array("i", [second for _, second in pairs])


def _bytes_of(columns: _Columns) -> int:
    return sum(len(column) * column.itemsize for column in columns)


class SparseIndex:
    """One index file of a segment and the entries that are not in it yet."""

    __slots__ = ("_cache", "_disk", "_entry", "_pending", "_saved_bytes", "path")

    def __init__(self, disk: Disk, cache: IndexCache, path: str, entry: struct.Struct) -> None:
        self.path = path
        self._disk = disk
        self._cache = cache
        self._entry = entry
        self._pending = bytearray()
        self._saved_bytes = 0

    @property
    def size_bytes(self) -> int:
        """All entries, saved or not."""
        return self._saved_bytes + len(self._pending)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry."""
        if not self.size_bytes:
            return None
        return self._at(self.size_bytes - self._entry.size)

    def append(self, first: int, second: int) -> None:
        """Add an entry; both its columns are larger than those of the last one, or equal."""
        self._pending += self._entry.pack(first, second)

    def adopt(self, size_bytes: int) -> None:
        """The file has so many bytes of good entries; a last one that is not whole is left out."""
        self._pending = bytearray()
        self._saved_bytes = size_bytes - size_bytes % self._entry.size

    @property
    def wants_saving(self) -> bool:
        """Whether enough entries have come together for a write."""
        return len(self._pending) >= _SAVE_BYTES

    def save(self) -> bool:
        """Write what is pending; return whether there was something. It is not durable yet."""
        if not self._pending:
            return False
        try:
            self._disk.write(self.path, (self._pending,), self._saved_bytes)
        except OSError:
            # Without room for all of it, nothing may stay: a cut might not find it again.
            self._disk.truncate(self.path, self._saved_bytes)
            raise
        self._cache.extend(self.path, self._pending, self._entry)
        self._saved_bytes += len(self._pending)
        self._pending = bytearray()
        return True

    def replace(self) -> None:
        """Give the file what is here instead of what it has, all or nothing. It blocks."""
        content = self._all()
        jobs.run(checkpoint.replace(self._disk, self.path, bytes(content)))
        self._cache.forget(self.path)
        self.adopt(len(content))

    def floor(self, value: int, column: int = 0) -> tuple[int, int] | None:
        """Return the last entry whose column is at most `value`."""
        return self._before(value, column, bisect_right)

    def below(self, value: int) -> tuple[int, int] | None:
        """Return the last entry whose first column is less than `value`."""
        return self._before(value, 0, bisect_left)

    def keep_below(self, value: int, column: int) -> None:
        """Drop every entry whose column is `value` or more, in the file too."""
        entries = self._all()
        keep = self._count_before(entries, value, column, bisect_left) * self._entry.size
        if keep < self._saved_bytes:
            self._cache.forget(self.path)
            self._disk.truncate(self.path, keep)
            self._saved_bytes = keep
        del self._pending[keep - self._saved_bytes :]

    def entries(self) -> list[tuple[int, int]]:
        """Return everything: for tools and tests."""
        return [(first, second) for first, second in self._entry.iter_unpack(self._all())]

    def forget(self) -> None:
        """The file goes away."""
        self._cache.forget(self.path)

    def _all(self) -> bytearray:
        saved = self._disk.read(self.path, 0, self._saved_bytes) if self._saved_bytes else b""
        return bytearray(saved) + self._pending

    def _at(self, position: int) -> tuple[int, int]:
        if position >= self._saved_bytes:
            found = self._entry.unpack_from(self._pending, position - self._saved_bytes)
        else:
            found = self._entry.unpack(self._disk.read(self.path, position, self._entry.size))
        return found[0], found[1]

    def _before(self, value: int, column: int, search: _Search) -> tuple[int, int] | None:
        pending, unpack = self._pending, self._entry.unpack_from
        if pending and unpack(pending)[column] <= value:
            count = self._count_before(pending, value, column, search)
            if count:
                first, second = unpack(pending, (count - 1) * self._entry.size)
                return first, second
        if not self._saved_bytes:
            return None
        columns = self._cache.get(self._disk, self.path, self._saved_bytes, self._entry)
        count = search(columns[column], value)
        return (columns[0][count - 1], columns[1][count - 1]) if count else None

    def _count_before(self, entries: bytearray, value: int, column: int, search: _Search) -> int:
        unpack, size = self._entry.unpack_from, self._entry.size
        indexes = range(len(entries) // size)
        return search(indexes, value, key=lambda index: unpack(entries, index * size)[column])
