"""What a partition's log may contain after a crash, said as simply as possible.

The model has every batch that was given to the log, what was flushed, and the one operation that
may have been under way. It knows nothing of segments, indexes or files. What it allows:

- at rest, or during an append, a roll, a flush or a checkpoint: the log as it was, or as much of
  its beginning as whole batches make, but everything that a completed flush covered;
- during a truncation: the same, where only what the cut leaves has to be there;
- during an advance of the start: the same, beginning at the old or at the new start;
- during a reset: empty at its offset, or any unbroken run of the batches from before.

What a completed cut has taken away is no longer in the model, so that it may not come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from storage.batch.header import Header
from storage.testing.naive import ProducerState, replay


class Broken(Exception):  # noqa: N818 - it names what was found
    """A promise of the log is broken."""


class Kept(NamedTuple):
    """A batch as it was appended."""

    header: Header
    data: bytes
    times: tuple[tuple[int, int], ...]
    """Offset and timestamp of each record."""
    commits: bool | None = None
    """For a marker: whether it commits."""

    @property
    def base_offset(self) -> int:
        """Where it begins."""
        return self.header.base_offset

    @property
    def end_offset(self) -> int:
        """Where the next one may begin."""
        return self.header.end_offset


class Seen(NamedTuple):
    """What a log turns out to have after a start."""

    start_offset: int
    end_offset: int
    first_base_offset: int
    """Where its first segment begins."""
    batches: list[bytes]
    producers: dict[int, ProducerState]


class PartitionModel:
    """One partition: `batches` also has those that retention took, as producers are remembered."""

    def __init__(self, start_offset: int) -> None:
        self.batches: list[Kept] = []
        self.start_offset = start_offset
        self.flushed_end = start_offset
        self.cutting_to: int | None = None
        self.advancing_to: int | None = None
        self.resetting_to: int | None = None
        self.origins = {start_offset}
        """From where on the producers may have been remembered: as old snapshots do, or anew."""

    @property
    def end_offset(self) -> int:
        """Where the log ends, as far as its batches say."""
        return self.batches[-1].end_offset if self.batches else self.start_offset

    def kept_end(self, offset: int, first_base_offset: int) -> int:
        """Where a log that is cut at this offset ends: with the last batch before it."""
        kept = [each.end_offset for each in self.batches if each.end_offset <= offset]
        return max([first_base_offset, *kept])

    def appended(self, batches: Sequence[Kept]) -> None:
        """Batches are about to be appended: from now on they may be there."""
        self.batches += batches

    def refused_from(self, offset: int) -> None:
        """What is at or after this offset was refused."""
        self.batches = [each for each in self.batches if each.base_offset < offset]

    def flushed(self, end_offset: int) -> None:
        """A flush is complete: what is before this offset stays."""
        self.flushed_end = max(self.flushed_end, end_offset)

    def cut(self, offset: int) -> None:
        """A truncation is complete: what was cut never comes back."""
        self.batches = [each for each in self.batches if each.end_offset <= offset]
        self.flushed_end = min(self.flushed_end, self.end_offset)
        self.cutting_to = None

    def advanced(self, start_offset: int) -> None:
        """An advance of the start is complete."""
        self.start_offset = start_offset
        self.advancing_to = None

    def reset(self, start_offset: int) -> None:
        """A reset is complete."""
        self.batches = []
        self.start_offset = self.flushed_end = start_offset
        self.resetting_to = None
        self.origins = {start_offset}

    def adopt(self, seen: Seen) -> None:
        """Check what a log has after a start, and go on from there; `Broken` if it may not."""
        first, last = self._place(seen)
        self._check_start(seen)
        start_offset = seen.start_offset
        if self.resetting_to is None:
            for lost in self.batches[:first]:
                if lost.end_offset > start_offset:
                    raise Broken(f"{_shown(lost)} is gone, and the log begins at {start_offset}")
            for lost in self.batches[last:]:
                if start_offset < lost.end_offset <= self._must_have():
                    raise Broken(f"{_shown(lost)} was flushed and is gone")
        self.origins.add(seen.first_base_offset)
        self.batches = self._remembered(seen, last)
        self.start_offset = start_offset
        self.flushed_end = seen.end_offset
        self.cutting_to = self.advancing_to = self.resetting_to = None

    def _must_have(self) -> int:
        return min(
            self.flushed_end, self.flushed_end if self.cutting_to is None else self.cutting_to
        )

    def _place(self, seen: Seen) -> tuple[int, int]:
        """Find the run of batches that a log has; `Broken` if it has anything else."""
        known = [each.data for each in self.batches]
        if not seen.batches:
            below = sum(each.end_offset <= seen.start_offset for each in self.batches)
            return below, below
        try:
            first = known.index(seen.batches[0])
        except ValueError:
            raise Broken("the first batch was never appended, or was cut before") from None
        last = first + len(seen.batches)
        for number, (one, other) in enumerate(zip(known[first:last], seen.batches, strict=False)):
            if one != other:
                raise Broken(f"not {_shown(self.batches[first + number])}, but something else")
        if last > len(known):
            raise Broken(f"{last - len(known)} batches more than were appended, or cut before")
        return first, last

    def _check_start(self, seen: Seen) -> None:
        allowed = {self.start_offset}
        if self.advancing_to is not None:
            allowed.add(self.advancing_to)
        if self.resetting_to is not None:
            allowed |= {self.resetting_to, seen.first_base_offset}
        if seen.start_offset not in allowed:
            raise Broken(f"the log begins at {seen.start_offset}, and not at {sorted(allowed)}")
        if seen.end_offset < seen.start_offset:
            raise Broken(f"the log ends at {seen.end_offset}, before {seen.start_offset}")

    def _remembered(self, seen: Seen, last: int) -> list[Kept]:
        """Find the batches that the producers' state comes from: those of the log and before.

        If nothing is left but a start, batches below it may have been read before they went.
        """
        candidates = [last] if seen.batches else range(last, -1, -1)
        for count in candidates:
            if seen.producers in self.producer_states(self.batches[:count]):
                return self.batches[:count]
        (expected, *_) = self.producer_states(self.batches[:last])
        raise Broken(f"the producers are {seen.producers}, and not {expected}")

    def producer_states(self, batches: Sequence[Kept]) -> Iterator[dict[int, ProducerState]]:
        """Yield what may be remembered after these batches: from any origin on."""
        for origin in sorted(self.origins):
            yield replay(each for each in batches if each.base_offset >= origin)


def _shown(batch: Kept) -> str:
    return f"the batch {batch.base_offset} to {batch.end_offset - 1}"
