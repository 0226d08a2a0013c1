"""Let cleaned segments take the place of those they were made from, one exchange after another.

An exchange is decided when the cleaned file of batches is called `.swap`, durably: from then on a
start after a crash finishes it. The order keeps every reader on whole files, whatever falls into a
step that blocks:

1. Rename `.cleaned` to `.swap` and make that durable. Readers use the old segments, all there.
2. On the loop, put the new segment into the list, under its `.swap` names. Nobody uses the old.
3. Delete the old files, durably. Readers use the new segment, all there.
4. On the loop, rename `.swap` to the final names; the segment answers with them at once.

The last renaming is not made durable by itself: a start that still finds `.swap` does the same
again. Exchanges go from the front of the log to its end, each decided after the one before, so that
neither a tombstone nor a marker is ever gone before what it was kept for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage.disk.jobs import Job
from storage.errors import DiskFailed, disk_error
from storage.log.flushing import sync
from storage.log.leftovers import SWAP, remove_replaced
from storage.log.log import Log
from storage.log.rewriting import Cleaned, Exchange, discard


def swap(log: Log, cleaned: Cleaned) -> Job[bool]:
    """Make what was cleaned part of the log. It takes a turn of the log.

    `False` if the log has lost some of it meanwhile; then nothing has changed. `DiskFull`: the log
    is as it was, or has some of the cleaned segments: it says the same in any case. After
    `DiskFailed`, the next start finds out.
    """
    waiting = list(cleaned.exchanges)
    if not cleaned.plan.holds(log):
        discard(log, waiting)
        return False
    try:
        yield from _keep_producers(log, cleaned.plan.snapshot)
        while waiting:
            yield from _decide(log, waiting[0])
            yield from _finish(log, waiting.pop(0))
    except OSError as error:
        discard(log, waiting)
        raise disk_error(error, log.folder) from error
    # It becomes durable with the folder's next checkpoint: an older one only costs work.
    log.marks.cleaned.values[log.partition] = cleaned.end_offset
    return True


def _keep_producers(log: Log, snapshot: str) -> Job[None]:
    """See to it that a start after a crash goes on from this snapshot: older ones are deleted."""
    yield from _sync(log, partial(sync, log.disk, log.folder, (snapshot,), names=False))
    yield from log.marks.recovery_points.save()


def _decide(log: Log, exchange: Exchange) -> Job[None]:
    exchange.new.rename(SWAP)
    yield from _sync(log, partial(log.disk.fsync_folder, log.folder))


def _finish(log: Log, exchange: Exchange) -> Job[None]:
    old, new = exchange.old, exchange.new
    first = log.segments.index(old[0])
    log.segments[first : first + len(old)] = [new]
    log.segments_changed()
    for segment in old:
        segment.offsets.forget()
        segment.times.forget()
    remove = partial(remove_replaced, log.disk, log.folder, new.base_offset, new.end_offset)
    yield from _sync(log, remove)
    new.rename("")
    log.unsynced_names = True


def _sync(log: Log, work: Callable[[], None]) -> Job[None]:
    """Make something durable. What a failed attempt has lost, another would not notice."""
    try:
        yield work
    except OSError as error:
        raise DiskFailed(f"{log.folder}: {error}") from error
