"""Aborted transactions: the `.txnindex` next to a segment, and what a read_committed fetch needs.

A segment's index has the transactions whose abort marker is in that segment, in the order of the
markers. What is in it can be had from the batches again, so a damaged index is rebuilt.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from storage.checkpoint import check_size
from storage.disk.seam import Buffer
from storage.errors import DamagedFile

_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """Whose transaction it was, from its first record to its marker, and what was stable then."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the abort marker."""
    last_stable_offset: int
    """The first offset that was still undecided after it: nothing before it can still abort."""


class Overlap(NamedTuple):
    """What a fetch has to skip, as far as one index says."""

    transactions: list[AbortedTransaction]
    complete: bool
    """Whether the index of the next segment need not be looked at."""


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """Write entries as they stand in the file; those of an append are simply joined to it."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode(content: Buffer, file: str) -> list[AbortedTransaction]:
    """Read a whole index; `DamagedFile` if the entries are not whole, or make no sense."""
    check_size(content, file)
    if len(content) % ENTRY_BYTES:
        raise DamagedFile(file, f"{len(content)} bytes are no multiple of {ENTRY_BYTES}")
    found: list[AbortedTransaction] = []
    previous = -1
    for index, (version, *fields) in enumerate(_ENTRY.iter_unpack(content)):
        entry = AbortedTransaction(*fields)
        if version != _VERSION:
            raise DamagedFile(file, f"entry {index}: version {version}, where only 0 is known")
        if not _may_follow(previous, entry):
            raise DamagedFile(file, f"entry {index}: {entry} cannot follow offset {previous}")
        previous = entry.last_offset
        found.append(entry)
    return found


def _may_follow(previous_last_offset: int, entry: AbortedTransaction) -> bool:
    return (
        entry.producer_id >= 0
        and 0 <= entry.first_offset < entry.last_offset
        and 0 <= entry.last_stable_offset <= entry.last_offset + 1
        and previous_last_offset < entry.last_offset
    )


def count_below(content: Buffer, offset: int) -> int:
    """Count the entries at the beginning that make sense and whose marker is before this offset."""
    previous = -1
    count = 0
    whole = memoryview(content)[: len(content) - len(content) % ENTRY_BYTES]
    for version, *fields in _ENTRY.iter_unpack(whole):
        entry = AbortedTransaction(*fields)
        if version != _VERSION or not _may_follow(previous, entry) or entry.last_offset >= offset:
            break
        previous = entry.last_offset
        count += 1
    return count


def overlapping(
    entries: Sequence[AbortedTransaction], fetch_offset: int, upper_offset: int
) -> Overlap:
    """Find the transactions with records from `fetch_offset` up to, not including, `upper_offset`.

    A transaction that ends later is in a later segment's index, unless the search is complete.
    """
    if fetch_offset >= upper_offset:
        return Overlap([], complete=True)
    found = []
    first = bisect_left(entries, fetch_offset, key=attrgetter("last_offset"))
    for index in range(first, len(entries)):
        entry = entries[index]
        if entry.first_offset < upper_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_offset:
            return Overlap(found, complete=True)
    return Overlap(found, complete=False)
