"""Rebuild what a log knows of its producers: the newest good snapshot, and the batches after it.

Only headers are read, and the few markers. It is planned on the loop, because finding a position
uses the shared cache, and then done wherever it may block.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from storage import checkpoint
from storage.batch.header import Batch
from storage.disk.jobs import Job
from storage.errors import DamagedFile, DamagedLog, InvalidBatch
from storage.log.log import Log
from storage.log.producers import Producers
from storage.log.segment import Segment

_SNAPSHOT: Final = re.compile(r"([0-9]{20})\.snapshot")


def snapshots_of(log: Log) -> list[tuple[int, str]]:
    """List offset and path of the producer snapshots that the log has, the oldest first."""
    found = (_SNAPSHOT.fullmatch(name) for name in log.disk.list(log.folder))
    return [(int(match[1]), f"{log.folder}/{match[0]}") for match in found if match]


def newest_snapshot(log: Log, limit: int) -> tuple[int, Producers] | None:
    """Load the newest snapshot at or before an offset; one that is damaged does not count.

    A marker that is not committed yet keeps its transaction from readers, and a snapshot does not
    say which: so one that is not committed itself counts only if there is no older one.
    """
    found = None
    for offset, path in reversed(snapshots_of(log)):
        if not log.segments[0].base_offset <= offset <= limit:
            continue
        try:
            content = checkpoint.read_whole(log.disk, path)
            producers = Producers.load(content, path, log.config.max_producers)
        except DamagedFile:
            continue
        found = offset, producers
        if offset <= log.known_high_watermark or not producers.has_seen_markers:
            break
    if found is not None:
        found[1].on_high_watermark(log.known_high_watermark)
    return found


def recall_producers(log: Log) -> Job[None]:
    """Give the log the producers' state that belongs to its end. Nothing is appended meanwhile."""
    first = log.segments[0].base_offset
    offset, producers = newest_snapshot(log, log.end_offset) or (first, log.fresh_producers())
    log.producers = producers
    parts = []
    for segment in log.segments:
        if segment.end_offset > offset and (begin := segment.find(offset)):
            parts.append((segment, begin[0]))
    yield partial(_replay, log, parts)


def _replay(log: Log, parts: list[tuple[Segment, int]]) -> None:
    for segment, start in parts:
        for position, header in segment.walk(start):
            if header.producer_id < 0:
                continue
            size = header.size_bytes if header.is_control else 0
            view = memoryview(log.disk.read(segment.path(), position, size))
            try:
                log.observe(segment, Batch(header, view), aborted_is_known=True)
            except InvalidBatch as error:
                offset = header.base_offset
                raise DamagedLog(segment.path(), position, offset, error.reason) from error
