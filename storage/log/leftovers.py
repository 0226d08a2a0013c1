"""What an interrupted job has left in a log's folder, finished or removed before the log opens.

A file ending in `.cleaned` was being made by compaction and counts for nothing, as does `.tmp`. A
segment ending in `.swap` is complete: it takes the place of every segment in its range, which is
finished here if compaction could not.
"""

from __future__ import annotations

import re
from typing import Final

from storage.log.log import Log
from storage.log.segment import LOG

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_SWAPPED: Final = re.compile(r"([0-9]{20})\.log\.swap")
_OBSOLETE: Final = re.compile(r".*\.(cleaned|deleted|tmp)")


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

    The indexes of those it replaces are gone, durably, before its file gets its name: they would
    point anywhere in it. Its own may be made again from its batches.
    """
    swap = log.new_segment(base_offset)
    source = swap.path(LOG + SWAP)
    end_offset = base_offset
    for _, header in swap.walk(0, path=source, size_bytes=log.disk.size(source)):
        end_offset = header.end_offset
    for base in segment_bases(log):
        if base_offset < base < end_offset:
            log.new_segment(base).delete()
    for path in swap.files[1:]:
        log.disk.delete(path)
    log.disk.fsync_folder(log.folder)
    log.disk.rename(source, swap.path())
    log.disk.fsync_folder(log.folder)


def segment_bases(log: Log) -> list[int]:
    """Return the base offsets of the segments in the folder, ascending."""
    found = (_SEGMENT.fullmatch(name) for name in log.disk.list(log.folder))
    return [int(match[1]) for match in found if match]
