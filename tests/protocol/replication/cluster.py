"""A whole cluster in one process: replicas, a controller, disks, and a network that loses things.

Nothing happens by itself: each method is one thing that may happen, and its caller chooses. Writes
are done when somebody says so (`complete`), messages arrive when somebody lets them (`deliver`), in
any order. The controller is the real one; its records are durable at once.

What is promised holds as long as fewer than min ISR of the replicas that hold a record lose data
before the others are whole again. So `may_lose` allows one lossy restart at a time, until the
broker that suffered it is back in the ISR; with min ISR 1, none. Unclean elections are off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import attrs

from protocol.controller import (
    AlterPartition,
    BecameActive,
    Controller,
    ControllerRules,
    ControllerState,
    CreateTopics,
    ElectionKind,
    ElectLeaders,
    Heartbeat,
    Image,
    NewTopic,
    Partition,
    RecordsCommitted,
    RegisterBroker,
    SessionExpired,
)
from protocol.controller import AppendRecords as AppendMetadata
from protocol.controller import PartitionRecord as MetadataRecord
from protocol.controller import Refuse as RefuseCommand
from protocol.controller import events as controller_events
from protocol.errors import RemoteProtocolError
from protocol.machine import Effect, Event
from protocol.replication import (
    PartitionRecord,
    Replica,
    ReplicaState,
    Rules,
    event_for,
)
from protocol.replication import effects as do
from protocol.replication import events as e
from protocol.types import NodeId, Offset
from tests.protocol.replication.parts import (
    CONFIG,
    TOPIC,
    Asked,
    Broken,
    Entry,
    Message,
    Node,
    Produced,
    check_appending,
    check_leaving,
    proposal_of,
    request_of,
)


class Cluster:
    """Brokers 1 to `size`, all in sync, with broker 1 leading."""

    def __init__(
        self,
        size: int = 3,
        min_isr: int = 2,
        rules: Rules | None = None,
        controller_rules: ControllerRules | None = None,
    ) -> None:
        self.min_isr = min_isr
        self.rules = rules or Rules()
        self.now_ms = 0
        self.messages: list[Message] = []
        self.records: list[Partition] = []
        self.acked: set[int] = set()
        self.deleted: set[int] = set()
        self.committed: list[Entry] = []
        self.damaged: set[NodeId] = set()
        self.read_limit = 3
        self.rejected = 0
        self._ids = 0
        self._controller_ms = 0
        self.controller = Controller(ControllerState(), controller_rules or ControllerRules())
        self.controller.handle(BecameActive(Image(), 0), 0)
        self.nodes = {number: Node(number, 0) for number in range(1, size + 1)}
        for node in self.nodes.values():
            self._register(node, clean=True)
            self.heartbeat(node.id)
        topic = NewTopic("t", assignment=(tuple(self.nodes),), min_isr=min_isr)
        self._command(CreateTopics("create", (topic,)))
        for node in self.nodes.values():
            self._start(node, 0)
            self.learn(node.id)

    @property
    def record(self) -> Partition:
        """The newest record of the partition."""
        return self.controller.state.image.partitions[TOPIC]

    def up(self) -> list[Node]:
        """List the brokers that run."""
        return [node for node in self.nodes.values() if node.replica is not None]

    def is_fenced(self, node: NodeId) -> bool:
        """Whether the controller has fenced a broker."""
        return self.controller.state.image.brokers[node].fenced

    def is_leaving(self, node: NodeId) -> bool:
        """Whether a broker has said that it wants to stop."""
        return self.controller.state.image.brokers[node].shutting_down

    # Clients.

    def produce(self, node: NodeId, acks: int, count: int = 1) -> None:
        """A producer sends some records to a broker, which may not lead."""
        ids = tuple(range(self._ids + 1, self._ids + count + 1))
        self._ids += count
        sent = Produced(acks, ids)
        self._tell(node, e.ProduceReceived(sent, acks, sent, count, 10 * count, 5_000))

    def consume(self, node: NodeId, offset: Offset) -> None:
        """A consumer reads from a broker; what it gets is looked at when it is sent."""
        wait_ms = 20 if offset % 2 else 0
        self._tell(node, e.ConsumerFetchReceived("consumer", offset, max_wait_ms=wait_ms))

    def delete(self, node: NodeId, before: Offset) -> None:
        """An operator deletes records (-1: all that are committed)."""
        self._tell(node, e.DeleteRecordsAsked("delete", before))

    # Time, disks and the network.

    def tick(self, by_ms: int) -> None:
        """Time passes."""
        self.now_ms += by_ms

    def due(self, node: NodeId) -> None:
        """A broker handles what is due by now."""
        replica = self.nodes[node].replica
        for event in replica.due(self.now_ms) if replica else ():
            self._tell(node, event)

    def complete(self, node: NodeId) -> None:
        """A broker's oldest write is done."""
        broker = self.nodes[node]
        if broker.writes:
            check_appending(broker)
            appends = bool(broker.writes[0][1])
            end = self._write(broker)
            self._tell(node, e.Appended(end) if appends else e.Truncated(end))

    def _write(self, node: Node) -> Offset:
        length, entries = node.writes.pop(0)
        node.cut(length)
        node.disk += entries
        return len(node.disk)

    def deliver(self, place: int, *, again: bool = False) -> None:
        """A message arrives; with `again`, a copy of it will arrive, too."""
        message = self.messages[place]
        if not (again and message.may_be_duplicated):
            del self.messages[place]
        if message.to is None:
            self._propose(message)
        elif message.broker_epoch in (0, self.nodes[message.to].broker_epoch):
            self._tell(message.to, message.event)

    def drop(self, place: int) -> None:
        """A message is lost."""
        del self.messages[place]

    # The controller.

    def learn(self, node: NodeId, *, newest: bool = True) -> None:
        """A broker reads the newest record, or the next one that it has not read."""
        broker = self.nodes[node]
        news = [each for each in self.records if each.version > broker.known_version]
        if news and broker.replica is not None:
            record = news[-1 if newest else 0]
            broker.known_version = record.version
            known = PartitionRecord(
                record.leader,
                record.leader_epoch,
                record.version,
                record.isr,
                frozenset(record.replicas),
            )
            self._tell(node, event_for(broker.replica.state, known))

    def heartbeat(self, node: NodeId, *, leaving: bool = False) -> None:
        """A broker is heard of, so it is fenced no more; or it says that it wants to stop."""
        epoch = self.nodes[node].broker_epoch
        self._command(Heartbeat("beat", node, epoch, wants_shutdown=leaving))

    def fence(self, node: NodeId) -> None:
        """A broker is not heard of for too long, though it may well be alive; all others are."""
        self._controller_ms += self.controller.state.config.session_timeout_ms
        for other in self.nodes:
            if other != node and not self.is_fenced(other):
                self.heartbeat(other)
        self._command(SessionExpired(node))

    def prefer(self) -> None:
        """An operator wants the first replica to lead, if it can."""
        self._command(ElectLeaders("elect", ElectionKind.PREFERRED))

    def _propose(self, message: Message) -> None:
        proposal = message.event
        if not isinstance(proposal, AlterPartition):
            raise TypeError(proposal)
        for effect in self._command(proposal):
            if isinstance(effect, RefuseCommand):
                refusal = e.ProposalRefused(proposal.version, effect.error)
                epoch = proposal.broker_epoch
                self.messages.append(Message(message.sender, refusal, broker_epoch=epoch))

    def _command(self, event: Event) -> tuple[Effect, ...]:
        """Let the controller handle something, and then whatever is due because of that."""
        effects = self.controller.handle(event, self._controller_ms)
        elections = [
            due
            for due in self.controller.due(self._controller_ms)
            if isinstance(due, controller_events.LeaderlessDue)
        ]
        for due in elections:
            effects += self.controller.handle(due, self._controller_ms)
        for effect in effects:
            if isinstance(effect, AppendMetadata):
                found = [each for each in effect.records if isinstance(each, MetadataRecord)]
                self.records += [each.partition for each in found]
        committed = RecordsCommitted(self.controller.state.next_offset)
        return effects + self.controller.handle(committed, self._controller_ms)

    # Restarts.

    def crash(self, node: NodeId, written: int = 0) -> None:
        """A broker stops; of what it was writing, so much has reached the disk unnoticed."""
        broker = self.nodes[node]
        broker.replica = None
        for _ in range(min(written, len(broker.writes))):
            self._write(broker)
        broker.writes.clear()
        # As a start will see it.
        kept = min(broker.high_watermark, len(broker.disk))
        broker.high_watermark = max(kept, broker.start)

    def may_lose(self, node: NodeId) -> bool:
        """Whether a lossy restart of this broker is within what the promise allows."""
        return self.min_isr > 1 and self.damaged <= {node}

    def restart(self, node: NodeId, *, lost: int | None = None, forgotten: int = 0) -> None:
        """A broker that has stopped starts again, and registers.

        `lost` None: its shutdown was clean; otherwise so many of its last entries are gone (a crash
        and the loss may as well happen here: nobody has looked meanwhile). The high watermark that
        it has kept is older by `forgotten`.
        """
        broker = self.nodes[node]
        if lost is not None:
            if not self.may_lose(node):
                raise ValueError(f"{sorted(self.damaged)} are not whole yet")
            self.damaged.add(node)
            broker.cut(max(0, len(broker.disk) - lost))
        self._register(broker, clean=lost is None)
        # What was decided before its registration is not for this incarnation.
        broker.known_version = self.record.version - 1
        self._start(broker, max(0, broker.high_watermark - forgotten))

    def _register(self, node: Node, *, clean: bool) -> None:
        before = node.broker_epoch
        name = f"{node.id}/{before + 1}"
        self._command(RegisterBroker("new", node.id, name, before, clean_shutdown=clean))
        node.broker_epoch = self.controller.state.image.brokers[node.id].epoch

    def _start(self, node: Node, high_watermark: Offset) -> None:
        config = attrs.evolve(CONFIG, min_isr=self.min_isr)
        node.replica = Replica.restarted(
            node.id,
            node.broker_epoch,
            log=node.known_log(),
            high_watermark=high_watermark,
            config=config,
            rules=self.rules,
        )
        node.high_watermark = node.replica.state.high_watermark

    # What replicas want done.

    def _tell(self, node: NodeId, event: Event) -> None:
        broker = self.nodes[node]
        if broker.replica is None:
            return
        try:
            effects = broker.replica.handle(event, self.now_ms)
        except RemoteProtocolError:
            self.rejected += 1
            return
        self._observe(broker, broker.replica.state)
        for effect in effects:
            carry_out = self._DOES.get(type(effect))
            if carry_out is not None:
                carry_out(self, broker, effect)

    def _observe(self, node: Node, state: ReplicaState) -> None:
        """Write the history down that the spec has in `committed`."""
        end = state.high_watermark
        if end < node.high_watermark:
            raise Broken("HwMonotonic", f"{node.id} goes from {node.high_watermark} to {end}")
        node.high_watermark, node.start = end, state.log.start_offset
        known = len(self.committed)
        if state.view.leader != node.id or (end <= known and node.has(self.committed, end)):
            return
        if not node.has(self.committed, known):
            raise Broken("CommittedAppendOnly", f"{node.id} commits {node.disk[:end]}")
        self.committed += node.disk[known:end]

    def _append(self, node: Node, effect: do.Append) -> None:
        payload = effect.payload
        if isinstance(payload, Produced):
            entries = [(effect.epoch, record) for record in payload.ids]
        else:
            entries = cast(list[Entry], payload)
        node.writes.append((effect.base_offset, entries))

    def _truncate(self, node: Node, effect: do.Truncate) -> None:
        node.writes.append((effect.end_offset, []))

    def _reset(self, node: Node, effect: do.Reset) -> None:
        node.writes.append((effect.start_offset, []))

    def _delete_before(self, node: Node, effect: do.DeleteBefore) -> None:
        if effect.start_offset > len(self.committed):
            raise Broken("DeletesWhatIsCommitted", f"{node.id} deletes to {effect.start_offset}")
        self.deleted |= {record for _, record in self.committed[: effect.start_offset]}

    def _acknowledge(self, _: Node, effect: do.ProduceDone) -> None:
        produced = effect.correlation
        if isinstance(produced, Produced) and produced.acks == e.ACKS_ALL:
            self.acked |= set(produced.ids)

    def _send_fetch(self, node: Node, fetch: do.SendFetch) -> None:
        self.messages.append(Message(fetch.leader, request_of(node, fetch)))

    def _send_proposal(self, node: Node, wish: do.SendProposal) -> None:
        check_leaving(node, wish.isr)
        self.messages.append(Message(None, proposal_of(node, wish), node.id))

    def _send_entries(self, node: Node, effect: do.SendEntries) -> None:
        if effect.offset < node.start:
            raise Broken("ReadsWhatIsThere", f"{node.id} reads from {effect.offset}")
        entries = node.disk[effect.offset : effect.end_offset][: self.read_limit]
        if isinstance(effect.correlation, Asked):
            counts = tuple((epoch, 1) for epoch, _ in entries)
            self._answer(
                effect.correlation,
                high_watermark=effect.high_watermark,
                log_start_offset=effect.log_start_offset,
                epochs=counts,
                payload=entries,
                size_bytes=10 * len(entries),
            )
        elif self.committed[effect.offset : effect.offset + len(entries)] != entries:
            raise Broken("ConsistentRead", f"{node.id} sends {entries} from {effect.offset} on")

    def _send_divergence(self, _: Node, effect: do.SendDivergence) -> None:
        if isinstance(effect.correlation, Asked):
            start = effect.log_start_offset
            self._answer(effect.correlation, diverging=effect.end, log_start_offset=start)

    def _answer(self, asked: Asked, **what: Any) -> None:
        fetch = asked.fetch
        answer = e.FetchAnswered(fetch.leader_epoch, fetch.offset, fetch.last_epoch, **what)
        self.messages.append(Message(asked.node, answer, broker_epoch=asked.broker_epoch))

    def _refuse(self, _: Node, effect: do.Refuse) -> None:
        asked = effect.correlation
        if isinstance(asked, Asked):
            epoch = asked.fetch.leader_epoch
            refusal = e.FetchRefused(epoch, effect.error, effect.log_start_offset)
            self.messages.append(Message(asked.node, refusal, broker_epoch=asked.broker_epoch))

    _DOES: ClassVar[dict[type[Effect], Callable[..., None]]] = {
        do.Append: _append,
        do.Truncate: _truncate,
        do.Reset: _reset,
        do.DeleteBefore: _delete_before,
        do.ProduceDone: _acknowledge,
        do.SendFetch: _send_fetch,
        do.SendProposal: _send_proposal,
        do.SendEntries: _send_entries,
        do.SendDivergence: _send_divergence,
        do.Refuse: _refuse,
    }
