"""A controller with its log, for tests that read like examples: brokers are 1, 2, 3, ..."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.controller import (
    AlterPartition,
    AppendRecords,
    BecameActive,
    Command,
    Controller,
    ControllerConfig,
    ControllerRules,
    ControllerState,
    CreateTopics,
    Heartbeat,
    Image,
    ItemResult,
    NewTopic,
    Partition,
    Record,
    RecordsCommitted,
    Refuse,
    RegisterBroker,
    Registered,
    Reply,
    Results,
    SessionExpired,
)
from protocol.errors import ErrorCode
from protocol.machine import Effects, Event


class Cluster:
    """A controller, the records it has appended, and a clock that only `later` moves."""

    def __init__(self, brokers: int, config: ControllerConfig, rules: ControllerRules) -> None:
        self.machine = Controller(ControllerState(config=config), rules)
        self.records: list[Record] = []
        self.now_ms = 1_000
        self.incarnations = 0
        self.handle(BecameActive(Image(), 0))
        for node in range(1, brokers + 1):
            self.register(node)
            self.heartbeat(node)

    @property
    def image(self) -> Image:
        return self.machine.state.image

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.image.partitions[topic, index]

    def handle(self, event: Event) -> Effects:
        """Hand over an event; keep the records, and commit nothing."""
        effects = self.machine.handle(event, self.now_ms)
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert effect.base_offset == len(self.records)
                self.records.extend(effect.records)
        return effects

    def commit(self) -> Effects:
        """Let everything that was appended be durable."""
        return self.handle(RecordsCommitted(len(self.records)))

    def do(self, command: Command) -> object:
        """Send a command that is accepted, make it durable, return the value of its reply."""
        effects = self.handle(command) + self.commit()
        (reply,) = [effect for effect in effects if not isinstance(effect, AppendRecords)]
        assert isinstance(reply, Reply), reply
        assert reply.correlation == command.correlation
        return reply.value

    def refused(self, command: Command) -> ErrorCode:
        """Send a command that is refused and changes nothing; return the error."""
        before = self.machine.state
        (refusal,) = self.handle(command)
        assert isinstance(refusal, Refuse), refusal
        assert refusal.correlation == command.correlation
        assert refusal.message
        assert self.machine.state is before
        return refusal.error

    def results(self, command: Command) -> list[ItemResult]:
        """Send a command about several things; return what became of each."""
        results = self.do(command)
        assert isinstance(results, Results)
        return list(results.items)

    def errors(self, command: Command) -> list[ErrorCode]:
        """Send a command about several things; return each one's error."""
        return [result.error for result in self.results(command)]

    def later(self, ms: int) -> None:
        self.now_ms += ms

    def register(self, node: int, clean: bool = True, rack: str = "") -> Registered:
        """Start a broker, or start it anew with the disk it had."""
        self.incarnations += 1
        known = self.image.brokers.get(node)
        registered = self.do(
            RegisterBroker(
                "register",
                node,
                incarnation=f"{node}/{self.incarnations}",
                previous_broker_epoch=known.epoch if known else 0,
                clean_shutdown=clean,
                rack=rack,
            )
        )
        assert isinstance(registered, Registered)
        return registered

    def heartbeat(self, node: int, wants_shutdown: bool = False) -> object:
        epoch = self.image.brokers[node].epoch
        return self.do(Heartbeat("heartbeat", node, epoch, wants_shutdown))

    def fence(self, *nodes: int) -> None:
        """Let the sessions of these brokers run out, in this order, and of no others."""
        for node in nodes:
            self.later(self.machine.state.config.session_timeout_ms)
            for other in sorted(set(self.machine.state.heard_ms) - {node}):
                self.heartbeat(other)
            self.handle(SessionExpired(node))
            self.commit()

    def settle(self) -> None:
        """Do what is due now; what follows from it is never due by itself."""
        for event in self.machine.due(self.now_ms):
            self.handle(event)
        assert self.machine.due(self.now_ms) == ()
        self.commit()

    def topic(
        self, *replicas: tuple[int, ...], name: str = "t", min_isr: int = 1, unclean: bool = False
    ) -> Partition:
        """Create a topic with these replicas; return its first partition."""
        new = NewTopic(name, assignment=replicas, min_isr=min_isr, unclean_election=unclean)
        assert self.errors(CreateTopics("create", (new,))) == [ErrorCode.NONE]
        return self.partition(name)

    def proposal(self, isr: set[int], joiner_epoch: int = 0, name: str = "t") -> AlterPartition:
        """What the leader of a topic's first partition proposes, knowing its newest record."""
        known = self.partition(name)
        leader = self.image.brokers[known.leader]
        return AlterPartition(
            "alter",
            leader.node,
            leader.epoch,
            known.topic,
            known.index,
            known.leader_epoch,
            known.version,
            frozenset(isr),
            joiner_epoch,
        )


@pytest.fixture
def cluster() -> Callable[..., Cluster]:
    """Make a cluster of so many brokers, all alive."""

    def make(
        brokers: int = 3,
        config: ControllerConfig | None = None,
        rules: ControllerRules | None = None,
    ) -> Cluster:
        return Cluster(brokers, config or ControllerConfig(), rules or ControllerRules())

    return make
