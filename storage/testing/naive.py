"""What a log's answers should be, computed from its batches one by one, without any index.

It shares no code with what it judges, except the layout of a header.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from storage.disk.seam import FileRange

if TYPE_CHECKING:
    from storage.testing.model import Kept


class ProducerState(NamedTuple):
    """What has to be remembered of a producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    transaction_first_offset: int | None
    timestamp_ms: int


class Lying(NamedTuple):
    """A batch and where it lies."""

    path: str
    position: int
    batch: Kept


def replay(batches: Iterable[Kept]) -> dict[int, ProducerState]:
    """Go through batches in order and note what each says about its producer."""
    known: dict[int, ProducerState] = {}
    for header, _, _, commits in batches:
        if header.producer_id < 0:
            continue
        state = known.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            first = state.transaction_first_offset if state else None
            state = ProducerState(header.producer_epoch, -1, -1, first, -1)
        if commits is not None:
            state = state._replace(transaction_first_offset=None)
        else:
            state = state._replace(
                last_sequence=header.last_sequence, last_offset=header.last_offset
            )
            if header.is_transactional and state.transaction_first_offset is None:
                state = state._replace(transaction_first_offset=header.base_offset)
        known[header.producer_id] = state._replace(timestamp_ms=header.max_timestamp_ms)
    return known


def first_undecided(states: Iterable[ProducerState]) -> int | None:
    """Where the first open transaction begins."""
    return min(
        (
            each.transaction_first_offset
            for each in states
            if each.transaction_first_offset is not None
        ),
        default=None,
    )


def find(batches: Sequence[Lying], offset: int) -> Lying | None:
    """Find the first batch that ends after an offset."""
    return next((each for each in batches if each.batch.end_offset > offset), None)


def read(
    batches: Sequence[Lying], offset: int, end_offset: int, max_bytes: int
) -> FileRange | None:
    """Find what a fetch gets: whole batches of one file, one at least."""
    first = find(batches, offset)
    if first is None or offset >= end_offset or first.batch.end_offset > end_offset:
        return None
    length = 0
    for path, position, batch in batches:
        if path != first.path or position < first.position:
            continue
        size = len(batch.data)
        if batch.end_offset > end_offset or (length and length + size > max_bytes):
            break
        length += size
    return FileRange(first.path, first.position, length)


def find_time(
    batches: Sequence[Lying], start_offset: int, timestamp_ms: int, end_offset: int
) -> tuple[int, int, int] | None:
    """Find offset, time and epoch of the first record of this time or later."""
    for _, _, batch in batches:
        for offset, time_ms in batch.times:
            if time_ms >= timestamp_ms and offset >= start_offset:
                epoch = batch.header.leader_epoch
                return (offset, time_ms, epoch) if offset < end_offset else None
    return None


def aborted(batches: Sequence[Lying]) -> set[int]:
    """Return the base offsets of the data batches that an abort marker has undone."""
    undecided: dict[int, list[int]] = {}
    found: set[int] = set()
    for _, _, batch in batches:
        header = batch.header
        if batch.commits is None:
            if header.is_transactional:
                undecided.setdefault(header.producer_id, []).append(header.base_offset)
        else:
            ended = undecided.pop(header.producer_id, [])
            if not batch.commits:
                found.update(ended)
    return found
