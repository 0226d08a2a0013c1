"""A broker of `recording`: a disk in memory, and while it lives a replica and its tracer."""

from __future__ import annotations

from typing import Any

import attrs

from protocol.machine import Handled
from protocol.replication import Log, Replica
from protocol.replication.effects import Append, SendFetch, Truncate
from protocol.replication.log import appended
from protocol.replication.trace import Tracer

TOPIC = "t"


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

    def write(self, effect: Append | Truncate) -> None:
        """Do what storage was asked for."""
        if isinstance(effect, Truncate):
            self.truncate(effect.end_offset)
        else:
            self.append(effect)

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


class Broker:
    """A broker: its disk, and while it lives its replica."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.disk = Disk()
        self.epoch = 0
        self.incarnation = 0
        self.replica: Replica | None = None
        self.tracer = Tracer(TOPIC, 0)
        self.sent = 0
        self.wrote_ms = 0
        self.learned_ms = 0
        self.cut_off_until_ms = 0
        self.told: list[Handled[Any]] = []
        self.writes: list[Append | Truncate] = []

    def write_checkpoint(self) -> None:
        """Write the high watermark down, if there is somebody who knows it."""
        if self.replica is not None:
            self.disk.high_watermark = self.replica.state.high_watermark

    @property
    def leads(self) -> bool:
        """Whether it believes to lead."""
        return self.replica is not None and self.replica.state.view.leader == self.node

    def new_id(self) -> str:
        """Name a message."""
        self.sent += 1
        return f"{self.node}.{self.epoch}.{self.sent}"


@attrs.frozen(eq=False)
class Asked:
    """A fetch on its way, as the leader's correlation: who asked, as what, and for what."""

    name: str
    follower: Broker
    replica: Replica | None
    fetch: SendFetch

    def __str__(self) -> str:
        return self.name
