"""Runs a small cluster of the machines in virtual time and records its trace, from a seed.

It is a driver like any other, made of a heap of events: messages take their time and overtake each
other, writes complete later, brokers stop and come back with less than they had, heartbeats fail to
arrive, the metadata comes late, producers and consumers ask whom they like. The same seed gives the
same lines. What it makes is for `validation` to judge; it judges nothing itself.

What goes wrong besides is for the `Plan` to say: messages are lost, records skipped, high
watermarks forgotten, writes done that nobody heard of, controllers deposed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from functools import partial

import attrs

from protocol.controller import effects as controller_effects
from protocol.controller.events import (
    AlterPartition,
    CreateTopics,
    ElectionKind,
    ElectLeaders,
    Heartbeat,
    NewTopic,
    RegisterBroker,
)
from protocol.controller.state import Image, Key
from protocol.errors import InvariantViolation
from protocol.machine import Event
from protocol.replication import PartitionRecord, Replica, event_for
from protocol.replication import effects as e
from protocol.replication.events import (
    ACKS_ALL,
    Appended,
    ConsumerFetchReceived,
    FetchAnswered,
    FetchReceived,
    FetchRefused,
    ProduceReceived,
    ProposalRefused,
    Resigned,
    Truncated,
)
from protocol.replication.trace import Line, Tracer, messages
from spec.conformance.tracing.plan import BATCH_BYTES, Plan
from spec.conformance.tracing.recorded_broker import TOPIC, Asked, Broker
from spec.conformance.tracing.recorded_controller import Controllers

KEY: Key = (TOPIC, 0)


class Recording:
    """A run in the making: `lines` is its trace."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: list[Line] = []
        self.now_ms = 0
        self._random = random.Random(plan.seed)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._controllers = Controllers(plan, self.lines)
        self._brokers = {node: Broker(node) for node in range(1, plan.brokers + 1)}
        self._set_up()

    def run(self) -> list[Line]:
        """Let time pass until there are enough lines, or an invariant stops a machine."""
        try:
            while self._heap and len(self.lines) < self.plan.lines:
                self.now_ms, _, todo = heapq.heappop(self._heap)
                todo()
        except InvariantViolation:
            pass
        return self.lines

    @property
    def _image(self) -> Image:
        return self._controllers.image

    def _set_up(self) -> None:
        for broker in self._brokers.values():
            self._register(broker, clean=True)
            self._heartbeat(broker)
        new = NewTopic(
            TOPIC,
            assignment=(tuple(self._brokers),),
            min_isr=self.plan.min_isr,
            unclean_election=self.plan.unclean_election,
        )
        self._command(CreateTopics("create", (new,)))
        for broker in self._brokers.values():
            self._start(broker)
        self._every(self.plan.produce_every_ms, self._produce)
        self._every(self.plan.consume_every_ms, self._consume)
        self._every(self.plan.fault_every_ms, self._fault)
        for broker in self._brokers.values():
            self._every(100, partial(self._heartbeat, broker))
            if self.plan.checkpoint_every_ms:
                self._every(self.plan.checkpoint_every_ms, broker.write_checkpoint)

    def _happens(self, share: float) -> bool:
        """Draw whether something happens that a plan may rule out."""
        return share > 0 and self._random.random() < share

    def _draw(self, between: tuple[int, int]) -> int:
        return self._random.randint(*between)

    def _at(self, at_ms: int, todo: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(at_ms, self.now_ms), self._count, todo))

    def _soon(self, between: tuple[int, int], todo: Callable[[], None]) -> None:
        self._at(self.now_ms + self._draw(between), todo)

    def _in_flight(self, todo: Callable[[], None]) -> None:
        """Let a message travel."""
        slow = 30 if self._random.random() < self.plan.stragglers else 1
        self._at(self.now_ms + slow * self._draw(self.plan.latency_ms), todo)

    def _send(self, todo: Callable[[], None]) -> None:
        """Let a message travel that may be lost."""
        if not self._happens(self.plan.lost):
            self._in_flight(todo)

    def _every(self, mean_ms: int, todo: Callable[[], None]) -> None:
        def again() -> None:
            todo()
            self._soon((1, 2 * mean_ms), again)

        self._soon((1, 2 * mean_ms), again)

    def _command(self, event: Event, received: str | None = None) -> list[object]:
        """Let the controller handle something."""
        answers, news = self._controllers.command(event, received, self.now_ms)
        if news:
            self._publish()
        self._at(self._controllers.next_deadline() or self.now_ms, self._wake_controller)
        return answers

    def _wake_controller(self) -> None:
        for event in self._controllers.due(self.now_ms):
            self._command(event)

    def _newest(self) -> PartitionRecord | None:
        partition = self._image.partitions.get(KEY)
        if partition is None:
            return None
        return PartitionRecord(
            partition.leader,
            partition.leader_epoch,
            partition.version,
            partition.isr,
            frozenset(partition.replicas),
        )

    def _publish(self) -> None:
        record = self._newest()
        if record is None:
            return
        for broker in self._brokers.values():
            self._tell(broker, record)

    def _tell(self, broker: Broker, record: PartitionRecord) -> None:
        """Records reach a broker in order."""
        replica = broker.replica
        at_ms = max(broker.learned_ms, self.now_ms + self._draw(self.plan.metadata_ms))
        broker.learned_ms = at_ms

        def learn() -> None:
            if replica is not None and broker.replica is replica:
                newest = self._newest() if self._happens(self.plan.skips) else None
                self._handle(broker, event_for(replica.state, newest or record))

        self._at(at_ms, learn)

    def _register(self, broker: Broker, *, clean: bool) -> None:
        broker.incarnation += 1
        command = RegisterBroker(
            "register",
            broker.node,
            f"{broker.node}-{broker.incarnation}",
            broker.epoch,
            clean_shutdown=clean,
        )
        while self._image.brokers.get(broker.node) is None or (
            self._image.brokers[broker.node].epoch == broker.epoch
        ):
            # Asked again if the controller was deposed before it could commit this.
            self._command(command)
        broker.epoch = self._image.brokers[broker.node].epoch

    def _heartbeat(self, broker: Broker) -> None:
        alive = broker.replica is not None or self.now_ms == 0
        if alive and broker.cut_off_until_ms <= self.now_ms:
            self._command(Heartbeat("heartbeat", broker.node, broker.epoch))

    def _start(self, broker: Broker) -> None:
        broker.told = []
        broker.tracer = Tracer(TOPIC, 0)
        broker.replica = Replica.restarted(
            broker.node,
            broker.epoch,
            log=broker.disk.log(),
            high_watermark=broker.disk.high_watermark,
            config=self.plan.replica_config(),
            rules=self.plan.rules,
            trace=broker.told.append,
        )
        self.lines.append(broker.tracer.restarted(broker.replica.state))
        self._publish()

    def _shut_down(self, broker: Broker) -> None:
        """A broker says that it wants to stop, goes on for a while, and stops."""
        replica = broker.replica
        if replica is None:
            return
        self._command(Heartbeat("stop", broker.node, broker.epoch, wants_shutdown=True))

        def stop() -> None:
            if broker.replica is replica:
                self._handle(broker, Resigned())
                self._stop(broker, clean=True)

        self._soon((1, 300), stop)

    def _stop(self, broker: Broker, *, clean: bool = False) -> None:
        """A broker stops, and is back after a while, with all or only part of its log."""
        replica = broker.replica
        if replica is None:
            return
        # Somebody else is in sync, or nobody could ever be elected again.
        others = self._image.partitions[KEY].isr - {broker.node}
        clean = clean or self._random.random() < 0.4 or not others
        if clean or not self.plan.checkpoint_every_ms:
            broker.write_checkpoint()
        broker.replica = None
        while broker.writes and self._happens(self.plan.untold):
            broker.disk.write(broker.writes.pop(0))
        broker.writes.clear()
        if not clean and self._random.random() < 0.5:
            broker.disk.lose(self._random.randint(1, 6))
        broker.wrote_ms = self.now_ms

        def back() -> None:
            self._register(broker, clean=clean)
            self._in_flight(lambda: self._start(broker))

        self._soon(self.plan.down_ms, back)

    def _handle(self, broker: Broker, event: Event, received: str | None = None) -> None:
        replica = broker.replica
        if replica is None:
            return
        effects = replica.handle(event, self.now_ms)
        ids = {id(effect): broker.new_id() for effect in messages(effects)}
        for told in broker.told:
            line = broker.tracer.line(told, received, ids.values())
            if line is not None:
                self.lines.append(line)
        broker.told.clear()
        for effect in effects:
            self._carry_out(broker, effect, ids.get(id(effect), ""))
        deadline_ms = replica.next_deadline()
        if deadline_ms is not None:
            self._at(deadline_ms, lambda: self._wake(broker, replica))

    def _wake(self, broker: Broker, replica: Replica) -> None:
        if broker.replica is replica:
            for event in replica.due(self.now_ms):
                self._handle(broker, event)

    def _carry_out(self, broker: Broker, effect: object, name: str) -> None:
        if isinstance(effect, e.Append | e.Truncate):
            self._write(broker, effect)
        elif isinstance(effect, e.SendFetch):
            self._send_fetch(broker, effect, name)
        elif isinstance(effect, e.SendProposal):
            self._send_proposal(broker, effect, name)
        elif isinstance(effect, e.SendEntries | e.SendDivergence | e.Refuse):
            asked = effect.correlation
            if isinstance(asked, Asked):
                self._answer(broker, effect, asked)

    def _write(self, broker: Broker, effect: e.Append | e.Truncate) -> None:
        """Writes are done one after the other; what is not done when a broker stops is lost."""
        replica = broker.replica
        broker.wrote_ms = max(broker.wrote_ms, self.now_ms) + self._draw(self.plan.write_ms)
        broker.writes.append(effect)

        def done() -> None:
            if broker.replica is not replica:
                return
            broker.writes.remove(effect)
            broker.disk.write(effect)
            kind = Truncated if isinstance(effect, e.Truncate) else Appended
            self._handle(broker, kind(effect.end_offset))

        self._at(broker.wrote_ms, done)

    def _send_fetch(self, broker: Broker, fetch: e.SendFetch, name: str) -> None:
        asked = Asked(name, broker, broker.replica, fetch)
        leader = self._brokers[fetch.leader]

        def arrive() -> None:
            if leader.replica is None:
                self._refused(asked, 8)
                return
            available = BATCH_BYTES * len(leader.disk.read(fetch.offset, 1 << 60, 1 << 60))
            event = FetchReceived(
                asked,
                broker.node,
                fetch.broker_epoch,
                fetch.leader_epoch,
                fetch.offset,
                fetch.last_epoch,
                fetch.high_watermark,
                fetch.max_bytes,
                fetch.min_bytes,
                fetch.max_wait_ms,
                available,
            )
            self._handle(leader, event)

        self._send(arrive)

    def _answer(
        self, leader: Broker, effect: e.SendEntries | e.SendDivergence | e.Refuse, asked: Asked
    ) -> None:
        fetch = asked.fetch
        if isinstance(effect, e.Refuse):
            self._refused(asked, effect.error)
            return
        event = FetchAnswered(
            fetch.leader_epoch,
            fetch.offset,
            fetch.last_epoch,
            high_watermark=effect.high_watermark,
        )
        if isinstance(effect, e.SendDivergence):
            event = attrs.evolve(event, diverging=effect.end)
        else:
            count = effect.max_bytes // BATCH_BYTES
            batches = leader.disk.read(effect.offset, effect.end_offset, count)
            epochs = tuple((batch.epoch, batch.end - batch.base) for batch in batches)
            size = BATCH_BYTES * len(batches)
            event = attrs.evolve(event, epochs=epochs, payload=batches, size_bytes=size)
        self._to_follower(asked, event)

    def _refused(self, asked: Asked, error: int) -> None:
        self._to_follower(asked, FetchRefused(asked.fetch.leader_epoch, error))

    def _to_follower(self, asked: Asked, event: Event) -> None:
        def arrive() -> None:
            if asked.follower.replica is asked.replica:
                self._handle(asked.follower, event, asked.name)

        self._send(arrive)

    def _send_proposal(self, broker: Broker, proposal: e.SendProposal, name: str) -> None:
        replica = broker.replica
        command = AlterPartition(
            name,
            broker.node,
            proposal.broker_epoch,
            TOPIC,
            0,
            proposal.leader_epoch,
            proposal.version,
            proposal.isr,
            proposal.joiner,
        )

        def answered(error: int) -> None:
            if broker.replica is replica:
                self._handle(broker, ProposalRefused(proposal.version, error), name)

        def arrive() -> None:
            for effect in self._command(command, name):
                if isinstance(effect, controller_effects.Refuse):
                    refused = partial(answered, int(effect.error))
                    self._send(refused)

        self._send(arrive)

    def _alive(self) -> Iterator[Broker]:
        return (broker for broker in self._brokers.values() if broker.replica is not None)

    def _produce(self) -> None:
        """Ask somebody who believes to lead; there may be two."""
        leaders = [each for each in self._alive() if each.leads]
        if not leaders:
            return
        acks = self._random.choice((ACKS_ALL, ACKS_ALL, ACKS_ALL, 1, 0))
        count = self._random.randint(1, 3)
        self._count += 1
        event = ProduceReceived(f"p{self._count}", acks, None, count, BATCH_BYTES)
        self._handle(self._random.choice(leaders), event)

    def _consume(self) -> None:
        for broker in self._alive():
            self._count += 1
            offset = self._random.randint(0, broker.disk.end)
            wait_ms = self._random.choice((0, 30))
            fetch = ConsumerFetchReceived(f"c{self._count}", offset, max_wait_ms=wait_ms)
            self._handle(broker, attrs.evolve(fetch, available_bytes=1))

    def _fault(self) -> None:
        if self._happens(self.plan.failovers):
            self._controllers.doomed = True
            return
        broker = self._random.choice(list(self._brokers.values()))
        kind = self._random.random()
        if kind < 0.5 and self._happens(self.plan.shutdowns):
            self._shut_down(broker)
        elif kind < 0.5:
            self._stop(broker)
        elif kind < 0.8:
            broker.cut_off_until_ms = self.now_ms + self._random.randint(200, 900)
        else:
            self._command(ElectLeaders("elect", ElectionKind.PREFERRED, (KEY,)))
