"""A whole quorum in one process: voters, observers, disks, and a network that loses things.

Nothing happens by itself: each method is one thing that may happen, and its caller chooses. Writes
are done when somebody says so (`complete`), messages arrive when somebody lets them (`deliver`), in
any order. What must hold is looked at after each step (`properties`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import cast

import attrs

from protocol.errors import RemoteProtocolError
from protocol.machine import Effect, Event, Handled
from protocol.quorum import Follower, Leader, Quorum, QuorumConfig, QuorumState, Rules
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.types import Epoch, NodeId
from tests.protocol.quorum.parts import CONFIG, WRITES, Asked, Broken, Entry, Message, Node


class Cluster:
    """Voters 1 to `voters`, then observers; nobody leads yet."""

    def __init__(
        self,
        voters: int = 3,
        observers: int = 0,
        *,
        seed: int = 0,
        rules: Rules | None = None,
        config: QuorumConfig = CONFIG,
        trace: Callable[[Handled[QuorumState]], None] | None = None,
    ) -> None:
        self.trace = trace
        self.rules = rules or Rules()
        self.config = attrs.evolve(config, jitter_seed=seed)
        self.voters = frozenset(range(1, voters + 1))
        self.now_ms = 0
        self.messages: list[Message] = []
        self.committed: list[Entry] = []
        self.elected: dict[Epoch, NodeId] = {}
        self.cast: dict[tuple[NodeId, Epoch], NodeId] = {}
        self.told: dict[NodeId, list[Effect]] = {}
        self.read_limit = 3
        self._ids = 0
        self.nodes = {number: Node(number) for number in range(1, voters + observers + 1)}
        for number in self.nodes:
            self.start(number)

    # What may happen.

    def start(self, number: NodeId) -> None:
        """A node starts with what its disk has."""
        node = self.nodes[number]
        epoch, voted = node.disk.vote
        node.machine = Quorum.restarted(
            number,
            self.voters,
            epoch=epoch,
            voted=voted,
            log=node.disk.log(),
            now_ms=self.now_ms,
            config=self.config,
            rules=self.rules,
            trace=self.trace,
        )
        self.told[number] = []

    def crash(self, number: NodeId, done: int = 0) -> None:
        """A node stops. Of the writes that it waits for, some were done, the others are lost."""
        disk = self.nodes[number].disk
        for _ in range(min(done, len(disk.todo))):
            disk.do_first()
        disk.todo.clear()
        self.nodes[number].machine = None
        self.messages = [each for each in self.messages if each.to != number]

    def running(self, number: NodeId) -> bool:
        """Whether a node runs."""
        return self.nodes[number].machine is not None

    def tick(self, by_ms: int) -> None:
        """Time passes."""
        self.now_ms += by_ms

    def due(self, number: NodeId) -> None:
        """A node does what is due."""
        machine = self.nodes[number].machine
        if machine is not None:
            for event in machine.due(self.now_ms):
                self.handle(number, event)

    def complete(self, number: NodeId) -> None:
        """A disk does the write that has waited longest."""
        node = self.nodes[number]
        if node.machine is not None and node.disk.todo:
            self.handle(number, node.disk.do_first())

    def deliver(self, place: int, *, again: bool = False) -> None:
        """A message arrives; with `again`, it will arrive once more."""
        message = self.messages[place] if again else self.messages.pop(place)
        if self.running(message.to):
            try:
                self.handle(message.to, message.event)
            except RemoteProtocolError as problem:
                raise Broken("CorrectPeers", (message, problem)) from problem

    def drop(self, place: int) -> None:
        """A message is lost. Who downloads something notices."""
        message = self.messages.pop(place)
        if isinstance(message.event, e.SnapshotFetched):
            self._lost(message.to, message.event)
        elif isinstance(message.event, e.SnapshotAsked):
            self._lost(message.sender, message.event)

    def _lost(self, number: NodeId, event: e.SnapshotFetched | e.SnapshotAsked) -> None:
        if self.running(number):
            self.handle(number, e.SnapshotLost(event.snapshot))

    def propose(self, number: NodeId, count: int = 1) -> None:
        """Whoever believes to lead appends some records."""
        if not self.running(number):
            return
        state = self.nodes[number].state
        if isinstance(state.role, Leader):
            self._ids += count
            records = tuple(range(self._ids - count + 1, self._ids + 1))
            base = state.role.reserved_end
            self.handle(number, e.RecordsProposed("p", state.epoch, base, count, records))

    def snapshot(self, number: NodeId) -> None:
        """A node takes a snapshot of what it knows to be committed."""
        if self.running(number):
            self.handle(number, e.SnapshotWanted())

    # What follows.

    def handle(self, number: NodeId, event: Event) -> None:
        """A node handles an event, and its effects are begun."""
        machine = self.nodes[number].machine
        assert machine is not None
        for effect in machine.handle(event, self.now_ms):
            self._begin(number, effect)

    def _begin(self, number: NodeId, effect: Effect) -> None:
        node = self.nodes[number]
        if isinstance(effect, WRITES):
            node.disk.todo.append(effect)
        elif isinstance(effect, do.Committed | do.Elected | do.Deposed):
            self._tell(node, effect)
        elif isinstance(effect, do.WriteSnapshot):
            self.handle(number, e.SnapshotTaken(effect.end_offset))
        elif isinstance(effect, do.DeleteBefore):
            node.disk.start = max(node.disk.start, effect.start_offset)
        elif (message := self._message(node, effect)) is not None:
            self.messages.append(message)

    def _tell(self, node: Node, effect: Effect) -> None:
        self.told[node.id].append(effect)
        if isinstance(effect, do.Committed) and isinstance(node.state.role, Leader):
            under = node.under()
            if under != self.committed[: len(under)]:
                if self.committed != under[: len(self.committed)]:
                    raise Broken("CommittedAppendOnly", (self.committed, under))
                self.committed = under

    def _message(self, node: Node, effect: Effect) -> Message | None:
        """Put what a node sends on its way."""
        me = node.id
        match effect:
            case do.SendVoteRequest():
                asked = Asked(me, effect)
                end = (effect.last_epoch, effect.end_offset)
                event = e.VoteRequested(asked, me, effect.epoch, *end, effect.pre_vote)
                return Message(me, effect.to, event)
            case do.SendFetch():
                fetch = (effect.offset, effect.last_epoch, effect.high_watermark)
                waits = (effect.max_bytes, effect.max_wait_ms)
                received = e.FetchReceived(Asked(me, effect), me, effect.epoch, *fetch, *waits)
                return Message(me, effect.to, received)
            case do.AnnounceLeader(to, epoch):
                return Message(me, to, e.LeaderAnnounced(Asked(me, effect), epoch, me))
            case do.EndEpoch(to, epoch):
                return Message(me, to, e.EpochEnded(epoch, me))
            case do.AskForLeader(to):
                return Message(me, to, e.LeaderAsked(Asked(me, effect)))
            case do.FetchSnapshot(leader, epoch, snapshot):
                return Message(me, leader, e.SnapshotAsked(Asked(me, effect), me, epoch, snapshot))
        return self._answer(node, effect)

    def _answer(self, node: Node, effect: Effect) -> Message | None:
        me = node.id
        correlation = getattr(effect, "correlation", None)
        if not isinstance(correlation, Asked):
            return None
        request, to = correlation.request, correlation.sender
        match effect:
            case do.SendVoteAnswer():
                return Message(me, to, self._vote(me, effect, cast(do.SendVoteRequest, request)))
            case do.SendSnapshot(_, snapshot):
                content = tuple(node.disk.entries[: snapshot.end_offset])
                return Message(me, to, e.SnapshotFetched(snapshot, content))
            case do.TellLeader(_, epoch, leader):
                return Message(me, to, e.EpochLearned(me, epoch, leader))
            case do.Refuse(_, _, epoch, leader):
                return _refusal(me, to, request, epoch, leader)
        if isinstance(request, do.SendFetch):
            return Message(me, to, self._fetched(node, effect, request))
        return None

    def _vote(
        self, me: NodeId, effect: do.SendVoteAnswer, request: do.SendVoteRequest
    ) -> e.VoteAnswered:
        if effect.granted and not effect.pre_vote:
            self.vote(me, effect.epoch, effect.candidate)
        known = (effect.epoch, effect.leader)
        return e.VoteAnswered(me, *known, effect.granted, effect.pre_vote, request.attempt)

    def vote(self, voter: NodeId, epoch: Epoch, candidate: NodeId) -> None:
        """Write down a vote that somebody has heard of."""
        if self.cast.setdefault((voter, epoch), candidate) != candidate:
            raise Broken("OneVotePerEpoch", (voter, epoch, candidate))

    def _fetched(self, node: Node, effect: Effect, request: do.SendFetch) -> e.FetchAnswered:
        asked = (request.epoch, request.offset, request.last_epoch)
        match effect:
            case do.SendDivergence(_, _, end):
                return e.FetchAnswered(*asked, diverging=end)
            case do.SendSnapshotId(_, _, snapshot):
                return e.FetchAnswered(*asked, snapshot=snapshot)
            case do.SendEntries():
                limit = min(effect.end_offset, effect.offset + self.read_limit)
                entries = tuple(node.disk.entries[effect.offset : limit])
                epochs = tuple(
                    (epoch, len(list(run))) for epoch, run in groupby(each[0] for each in entries)
                )
                hw = effect.high_watermark
                return e.FetchAnswered(*asked, high_watermark=hw, epochs=epochs, payload=entries)
        raise TypeError(f"{effect} is no answer to a fetch")

    # What tests ask.

    def leaders(self) -> list[Node]:
        """List who believes to lead, the newest epoch last."""
        found = [
            node
            for node in self.nodes.values()
            if node.machine is not None and isinstance(node.state.role, Leader)
        ]
        return sorted(found, key=lambda node: node.state.epoch)

    def settled(self) -> bool:
        """Whether everybody follows one leader, has what it has, and knows that it is committed."""
        leaders = self.leaders()
        if not leaders or not all(map(self.running, self.nodes)):
            return False
        leader = leaders[-1]
        return all(
            node.state.leader == leader.id
            and isinstance(node.state.role, Leader | Follower)
            and node.disk.entries == leader.disk.entries
            and node.state.high_watermark == len(leader.disk.entries)
            for node in self.nodes.values()
        )


def _refusal(
    me: NodeId, to: NodeId, request: Effect, epoch: Epoch, leader: NodeId
) -> Message | None:
    if isinstance(request, do.SendFetch):
        return Message(me, to, e.FetchRefused(epoch, leader))
    if isinstance(request, do.AnnounceLeader):
        return Message(me, to, e.EpochLearned(me, epoch, leader))
    if isinstance(request, do.FetchSnapshot):
        return Message(me, to, e.SnapshotLost(request.snapshot))
    return None
