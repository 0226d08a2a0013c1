"""Brokers on the sans-IO core, on plain asyncio, in one process and in memory: an example.

`docs/build-a-broker.md` explains it. Only `Driver` knows the contract of `protocol.machine`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Any, TypeAlias, cast

from protocol import controller
from protocol.errors import InvariantViolation, RemoteProtocolError
from protocol.machine import Effect, Event, Machine
from protocol.replication import PartitionRecord, Replica, ReplicaConfig, effects, event_for, events

DISK_S, NETWORK_S, HEARTBEAT_S = 0.001, 0.002, 1.0
TOPIC = controller.NewTopic("demo", assignment=((1, 2, 3),), min_isr=2)
Begin: TypeAlias = Callable[[Effect], None]
Store: TypeAlias = Callable[[Any], Awaitable[Event]]


class Driver:
    """Runs one machine. `begin` begins an effect, `store` waits until a write is done."""

    def __init__(self, machine: Machine[Any, Any], begin: Begin, store: Store) -> None:
        self.machine, self._begin, self._store, self._closed = machine, begin, store, False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle = self._loop.call_soon(self._set_timer)
        self.writes: asyncio.Queue[Effect] = asyncio.Queue()
        self.disk = asyncio.create_task(self._store_in_order())

    def deliver(self, *happened: Event) -> None:
        """Let events be handled one by one, in this order, and never amid the effects of others."""
        for event in happened:
            self._loop.call_soon(self.handle, event)

    def handle(self, event: Event) -> None:
        """Handle an event now. Only the loop may call this, as it calls one thing at a time."""
        if self._closed:
            return
        try:
            given = self.machine.handle(event, self._now_ms())
        except InvariantViolation as violation:
            logging.critical("stopped: %s", violation)
            self.close()
        except RemoteProtocolError as error:
            logging.warning("dropped: %s", error)
        else:
            for effect in given:
                self._begin(effect)
            self._set_timer()

    def _now_ms(self) -> int:
        return round(self._loop.time() * 1000)  # the loop may be a nanosecond early

    def _set_timer(self) -> None:
        self._timer.cancel()
        deadline_ms = self.machine.next_deadline()
        if deadline_ms is not None:
            self._timer = self._loop.call_at(deadline_ms / 1000, self._ring)

    def _ring(self) -> None:
        self.deliver(*self.machine.due(self._now_ms()))

    async def _store_in_order(self) -> None:
        while True:
            self.deliver(await self._store(await self.writes.get()))

    def close(self) -> None:
        """Use the machine no more."""
        self._closed = True
        self._timer.cancel()
        self.disk.cancel()


def send(function: Callable[..., object], *arguments: object) -> None:
    """The network: call a function of another node, a little later."""
    asyncio.get_running_loop().call_later(NETWORK_S, function, *arguments)


async def ask(driver: Driver, kind: Callable[..., Event], *asked: object) -> Any:
    """Send a request, and wait for the answer: whatever its correlation is called with."""
    answers: asyncio.Queue[object] = asyncio.Queue()
    send(driver.deliver, kind(lambda *answer: send(answers.put_nowait, answer), *asked))
    return await answers.get()


class Broker:
    """One broker with its replica of the only partition, and the log of that."""

    def __init__(self, node: int, epoch: int, cluster: Cluster) -> None:
        self.node, self.epoch, self.cluster = node, epoch, cluster
        self.log: list[tuple[int, bytes]] = []
        self.replica = Replica.restarted(node, epoch, config=ReplicaConfig(min_isr=2))
        self.driver = Driver(self.replica, self._begin, self._store)
        self.heart = asyncio.create_task(self._beat())

    def _begin(self, effect: Effect) -> None:
        match effect:
            case effects.Append() | effects.Truncate():
                self.driver.writes.put_nowait(effect)
            case effects.SendFetch():
                send(self.cluster.brokers[effect.leader].serve, self, effect)
            case effects.SendProposal():
                self._propose(effect)
            case effects.SendEntries():
                cast(Any, effect).correlation(effect, self.log[effect.offset : effect.end_offset])
            case effects.ProduceDone() | effects.SendDivergence() | effects.Refuse():
                cast(Any, effect).correlation(effect, [])
            case _:
                raise NotImplementedError(f"nothing here leads to {effect}")

    async def _store(self, write: effects.Append | effects.Truncate) -> Event:
        await asyncio.sleep(DISK_S)
        if isinstance(write, effects.Truncate):
            del self.log[write.end_offset :]
            return events.Truncated(write.end_offset)
        values: Any = write.payload  # a leader's have no epochs yet, a follower's have
        self.log += [(write.epoch, value) for value in values] if write.epoch else values
        return events.Appended(write.end_offset)

    def serve(self, follower: Broker, ask: effects.SendFetch) -> None:
        """Make an event of a follower's request, and of the answer one for the follower."""

        def answer(effect: Any, found: list[Any]) -> None:
            if isinstance(effect, effects.Refuse):
                refused = events.FetchRefused(ask.leader_epoch, effect.error)
                return send(follower.driver.deliver, refused)
            end = effect.end if isinstance(effect, effects.SendDivergence) else None
            runs = tuple((epoch, len([*run])) for epoch, run in groupby(found, lambda e: e[0]))
            said = (end, effect.high_watermark, effect.log_start_offset, runs, found, len(found))
            asked = (ask.leader_epoch, ask.offset, ask.last_epoch)
            return send(follower.driver.deliver, events.FetchAnswered(*asked, *cast(Any, said)))

        who = (answer, follower.node, ask.broker_epoch, ask.leader_epoch)
        what = (ask.offset, ask.last_epoch, ask.high_watermark, ask.max_bytes, ask.min_bytes)
        stored = max(0, len(self.log) - ask.offset)
        self.driver.deliver(events.FetchReceived(*who, *what, ask.max_wait_ms, stored))

    def _propose(self, wanted: effects.SendProposal) -> None:
        def answer(effect: Effect) -> None:
            if isinstance(effect, controller.Refuse):
                send(self.driver.deliver, events.ProposalRefused(wanted.version, effect.error))

        made: Any = (wanted.leader_epoch, wanted.version, wanted.isr, wanted.joiner)
        proposal = controller.AlterPartition(answer, self.node, self.epoch, "demo", 0, *made)
        send(self.cluster.controller.deliver, proposal)

    def learn(self, known: controller.Partition) -> None:
        """Tell the replica what the metadata says."""
        named = (known.leader, known.leader_epoch, known.version, known.isr)
        record = PartitionRecord(*named, frozenset(known.replicas))
        self.driver.handle(event_for(self.replica.state, record))

    async def _beat(self) -> None:
        while await ask(self.cluster.controller, controller.Heartbeat, self.node, self.epoch):
            await asyncio.sleep(HEARTBEAT_S)

    def stop(self) -> None:
        """Stop at once; the controller will notice."""
        self.heart.cancel()
        self.driver.close()


