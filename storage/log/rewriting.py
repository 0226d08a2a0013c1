"""Write the cleaned form of a part of a log next to it, while it is being read and appended to.

Steps of about a megabyte run where they may block and touch only files that no longer change, and
files of their own. Consecutive segments become one as long as the old ones would fit into it, as in
Kafka. When the job is done, `.cleaned` files are durable, and `swapping` lets them take their
place. All of them are there at once, so there must be room for what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs

from storage.batch.header import HEADER_BYTES, Batch, Header, checksum, headers, read_header
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import DamagedLog, StorageError, disk_error
from storage.log.cleanable import Plan
from storage.log.cleaning import AbortedBatches, Cleaner, placeholder
from storage.log.config import LogConfig
from storage.log.flushing import sync
from storage.log.leftovers import CLEANED, SWAP
from storage.log.log import Log
from storage.log.offset_map import MAX_KEYS, OffsetMap
from storage.log.scan import MAX_RELATIVE_OFFSET
from storage.log.segment import INDEX, LOG, TIME_INDEX, Segment, file_name

_RUN_BYTES: Final = 1024 * 1024
_MAX_POSITION: Final = 2**31 - 1

Work = Callable[[Sequence[Batch]], None]


class SegmentTooLarge(StorageError):  # noqa: N818 - it names the thing, like the other errors
    """What is left of a segment is larger than it was, and beyond what an index can point to."""


class _OvertakenError(Exception):
    """The log was cut or shortened meanwhile: what was read is not worth anything."""


@attrs.frozen
class Exchange:
    """Consecutive segments, and the one that takes their place."""

    old: tuple[Segment, ...]
    new: Segment


@attrs.define
class Cleaned:
    """What a cleaning has written, not yet part of the log."""

    plan: Plan
    exchanges: list[Exchange] = attrs.Factory(list)
    end_offset: int = 0
    """Up to here no record is left that a record before this offset supersedes."""
    records_removed: int = 0


def clean(log: Log, plan: Plan, max_keys: int = MAX_KEYS) -> Job[Cleaned | None]:
    """Rewrite what is planned; `None` if the log has lost some of it meanwhile.

    If there are too many keys, it cleans as far as the first `max_keys` of them reach, as Kafka
    does. If it fails, nothing of it remains. A log has one cleaning at a time.
    """
    cleaned = Cleaned(plan)
    try:
        yield from _clean(log, cleaned, max_keys)
    except Exception as error:
        discard(log, cleaned.exchanges)
        if not plan.holds(log) or log.cutting:
            return None
        if isinstance(error, OSError):
            raise disk_error(error, log.folder) from error
        raise
    return cleaned


def discard(log: Log, exchanges: Sequence[Exchange]) -> None:
    """Delete what was written for these, whatever its names are; the next start does so too."""
    for exchange in exchanges:
        for kind in (LOG, INDEX, TIME_INDEX):
            for suffix in (CLEANED, SWAP):
                name = file_name(exchange.new.base_offset, kind + suffix)
                with suppress(OSError):
                    log.disk.delete(f"{log.folder}/{name}")


def _clean(log: Log, cleaned: Cleaned, max_keys: int) -> Job[None]:
    plan = cleaned.plan
    cleaner = Cleaner(
        plan.now_ms,
        plan.now_ms + log.config.delete_retention_ms,
        plan.first_dirty_offset,
        {each.producer_id: each.last_offset for each in log.producers.entries.values()},
        frozenset(start for _, start in log.epochs.entries),
        OffsetMap(plan.first_dirty_offset, max_keys),
    )
    for segment in plan.segments:
        # Of what is clean already, only the markers of live producers are of interest.
        if segment.end_offset > plan.first_dirty_offset or cleaner.last_batches:
            survey = partial(cleaner.survey, aborted=_aborted(log, segment))
            yield from _go_through(log, plan, segment, survey)
        if cleaner.is_full:
            break
    cleaned.end_offset = cleaner.offsets.end_offset
    for old in _groups(plan.segments, cleaned.end_offset, log.config):
        new = log.new_segment(old[0].base_offset, CLEANED)
        cleaned.exchanges.append(Exchange(old, new))
        yield from _rewrite(log, cleaned.exchanges[-1], plan, cleaner)
    cleaned.records_removed = cleaner.records_removed


def _groups(
    segments: Sequence[Segment], end_offset: int, config: LogConfig
) -> Iterator[tuple[Segment, ...]]:
    """Put segments together that fit into one, of those that begin before an offset."""
    group: list[Segment] = []
    size_bytes = index_bytes = 0
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        size_bytes += segment.size_bytes
        index_bytes += max(segment.offsets.size_bytes, segment.times.size_bytes)
        if group and (
            size_bytes > config.segment_bytes
            or index_bytes > config.index_max_bytes
            or segment.end_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield tuple(group)
            group = []
            size_bytes = segment.size_bytes
            index_bytes = max(segment.offsets.size_bytes, segment.times.size_bytes)
        group.append(segment)
    if group:
        yield tuple(group)


def _rewrite(log: Log, exchange: Exchange, plan: Plan, cleaner: Cleaner) -> Job[None]:
    new = exchange.new
    new.create()
    last: list[Header] = []

    def work(batches: Sequence[Batch], aborted: AbortedBatches) -> None:
        last[:] = [batches[-1].header]
        _append(log.disk, new, cleaner.clean(batches, aborted))

    for segment in exchange.old:
        here = partial(work, aborted=_aborted(log, segment))
        yield from _go_through(log, plan, segment, here)
    # The next segment begins where this one ends, or a start after a crash would find a gap.
    if last and new.end_offset != last[0].end_offset:
        _append(log.disk, new, [placeholder(last[0])])
    new.seal()
    yield partial(sync, log.disk, log.folder, new.files[:3], names=False)


def _append(disk: Disk, segment: Segment, batches: Sequence[Batch]) -> None:
    start = segment.size_bytes
    content = b"".join(batch.view for batch in batches)
    if start + len(content) > _MAX_POSITION:
        raise SegmentTooLarge(f"{segment.path()}: more than {_MAX_POSITION} bytes")
    disk.write(segment.path(), (content,), start)
    for header in (batch.header for batch in batches):
        segment.note(header, segment.size_bytes)


def _aborted(log: Log, segment: Segment) -> AbortedBatches:
    return AbortedBatches(log.aborted_between(segment.base_offset, segment.end_offset))


def _go_through(log: Log, plan: Plan, segment: Segment, work: Work) -> Job[None]:
    """Do some work on all batches of a segment, run by run."""
    path, position, end = segment.path(), 0, segment.size_bytes
    while position < end:
        position = yield partial(_step, log.disk, path, position, end, work)
        if not plan.holds(log):
            raise _OvertakenError


def _step(disk: Disk, path: str, position: int, end: int, work: Work) -> int:
    """Do some work on the batches at a position; return the next one. It blocks."""
    batches = _read_run(disk, path, position, end)
    work(batches)
    return position + sum(batch.header.size_bytes for batch in batches)


def _read_run(disk: Disk, path: str, position: int, end: int) -> list[Batch]:
    """Read whole batches, one at least, and check them: a rotten one must not be built anew."""
    view = memoryview(disk.read(path, position, min(_RUN_BYTES, end - position)))
    found = [Batch(header, view[at : at + header.size_bytes]) for at, header in headers(view)]
    if not found:
        found = [_read_large(disk, path, position, end, view)]
    for header, content in found:
        if checksum(content) != header.crc:
            raise DamagedLog(path, position, header.base_offset, "the checksum does not fit")
        position += header.size_bytes
    return found


def _read_large(disk: Disk, path: str, position: int, end: int, beginning: memoryview) -> Batch:
    """Read a batch that is larger than a run."""
    if len(beginning) >= HEADER_BYTES:
        header = read_header(beginning)
        if HEADER_BYTES <= header.size_bytes <= end - position:
            view = memoryview(disk.read(path, position, header.size_bytes))
            return Batch(header, view)
    raise DamagedLog(path, position, -1, "no whole batch begins here")
