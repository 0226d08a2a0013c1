"""A disk in memory for `recording`: batches, each of one epoch, one after the other."""

from __future__ import annotations

import attrs

from protocol.replication import Log
from protocol.replication.effects import Append
from protocol.replication.log import appended


@attrs.frozen
class Batch:
    """Records that were produced together."""

    epoch: int
    base: int
    end: int


class Disk:
    """What a broker has kept: its log, and the high watermark that it knew."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.high_watermark = 0

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.batches[-1].end if self.batches else 0

    def log(self) -> Log:
        """Give what a replica needs to know of the log."""
        log = Log()
        for batch in self.batches:
            log = appended(log, batch.epoch, batch.end)
        return log

    def append(self, effect: Append) -> None:
        """Write a producer's batch, or what a follower has fetched."""
        if effect.epoch:
            self.batches.append(Batch(effect.epoch, effect.base_offset, effect.end_offset))
        elif isinstance(effect.payload, list):
            self.batches += effect.payload

    def truncate(self, end: int) -> None:
        """Cut the log; no batch is ever cut in two."""
        while self.batches and self.batches[-1].base >= end:
            self.batches.pop()

    def lose(self, count: int) -> None:
        """Lose the last batches."""
        del self.batches[max(0, len(self.batches) - count) :]
        self.high_watermark = min(self.high_watermark, self.end)

    def read(self, offset: int, end: int, count: int) -> list[Batch]:
        """Read whole batches from an offset on, at least one if there is one."""
        found = []
        for batch in reversed(self.batches):
            if batch.base < offset:
                break
            if batch.end <= end:
                found.append(batch)
        return found[::-1][: max(1, count)]
