"""What an interrupted job has left in a log's folder, finished or removed before the log opens.

A file ending in `.cleaned` was being made by compaction and counts for nothing, as does `.tmp`. A
file of batches ending in `.swap` is complete: it takes the place of every segment in its range,
which is finished here if compaction could not. Its indexes are then made again: nobody knows
whether they became durable together with it.
"""

from __future__ import annotations

import re
from typing import Final

from storage.disk.seam import Disk
from storage.log.log import Log
from storage.log.segment import LOG, SNAPSHOT

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_SWAPPED: Final = re.compile(r"([0-9]{20})\.log\.swap")
_OBSOLETE: Final = re.compile(r".*\.(cleaned|deleted|tmp|(index|timeindex)\.swap)")
_FILE: Final = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")


def tidy(log: Log) -> list[int]:
    """Finish or remove what was under way; return the base offsets of the segments."""
    names = log.disk.list(log.folder)
    for name in names:
        if _OBSOLETE.fullmatch(name):
            log.disk.delete(f"{log.folder}/{name}")
    for name in names:
        if match := _SWAPPED.fullmatch(name):
            finish_swap(log, int(match[1]))
    return segment_bases(log)


def finish_swap(log: Log, base_offset: int) -> None:
    """Let a cleaned segment take the place of all in its range. It blocks; doing it twice is fine.

    That its file has its name need not be durable: until it is, the next start does this again.
    """
    swap = log.new_segment(base_offset, SWAP)
    end_offset = base_offset
    for _, header in swap.walk(0, size_bytes=log.disk.size(swap.path())):
        end_offset = header.end_offset
    remove_replaced(log.disk, log.folder, base_offset, end_offset)
    log.disk.rename(swap.path(), log.new_segment(base_offset).path())


def remove_replaced(disk: Disk, folder: str, base_offset: int, end_offset: int) -> None:
    """Delete, durably, what a cleaned segment replaces, except the file whose name it takes.

    The old indexes would point anywhere in it. The aborted transactions of the `.txnindex` have no
    records any more. Producers in a snapshot before its end may be in transactions whose markers
    are gone. It blocks.
    """
    for name in disk.list(folder):
        match = _FILE.fullmatch(name)
        if match is None or int(match[1]) >= end_offset:
            continue
        offset, kind = int(match[1]), match[2]
        is_within = offset > base_offset or (offset == base_offset and kind != LOG)
        if is_within or kind == SNAPSHOT:
            disk.delete(f"{folder}/{name}")
    disk.fsync_folder(folder)


def segment_bases(log: Log) -> list[int]:
    """Return the base offsets of the segments in the folder, ascending."""
    found = (_SEGMENT.fullmatch(name) for name in log.disk.list(log.folder))
    return [int(match[1]) for match in found if match]
