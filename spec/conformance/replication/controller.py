"""The controller of the explored cluster: one topic, one partition, and a log that commits at once.

A decision is a function of the image alone: each step begins as a controller that has just become
active, which is what makes soft state (sessions, replies that wait) irrelevant to the comparison.
Where the spec lets any candidate be chosen, the code takes the first in assignment order; so every
order is tried.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from protocol.controller import Controller, ControllerRules
from protocol.controller.effects import AppendRecords, Refuse
from protocol.controller.events import (
    AlterPartition,
    BecameActive,
    ElectionKind,
    ElectLeaders,
    Heartbeat,
    LeaderlessDue,
    RegisterBroker,
    SessionExpired,
    UncleanDue,
)
from protocol.controller.records import (
    BrokerRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    apply,
    replay,
)
from protocol.controller.state import (
    ControllerState,
    Image,
    Partition,
    Registration,
    TopicConfig,
)
from protocol.errors import ErrorCode
from protocol.machine import Event
from protocol.replication.effects import SendProposal
from spec.conformance.replication.constants import Constants
from spec.conformance.replication.node import FOREVER_MS

TOPIC = "t"
_KEY = (TOPIC, 0)


class LenientController(Controller):
    """The same machine, but it goes on where a controller would stop."""

    __slots__ = ()

    def check(self, event: Event, before: ControllerState, after: ControllerState) -> None:
        """Leave the judgement to the properties that are explored."""


@attrs.frozen(cache_hash=True)
class Decided:
    """What has been decided: the image, and from it what the spec calls `ctl` and `broker`."""

    image: Image
    partition: Partition = attrs.field(init=False, eq=False)
    fenced: frozenset[int] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "partition", self.image.partitions[_KEY])
        brokers = self.image.brokers
        fenced = frozenset(node for node in brokers if brokers[node].fenced)
        object.__setattr__(self, "fenced", fenced)


def first_decided(constants: Constants) -> Decided:
    """Mirrors `FirstRecord`: all brokers are registered, all replicas are in sync."""
    nodes = range(1, len(constants.replicas) + 1)
    records: list[Record] = [
        BrokerRecord(Registration(node, 1, _incarnation(node, 1), fenced=False)) for node in nodes
    ]
    config = TopicConfig(constants.min_isr, constants.unclean_election)
    records.append(TopicRecord(TOPIC, "", config))
    partition = Partition(TOPIC, 0, tuple(nodes), frozenset(nodes), leader=constants.first_leader)
    records.append(PartitionRecord(partition))
    return Decided(replay(records))


@attrs.frozen
class Verdict:
    """What the controller made of a proposal."""

    decided: Decided
    error: ErrorCode


class Decisions:
    """The decisions that a controller with these rules makes."""

    def __init__(self, rules: ControllerRules, *, lenient: bool = False) -> None:
        self.rules = rules
        self._lenient = lenient
        # The machine is pure, so that a decision need not be made twice.
        self._made: dict[tuple[Decided, Event], Verdict] = {}

    def propose(self, decided: Decided, leader: int, proposal: SendProposal) -> Verdict:
        """A leader's AlterPartition arrives."""
        command = AlterPartition(
            correlation=leader,
            node=leader,
            broker_epoch=proposal.broker_epoch,
            topic=TOPIC,
            index=0,
            leader_epoch=proposal.leader_epoch,
            version=proposal.version,
            isr=proposal.isr,
            joiner_epoch=proposal.joiner,
        )
        return self._decide(decided, command)

    def elect(self, decided: Decided, replica: int) -> Decided | None:
        """Elect this replica cleanly, if it is a candidate: on demand, or because nobody leads."""
        preferred = _prefer(decided, replica)
        event: Event = ElectLeaders(0, ElectionKind.PREFERRED, (_KEY,))
        if decided.partition.leader < 0:
            event = LeaderlessDue(TOPIC, 0)
        return self._elected(decided, preferred, event, replica)

    def elect_uncleanly(self, decided: Decided, replica: int) -> Decided | None:
        """Elect this replica although it may lack something, if that is allowed and needed."""
        return self._elected(decided, _prefer(decided, replica), UncleanDue(TOPIC, 0), replica)

    def fence(self, decided: Decided, node: int) -> Iterator[Decided]:
        """A broker's heartbeats fail to arrive."""
        if node not in decided.fenced:
            yield from self._any_order(decided, SessionExpired(node))

    def unfence(self, decided: Decided, node: int) -> Decided | None:
        """A fenced broker's heartbeat arrives."""
        epoch = decided.image.brokers[node].epoch
        after = self._decide(decided, Heartbeat(0, node, epoch)).decided
        return None if after == decided else after

    def register(self, decided: Decided, node: int, clean_shutdown: bool) -> Iterator[Decided]:
        """A broker has restarted, and registers again."""
        epoch = decided.image.brokers[node].epoch
        command = RegisterBroker(
            0, node, _incarnation(node, epoch + 1), epoch, clean_shutdown=clean_shutdown
        )
        yield from self._any_order(decided, command)

    def _any_order(self, decided: Decided, event: Event) -> Iterator[Decided]:
        replicas = decided.partition.replicas
        outcomes = {
            _restore(self._decide(_prefer(decided, first), event).decided, replicas): None
            for first in replicas
        }
        yield from outcomes

    def _elected(
        self, decided: Decided, preferred: Decided, event: Event, replica: int
    ) -> Decided | None:
        after = self._decide(preferred, event).decided
        if after == preferred or after.partition.leader != replica:
            return None
        return _restore(after, decided.partition.replicas)

    def _decide(self, decided: Decided, event: Event) -> Verdict:
        made = self._made.get((decided, event))
        if made is None:
            made = self._made[decided, event] = self._ask(decided, event)
        return made

    def _ask(self, decided: Decided, event: Event) -> Verdict:
        kind = LenientController if self._lenient else Controller
        machine = kind(ControllerState(), self.rules)
        machine.handle(BecameActive(decided.image, 0), 0)
        image, error = decided.image, ErrorCode.NONE
        for effect in machine.handle(event, FOREVER_MS):
            if isinstance(effect, AppendRecords):
                # As every node would: from the records, not from the machine's own image.
                image = replay(effect.records, image)
            elif isinstance(effect, Refuse):
                error = effect.error
        return Verdict(Decided(image) if image is not decided.image else decided, error)


def _prefer(decided: Decided, replica: int) -> Decided:
    """Put one replica first in the assignment."""
    others = [node for node in decided.partition.replicas if node != replica]
    return _restore(decided, (replica, *others))


def _restore(decided: Decided, replicas: tuple[int, ...]) -> Decided:
    if decided.partition.replicas == replicas:
        return decided
    partition = attrs.evolve(decided.partition, replicas=replicas)
    return Decided(apply(decided.image, PartitionRecord(partition)))


def _incarnation(node: int, epoch: int) -> str:
    return f"{node}-{epoch}"
