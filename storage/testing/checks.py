"""Compare everything that can be asked of an open log with a naive search through its files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import Final

from storage.batch.header import split
from storage.errors import InvalidBatch
from storage.log.log import Log
from storage.log.segment import Segment
from storage.testing import naive
from storage.testing.model import Broken, Kept, Seen
from storage.testing.naive import Lying, ProducerState

_RANGES: Final = 5
"""How many ranges of offsets are tried with each question that takes one."""


def look(log: Log) -> Seen:
    """Read what a log has, from its files; `Broken` if they do not make a log."""
    expected = log.segments[0].base_offset
    batches: list[bytes] = []
    for segment in log.segments:
        if segment.base_offset != expected:
            raise Broken(f"{segment.path()}: a segment at {expected} was to come")
        expected = _look_into(log, segment, batches)
    if expected != log.end_offset:
        raise Broken(f"{log.folder} ends at {expected} and says {log.end_offset}")
    return Seen(
        log.start_offset,
        log.end_offset,
        log.segments[0].base_offset,
        batches,
        producers_of(log),
    )


def _look_into(log: Log, segment: Segment, batches: list[bytes]) -> int:
    content = log.disk.read(segment.path(), 0, log.disk.size(segment.path()))
    if len(content) != segment.size_bytes:
        raise Broken(f"{segment.path()} has {len(content)} bytes, not {segment.size_bytes}")
    end_offset = segment.base_offset
    try:
        for header, view in split(content):
            if header.base_offset < end_offset:
                raise Broken(f"{segment.path()}: offset {header.base_offset} after {end_offset}")
            end_offset = header.end_offset
            batches.append(bytes(view))
    except InvalidBatch as error:
        raise Broken(f"{segment.path()}: {error}") from error
    if segment.end_offset != end_offset:
        raise Broken(f"{segment.path()} ends at {end_offset} and says {segment.end_offset}")
    return end_offset


def producers_of(log: Log) -> dict[int, ProducerState]:
    """What the log remembers of its producers, as the model has it."""
    return {
        producer_id: ProducerState(
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.transaction_first_offset,
            entry.timestamp_ms,
        )
        for producer_id, entry in log.producers.entries.items()
    }


def check(log: Log, batches: Sequence[Kept], random: Random) -> None:
    """Ask a log everything; these are its batches. `Broken` if an answer is wrong."""
    lying = place(log, batches)
    _check_indexes(log, lying)
    _check_find(log, lying)
    _check_times(log, lying, random)
    _check_epochs(log, lying)
    _check_stable(log)
    for _ in range(_RANGES):
        _check_range(log, lying, random)


def place(log: Log, batches: Sequence[Kept]) -> list[Lying]:
    """Say where the batches lie that are in the log's files."""
    bases = [segment.base_offset for segment in log.segments]
    lying: list[Lying] = []
    for batch in batches:
        if batch.base_offset < bases[0]:
            continue
        path = log.segments[bisect_right(bases, batch.base_offset) - 1].path()
        same = bool(lying) and lying[-1].path == path
        position = lying[-1].position + len(lying[-1].batch.data) if same else 0
        lying.append(Lying(path, position, batch))
    return lying


def _check_indexes(log: Log, lying: Sequence[Lying]) -> None:
    """Every entry of an offset index says where a batch is; none is missing, none too many."""
    for segment in log.segments:
        since, expected = 0, []
        for path, position, batch in lying:
            if path == segment.path():
                if since > log.config.index_interval_bytes:
                    expected.append((batch.header.last_offset - segment.base_offset, position))
                    since = 0
                since += len(batch.data)
        if segment.offsets.entries() != expected:
            found = segment.offsets.entries()
            raise Broken(f"{segment.offsets.path}: {found}, and not {expected}")


def _check_find(log: Log, lying: Sequence[Lying]) -> None:
    number = 0
    for offset in range(log.segments[0].base_offset, log.end_offset + 1):
        while number < len(lying) and lying[number].batch.end_offset <= offset:
            number += 1
        segment = log.segment_of(offset)
        expected = lying[number] if number < len(lying) else None
        if expected is not None and expected.path != segment.path():
            expected = None
        found = segment.find(offset)
        answer = (found[0], found[1]) if found else None
        if answer != ((expected.position, expected.batch.header) if expected else None):
            raise Broken(f"offset {offset}: found {answer}, and not {expected}")