class Cluster:
    """A controller and its brokers; the same driver runs the controller's machine."""

    async def __aenter__(self) -> Cluster:
        machine = controller.Controller(controller.ControllerState(), controller.ControllerRules())
        self.controller = Driver(machine, self._begin, self._store)
        self.controller.deliver(controller.BecameActive(controller.Image(), 0))
        self.brokers: dict[int, Broker] = {}
        for node in (1, 2, 3):
            (new,) = await ask(self.controller, controller.RegisterBroker, node, f"process {node}")
            self.brokers[node] = Broker(node, new.value.epoch, self)
        await ask(self.controller, controller.CreateTopics, (TOPIC,))
        return self

    def _begin(self, effect: Any) -> None:
        is_write = isinstance(effect, controller.AppendRecords)
        (self.controller.writes.put_nowait if is_write else effect.correlation)(effect)

    async def _store(self, write: controller.AppendRecords) -> Event:
        await asyncio.sleep(DISK_S)
        changed = [each for each in write.records if isinstance(each, controller.PartitionRecord)]
        for record in changed:
            for node in record.partition.replicas:
                send(self.brokers[node].learn, record.partition)
        return controller.RecordsCommitted(write.base_offset + len(write.records))

    async def __aexit__(self, *_: object) -> None:
        self.controller.close()
        for broker in self.brokers.values():
            broker.stop()
        tasks = [task for each in self.brokers.values() for task in (each.heart, each.driver.disk)]
        await asyncio.gather(self.controller.disk, *tasks, return_exceptions=True)
