"""What can happen to the controller: commands that want an answer, and what becomes due or durable.

A command carries a `correlation`, which its `Reply` or `Refuse` brings back. While this controller
is not the active one, every command is refused with NOT_CONTROLLER.
"""

from __future__ import annotations

import enum

import attrs
from immutables import Map

from protocol.controller.state import EMPTY, Image, Key
from protocol.machine import Event
from protocol.types import BrokerEpoch, Correlation, Epoch, NodeId, Offset, Version


@attrs.frozen
class Command(Event):
    """Something that somebody asks for."""

    correlation: Correlation


@attrs.frozen
class BecameActive(Event):
    """This controller has won: `image` is that of all records before `next_offset`, all durable."""

    image: Image
    next_offset: Offset


@attrs.frozen
class Resigned(Event):
    """This controller is active no more; what it had not committed is not known to last."""


@attrs.frozen
class RecordsCommitted(Event):
    """Every record before `end_offset` is durable."""

    end_offset: Offset


@attrs.frozen
class SessionExpired(Event):
    """A broker has not been heard of for too long."""

    node: NodeId


@attrs.frozen
class LeaderlessDue(Event):
    """A partition has no leader, and somebody may be elected cleanly."""

    topic: str
    index: int


@attrs.frozen
class UncleanDue(Event):
    """A partition has no leader, nobody may be elected cleanly, and its topic puts up with less."""

    topic: str
    index: int


@attrs.frozen
class RegisterBroker(Command):
    """A broker has started and wants to take part.

    `previous_broker_epoch` is the one on its disk, 0 if there is none. `clean_shutdown`: it stopped
    in good order the last time, so its disk has all that it ever had.
    """

    node: NodeId
    incarnation: str
    previous_broker_epoch: BrokerEpoch = 0
    clean_shutdown: bool = False
    endpoints: tuple[object, ...] = ()
    rack: str = ""


@attrs.frozen
class Heartbeat(Command):
    """A broker is alive. `caught_up`: it has read the metadata, so it may be unfenced."""

    node: NodeId
    broker_epoch: BrokerEpoch
    wants_shutdown: bool = False
    caught_up: bool = True


@attrs.frozen
class AllocateProducerIds(Command):
    """A broker wants a block of producer ids, to give to the producers that ask it for one."""

    node: NodeId
    broker_epoch: BrokerEpoch


@attrs.frozen
class Unregister(Command):
    """A broker that has no partitions any more is gone for good."""

    node: NodeId


@attrs.frozen
class Decommission(Command):
    """Move everything away from a broker, so that it can be unregistered; or change one's mind.

    Repeated until nothing remains, as one command moves only so much.
    """

    node: NodeId
    cancel: bool = False


@attrs.frozen
class AlterPartition(Command):
    """A leader proposes an ISR, made from the record of `version`.

    `joiner_epoch` is the broker epoch with which the added replica has caught up; 0 if none is.
    """

    node: NodeId
    broker_epoch: BrokerEpoch
    topic: str
    index: int
    leader_epoch: Epoch
    version: Version
    isr: frozenset[NodeId]
    joiner_epoch: BrokerEpoch = 0


class ElectionKind(enum.Enum):
    """PREFERRED: the first replica, if it may lead. UNCLEAN: anybody, if nobody may."""

    PREFERRED = 0
    UNCLEAN = 1


@attrs.frozen
class ElectLeaders(Command):
    """An operator wants elections; `partitions` None means wherever one is needed."""

    kind: ElectionKind
    partitions: tuple[Key, ...] | None = None


@attrs.frozen
class AlterReassignment(Command):
    """Move a partition to these replicas, or with None, give up the move that is under way."""

    topic: str
    index: int
    replicas: tuple[NodeId, ...] | None


@attrs.frozen
class NewTopic:
    """A topic to create. -1 and None stand for the controller's defaults.

    `assignment`, if given, names each partition's replicas; otherwise the controller places them.
    `id` is drawn by the driver.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: tuple[tuple[NodeId, ...], ...] | None = None
    min_isr: int | None = None
    unclean_election: bool | None = None
    other: Map[str, str] = EMPTY
    id: str = ""


@attrs.frozen
class CreateTopics(Command):
    """Create topics, or with `validate_only`, tell what would become of it."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@attrs.frozen
class DeleteTopics(Command):
    """Delete topics with all that is in them."""

    names: tuple[str, ...]


@attrs.frozen
class CreatePartitions(Command):
    """Let a topic grow to `count` partitions; `assignment` names the new ones' replicas."""

    topic: str
    count: int
    assignment: tuple[tuple[NodeId, ...], ...] | None = None
    validate_only: bool = False


class Unset(enum.Enum):
    """DEFAULT: a setting is to have its default again."""

    DEFAULT = 0


@attrs.frozen
class AlterTopicConfig(Command):
    """Change some of a topic's settings; what is None stays. In `other`, None removes a setting.

    With `validate_only`, nothing changes, and the reply is what would.
    """

    topic: str
    min_isr: int | Unset | None = None
    unclean_election: bool | Unset | None = None
    other: Map[str, str | None] = EMPTY
    validate_only: bool = False


@attrs.frozen
class AlterBrokerConfig(Command):
    """Change some settings of a broker, or of every one (`EVERY_BROKER`); None removes a setting.

    The controller does not live by them. They stay when a broker is unregistered.
    """

    node: NodeId
    changes: Map[str, str | None] = EMPTY
    validate_only: bool = False