def _check_times(log: Log, lying: Sequence[Lying], random: Random) -> None:
    times = sorted({time_ms for each in lying for _, time_ms in each.batch.times})
    asked = [each + random.choice((0, 1)) for each in random.sample(times, min(len(times), 5))]
    for time_ms in (*asked, 0):
        for end_offset in (log.end_offset, random.randint(log.start_offset, log.end_offset)):
            expected = naive.find_time(lying, log.start_offset, time_ms, end_offset)
            found = log.find_time(time_ms, end_offset)
            if found != expected:
                raise Broken(f"time {time_ms} below {end_offset}: {found}, and not {expected}")
    if not times:
        return
    newest = naive.find_time(lying, log.start_offset, times[-1], log.end_offset)
    if newest and log.newest_time(log.end_offset) != newest:
        raise Broken(f"newest: {log.newest_time(log.end_offset)}, and not {newest}")


def _check_epochs(log: Log, lying: Sequence[Lying]) -> None:
    """Every batch is in its epoch, and an epoch begins with its first batch.

    Where a gap was left, the first epoch may begin before its first batch, or have none.
    """
    view = log.as_protocol()
    starts = [start for _, start in view.epochs]
    first_offsets: dict[int, int] = {}
    for _, _, batch in lying:
        if batch.end_offset <= log.start_offset:
            continue
        offset = max(batch.base_offset, log.start_offset)
        number = bisect_right(starts, offset) - 1
        found = view.epochs[number] if number >= 0 else None
        if found is None or found[0] != batch.header.leader_epoch:
            raise Broken(f"offset {offset} is in {found} of {view.epochs}")
        first_offsets.setdefault(found[0], offset)
    for epoch, start in view.epochs:
        if first_offsets.get(epoch, start) != start and start != log.start_offset:
            raise Broken(f"epoch {epoch} begins at {first_offsets[epoch]}, and not at {start}")


def _check_stable(log: Log) -> None:
    """Open transactions and the last stable offset follow from what is known of the producers."""
    undecided = naive.first_undecided(producers_of(log).values())
    if log.producers.first_undecided_offset != undecided:
        raise Broken(f"undecided from {log.producers.first_undecided_offset}, not {undecided}")
    stable = log.end_offset if undecided is None else min(undecided, log.end_offset)
    if log.producers.last_stable_offset(log.end_offset) != stable:
        raise Broken(f"stable to {log.producers.last_stable_offset(log.end_offset)}, not {stable}")


def _check_range(log: Log, lying: Sequence[Lying], random: Random) -> None:
    offset = random.randint(log.segments[0].base_offset, log.end_offset)
    end_offset = random.choice((log.end_offset, random.randint(offset, log.end_offset)))
    max_bytes = random.choice((1, 150, random.randint(1, 2000), 1 << 20))
    expected = naive.read(lying, offset, end_offset, max_bytes)
    found = log.read(offset, end_offset, max_bytes)
    if found != expected:
        asked = f"{offset} to {end_offset}, {max_bytes} bytes"
        raise Broken(f"{asked}: read {found}, and not {expected}")
    inside = [each for each in lying if offset < each.batch.end_offset <= end_offset]
    bytes_between = log.bytes_between(offset, end_offset)
    if inside and bytes_between < sum(len(each.batch.data) for each in inside):
        raise Broken(f"{offset} to {end_offset} has more than {bytes_between} bytes")
    _check_aborted(log, lying, offset, end_offset)


def _check_aborted(log: Log, lying: Sequence[Lying], offset: int, end_offset: int) -> None:
    """A reader that skips what it is told to skip skips exactly what was aborted."""
    aborted = naive.aborted(lying)
    told = log.aborted_between(offset, end_offset)
    for _, _, (header, _, _, commits) in lying:
        if commits is not None or not header.is_transactional:
            continue
        if not max(offset, header.base_offset) < min(end_offset, header.end_offset):
            continue
        skipped = any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset < each.last_offset
            for each in told
        )
        if skipped != (header.base_offset in aborted):
            raise Broken(
                f"{offset} to {end_offset}: the batch at {header.base_offset} is aborted:"
                f" {not skipped}, but {told}"
            )
