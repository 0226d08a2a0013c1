"""What a test cluster of the quorum is made of: disks, messages, and a wrong that was seen."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.machine import Effect, Event
from protocol.quorum import NOBODY, Quorum, QuorumConfig, QuorumState
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.quorum.log import compacted
from protocol.replication.log import Log, appended
from protocol.types import Epoch, NodeId, Offset

CONFIG = QuorumConfig(
    election_timeout_ms=100,
    election_jitter_ms=100,
    fetch_timeout_ms=200,
    check_quorum_ms=300,
    request_retry_ms=50,
    fetch_retry_ms=10,
    fetch_wait_ms=50,
    max_deferred=8,
    max_parked_fetches=4,
    max_writes=4,
)

Entry: TypeAlias = tuple[Epoch, object]
"""An epoch, and a record; None for the first record of an epoch."""
Completion: TypeAlias = e.VoteSaved | e.Appended | e.Truncated | e.SnapshotInstalled


class Broken(AssertionError):  # noqa: N818 - what is broken is a property, not the test
    """A property of the whole cluster does not hold."""

    def __init__(self, name: str, detail: object) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


@attrs.frozen
class Message:
    """Something on its way. A request's answer goes back to its sender."""

    sender: NodeId
    to: NodeId
    event: Event


@attrs.frozen
class Asked:
    """The correlation of a request: who asked, and what."""

    sender: NodeId
    request: Effect


@attrs.define
class Disk:
    """What survives a crash, and the writes that are not done yet."""

    vote: tuple[Epoch, NodeId] = (0, NOBODY)
    entries: list[Entry] = attrs.field(factory=list)
    start: Offset = 0
    todo: list[Effect] = attrs.field(factory=list)

    def log(self) -> Log:
        """Read the log as a node that starts does."""
        log = Log()
        for number, (epoch, _) in enumerate(self.entries, start=1):
            log = appended(log, epoch, number)
        return compacted(log, self.start)

    def do_first(self) -> Completion:
        """Carry out the write that has waited longest."""
        write = self.todo.pop(0)
        match write:
            case do.SaveVote(epoch, voted):
                self.vote = (epoch, voted)
                return e.VoteSaved()
            case do.Append():
                if len(self.entries) != write.base_offset:
                    raise Broken("AppendAtEnd", write)
                self.entries += _written(write)
                return e.Appended(write.end_offset)
            case do.Truncate(end_offset):
                del self.entries[end_offset:]
                return e.Truncated(end_offset)
            case do.InstallSnapshot(snapshot, keeps_log, payload):
                if not keeps_log:
                    assert isinstance(payload, tuple)
                    self.entries = list(payload)
                self.start = max(self.start, snapshot.end_offset)
                return e.SnapshotInstalled()
        raise TypeError(f"{write} is no write")


def _written(append: do.Append) -> list[Entry]:
    if isinstance(append.payload, do.LeaderChange):
        return [(append.epoch, None)]
    assert isinstance(append.payload, tuple)
    if append.epoch:
        return [(append.epoch, record) for record in append.payload]
    return list(append.payload)


WRITES = (do.SaveVote, do.Append, do.Truncate, do.InstallSnapshot)


@attrs.define
class Node:
    """A node: its disk and, while it runs, its machine."""

    id: NodeId
    disk: Disk = attrs.field(factory=Disk)
    machine: Quorum | None = None

    @property
    def state(self) -> QuorumState:
        """The state of a node that runs."""
        assert self.machine is not None
        return self.machine.state

    def under(self) -> list[Entry]:
        """Give what this node knows to be committed."""
        return self.disk.entries[: self.state.high_watermark]
