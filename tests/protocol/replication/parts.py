"""What a cluster in one process consists of: brokers with disks, and messages on their way."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.controller import AlterPartition
from protocol.machine import Event
from protocol.replication import Leader, Log, Replica, ReplicaConfig, ReplicaState
from protocol.replication import effects as do
from protocol.replication import events as e
from protocol.replication.log import appended
from protocol.replication.state import progress_of
from protocol.types import NO_LEADER, NodeId, Offset

Entry: TypeAlias = tuple[int, int]
"""An epoch, and the id of a record."""
GONE: Entry = (0, 0)
TOPIC = ("t", 0)
CONFIG = ReplicaConfig(
    replica_lag_max_ms=100,
    proposal_retry_ms=30,
    fetch_retry_ms=5,
    fetch_timeout_ms=60,
    fetch_wait_ms=20,
)


@attrs.frozen
class Asked:
    """Who asked, as which incarnation, and what: so that an answer finds its way back."""

    node: NodeId
    broker_epoch: int
    fetch: do.SendFetch


@attrs.frozen
class Produced:
    """What a producer sent, and what it wants to be told."""

    acks: int
    ids: tuple[int, ...]


@attrs.frozen
class Message:
    """Something on its way: an event for a node, or for the controller, who answers `sender`."""

    to: NodeId | None
    event: Event
    sender: NodeId = NO_LEADER
    broker_epoch: int = 0
    """Of the receiver, if the message belongs to a connection that a restart would end."""

    @property
    def may_be_duplicated(self) -> bool:
        """Whether copies can arrive: of fetches and their answers, for followers ask again.

        Of a proposal they come from `ProposalUnanswered` alone: TCP makes none, and who withdraws
        a proposal has to know how often it was sent.
        """
        return isinstance(self.event, e.FetchReceived | e.FetchAnswered | e.FetchRefused)


@attrs.define
class Node:
    """A broker with one replica: what is on its disk, and what is being written."""

    id: NodeId
    broker_epoch: int
    replica: Replica | None = None
    disk: list[Entry] = attrs.field(factory=list)
    writes: list[tuple[Offset, list[Entry]]] = attrs.field(factory=list)
    """Cut the log to this length, then append these."""
    start: Offset = 0
    """What is before this was deleted; `disk` may still have it, which nobody may notice."""
    known_version: int = 0
    high_watermark: Offset = 0
    """The one that it has shown since its start; afterwards, the one that it had."""

    @property
    def state(self) -> ReplicaState:
        """The state of the replica, which must be running."""
        if self.replica is None:
            raise ValueError(f"broker {self.id} is down")
        return self.replica.state

    def leads(self) -> bool:
        """Whether its replica believes to lead."""
        return self.replica is not None and self.state.view.leader == self.id

    def known_log(self) -> Log:
        """Give what a replica that starts finds on its disk."""
        log = Log(self.start, self.start)
        for epoch, _ in self.disk[self.start :]:
            log = appended(log, epoch, log.end_offset + 1)
        return log

    def cut(self, length: Offset) -> None:
        """Cut the log to a length; one that is longer than the log means to begin anew there."""
        if length > len(self.disk):
            self.disk = [GONE] * length
            self.start = length
        del self.disk[length:]
        self.start = min(self.start, length)

    def has(self, entries: list[Entry], end: Offset, start: Offset = 0) -> bool:
        """Whether the log reaches `end` and has the same up to there, but for what was deleted."""
        start = max(start, self.start)
        return len(self.disk) >= end and self.disk[start:end] == entries[start:end]


class Broken(AssertionError):  # noqa: N818 - it says what it is
    """What must hold of the cluster does not."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


def request_of(node: Node, fetch: do.SendFetch) -> e.FetchReceived:
    """Give what the leader receives of a fetch."""
    return e.FetchReceived(
        Asked(node.id, node.broker_epoch, fetch),
        node.id,
        fetch.broker_epoch,
        fetch.leader_epoch,
        fetch.offset,
        fetch.last_epoch,
        fetch.high_watermark,
        max_wait_ms=fetch.max_wait_ms,
        available_bytes=fetch.min_bytes,
    )


def proposal_of(node: Node, wish: do.SendProposal) -> AlterPartition:
    """Give what the controller receives of an ISR proposal."""
    return AlterPartition(
        "isr",
        node.id,
        wish.broker_epoch,
        *TOPIC,
        wish.leader_epoch,
        wish.version,
        wish.isr,
        wish.joiner,
    )


def check_appending(node: Node) -> None:
    """FailsClosed: acks=all appends nothing under min ISR."""
    leader, isr = node.state.role, node.state.view.isr
    if not isinstance(leader, Leader) or not leader.writes or not leader.writes[0].acks_all:
        return
    if len(isr) < node.state.config.min_isr:
        raise Broken("FailsClosed", f"{node.id} appends with {sorted(isr)} in sync")


def check_leaving(node: Node, isr: frozenset[NodeId]) -> None:
    """OnlyLaggardsLeave: a leader proposes to remove only a follower that lags, at first."""
    state = node.state
    leader = state.role
    if not isinstance(leader, Leader) or leader.proposed is None or leader.proposed.attempts > 1:
        return
    for number in state.view.isr - isr:
        follower = progress_of(leader, number)
        if follower is not None and follower.end_offset >= state.log.end_offset:
            raise Broken("OnlyLaggardsLeave", f"{node.id} takes {number} out of the ISR")
