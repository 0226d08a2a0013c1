"""What the controller knows: the image of the cluster's metadata, and what only the active one has.

The image is a fold of the metadata records (`records.apply`), so every node that has read the same
records has an equal one. The rest of `ControllerState` is soft: sessions, replies that wait for
durability. It is lost with the active controller and needs no more than a fresh start.

Nothing here decides anything; that is `decisions` by the `rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from immutables import Map

from protocol.idempotence.fold import ProducerId
from protocol.types import (
    NO_LEADER,
    BrokerEpoch,
    Epoch,
    NodeId,
    Offset,
    Version,
)

if TYPE_CHECKING:
    # Both are made of what is defined here.
    from protocol.controller.effects import Reply
    from protocol.controller.records import Record

Key: TypeAlias = tuple[str, int]
"""A partition's topic and index."""
Nodes: TypeAlias = frozenset[NodeId]
NOBODY: Final[Nodes] = frozenset()
EMPTY: Final[Map[Any, Any]] = Map()
EVERY_BROKER: Final[NodeId] = -1
"""Stands for all brokers where settings are given."""


@attrs.frozen
class Partition:
    """A partition's record: who has it, who is in sync, who leads.

    While it is being reassigned, `replicas` are the target's in their order, then those to remove.
    """

    topic: str
    index: int
    replicas: tuple[NodeId, ...]
    isr: Nodes
    elr: Nodes = NOBODY
    leader: NodeId = NO_LEADER
    leader_epoch: Epoch = 1
    version: Version = 1
    adding: Nodes = NOBODY
    removing: Nodes = NOBODY

    @property
    def key(self) -> Key:
        """The name under which the image has it."""
        return self.topic, self.index

    @property
    def target(self) -> tuple[NodeId, ...]:
        """The replicas that are to stay: all of them, unless some are being removed."""
        return tuple(node for node in self.replicas if node not in self.removing)

    @property
    def reassigning(self) -> bool:
        """Whether replicas are on their way in or out."""
        return bool(self.adding or self.removing)


@attrs.frozen
class Registration:
    """A broker's registration. `endpoints` is whatever clients are told; opaque here."""

    node: NodeId
    epoch: BrokerEpoch
    incarnation: str
    fenced: bool = True
    shutting_down: bool = False
    decommissioning: bool = False
    endpoints: tuple[object, ...] = ()
    rack: str = ""


@attrs.frozen
class TopicConfig:
    """A topic's settings: the two that the controller lives by, and the others, unread.

    `other` may also name these two, as they were set; that tells them from defaults.
    """

    min_isr: int = 1
    unclean_election: bool = False
    other: Map[str, str] = EMPTY


@attrs.frozen
class Topic:
    """A topic: its settings and how many partitions it has, numbered from zero without gaps."""

    name: str
    id: str = ""
    config: TopicConfig = TopicConfig()
    partitions: int = 0


@attrs.frozen
class Floor:
    """The largest numbers among what was removed; what comes later under its name starts above.

    So a message from before the removal can never be taken for one from after it.
    """

    broker_epoch: BrokerEpoch = 0
    leader_epoch: Epoch = 0
    version: Version = 0


@attrs.frozen
class Image:
    """The cluster's metadata. `assigned` is an index: which partitions a broker has replicas of."""

    brokers: Map[NodeId, Registration] = EMPTY
    topics: Map[str, Topic] = EMPTY
    partitions: Map[Key, Partition] = EMPTY
    assigned: Map[NodeId, Map[Key, None]] = EMPTY
    floor: Floor = Floor()
    next_producer_id: ProducerId = 0
    """Every producer id below this one belongs to some broker's block."""
    broker_configs: Map[NodeId, Map[str, str]] = EMPTY
    """Settings of brokers, by name; those under `EVERY_BROKER` are of all who have no other."""

    def min_isr(self, partition: Partition) -> int:
        """Return the topic's min.insync.replicas."""
        return self.topics[partition.topic].config.min_isr

    def is_available(self, node: NodeId) -> bool:
        """Whether a broker may lead and join: registered, not fenced, not about to stop."""
        broker = self.brokers.get(node)
        return broker is not None and not broker.fenced and not broker.shutting_down

    def unavailable(self, partition: Partition) -> Nodes:
        """Return the replicas that may not lead: the spec's `Fenced`, as far as it matters here."""
        return frozenset(node for node in partition.replicas if not self.is_available(node))

    def assigned_to(self, node: NodeId) -> list[Partition]:
        """Return the partitions that a broker has replicas of, in order of their names."""
        # Sorted, because the order of a map's keys is not the same in every process.
        return [self.partitions[key] for key in sorted(self.assigned.get(node, EMPTY))]

    def of_topic(self, topic: Topic) -> Iterator[Partition]:
        """Yield a topic's partitions in order."""
        return (self.partitions[topic.name, index] for index in range(topic.partitions))


@attrs.frozen
class Pending:
    """A reply that waits until everything before `offset` is durable."""

    offset: Offset
    reply: Reply


@attrs.frozen
class ControllerConfig:
    """Timeouts, defaults and bounds. Nothing that the controller holds or does is unbounded."""

    session_timeout_ms: int = 9_000
    default_partitions: int = 1
    default_replication_factor: int = 1
    default_min_isr: int = 1
    default_unclean_election: bool = False
    max_brokers: int = 1_000
    max_partitions: int = 200_000
    max_new_partitions_per_command: int = 10_000
    max_items_per_command: int = 1_000
    """Topics or partitions that one command may name, and partitions that it may move."""
    max_settings: int = 200
    """Of one topic or broker."""
    max_settings_chars: int = 64_000
    """Names and values of them all together."""
    max_pending_replies: int = 1_000
    producer_id_block: int = 1_000
    """How many producer ids a broker gets at a time."""


@attrs.frozen
class ControllerState:
    """The image, and the soft state of the active controller; empty while another is active."""

    config: ControllerConfig = ControllerConfig()
    active: bool = False
    image: Image = Image()
    next_offset: Offset = 0
    committed_offset: Offset = 0
    """Records before this offset are durable."""
    pending: tuple[Pending, ...] = ()
    """In the order of their offsets."""
    heard_ms: Map[NodeId, int] = EMPTY
    """When each broker that is not fenced was last heard of."""
    elections: Map[Key, bool] = EMPTY
    """The leaderless partitions for which somebody could be elected, and whether uncleanly."""
    last_records: tuple[Record, ...] = ()
    """What the last step appended, so that `check` need not look at more than that."""
