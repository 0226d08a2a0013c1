"""The metadata records, and `apply`: how an image follows from them.

Every node applies the same records in the same order and has the same image. `apply` decides
nothing and refuses nothing: a record that makes no sense for an image leaves it as it is, because
whoever replays a log has no one to complain to. That only sensible records are written is the
business of the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import attrs
from immutables import Map

from protocol.controller.state import (
    EMPTY,
    Floor,
    Image,
    Key,
    Partition,
    Registration,
    Topic,
    TopicConfig,
)
from protocol.idempotence.fold import ProducerId
from protocol.types import BrokerEpoch, NodeId


@attrs.frozen
class BrokerRecord:
    """A broker has registered, or something about its registration has changed."""

    registration: Registration


@attrs.frozen
class UnregisterBrokerRecord:
    """A broker is gone for good."""

    node: NodeId


@attrs.frozen
class TopicRecord:
    """A topic is created; its partitions follow."""

    name: str
    id: str
    config: TopicConfig


@attrs.frozen
class ConfigRecord:
    """A topic's settings are these from now on."""

    topic: str
    config: TopicConfig


@attrs.frozen
class RemoveTopicRecord:
    """A topic is gone with all its partitions."""

    name: str


@attrs.frozen
class PartitionRecord:
    """A partition's record is this from now on."""

    partition: Partition


@attrs.frozen
class ProducerIdsRecord:
    """A broker has got a block of producer ids; the next block begins at `next_producer_id`."""

    node: NodeId
    broker_epoch: BrokerEpoch
    next_producer_id: ProducerId


@attrs.frozen
class BrokerConfigRecord:
    """The settings of a broker, or of every one (`EVERY_BROKER`), are these from now on."""

    node: NodeId
    settings: Map[str, str]


Record: TypeAlias = (
    BrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | ConfigRecord
    | RemoveTopicRecord
    | PartitionRecord
    | ProducerIdsRecord
    | BrokerConfigRecord
)


def apply(image: Image, record: Record) -> Image:
    """Return the image that follows when `record` is the next one."""
    return _APPLY[type(record)](image, record)


def replay(records: Iterable[Record], image: Image | None = None) -> Image:
    """Return the image that these records lead to, from an empty one if none is given."""
    image = Image() if image is None else image
    for record in records:
        image = apply(image, record)
    return image


def _broker(image: Image, record: BrokerRecord) -> Image:
    registration = record.registration
    return attrs.evolve(image, brokers=image.brokers.set(registration.node, registration))


def _unregister(image: Image, record: UnregisterBrokerRecord) -> Image:
    registration = image.brokers.get(record.node)
    if registration is None:
        return image
    epoch: BrokerEpoch = max(image.floor.broker_epoch, registration.epoch)
    return attrs.evolve(
        image,
        brokers=image.brokers.delete(record.node),
        floor=attrs.evolve(image.floor, broker_epoch=epoch),
    )


def _topic(image: Image, record: TopicRecord) -> Image:
    if record.name in image.topics:
        return image
    topic = Topic(record.name, record.id, record.config)
    return attrs.evolve(image, topics=image.topics.set(record.name, topic))


def _config(image: Image, record: ConfigRecord) -> Image:
    topic = image.topics.get(record.topic)
    if topic is None:
        return image
    topic = attrs.evolve(topic, config=record.config)
    return attrs.evolve(image, topics=image.topics.set(topic.name, topic))


def _remove_topic(image: Image, record: RemoveTopicRecord) -> Image:
    topic = image.topics.get(record.name)
    if topic is None:
        return image
    partitions, assigned, floor = image.partitions, image.assigned, image.floor
    for partition in image.of_topic(topic):
        partitions = partitions.delete(partition.key)
        for node in partition.replicas:
            assigned = _unassign(assigned, node, partition.key)
        floor = Floor(
            floor.broker_epoch,
            max(floor.leader_epoch, partition.leader_epoch),
            max(floor.version, partition.version),
        )
    return attrs.evolve(
        image,
        topics=image.topics.delete(topic.name),
        partitions=partitions,
        assigned=assigned,
        floor=floor,
    )


def _partition(image: Image, record: PartitionRecord) -> Image:
    partition = record.partition
    topic = image.topics.get(partition.topic)
    # Only the next index may be new, or a topic would have gaps.
    if topic is None or not 0 <= partition.index <= topic.partitions:
        return image
    topics, assigned, key = image.topics, image.assigned, partition.key
    old = image.partitions.get(key)
    if old is None:
        topics = topics.set(topic.name, attrs.evolve(topic, partitions=topic.partitions + 1))
    if old is None or old.replicas != partition.replicas:
        for node in old.replicas if old else ():
            assigned = _unassign(assigned, node, key)
        for node in partition.replicas:
            assigned = assigned.set(node, assigned.get(node, EMPTY).set(key, None))
    return attrs.evolve(
        image,
        topics=topics,
        partitions=image.partitions.set(key, partition),
        assigned=assigned,
    )


def _producer_ids(image: Image, record: ProducerIdsRecord) -> Image:
    # Never back: an id that was given away stays so.
    if record.next_producer_id <= image.next_producer_id:
        return image
    return attrs.evolve(image, next_producer_id=record.next_producer_id)


def _broker_config(image: Image, record: BrokerConfigRecord) -> Image:
    configs = image.broker_configs
    if record.settings:
        configs = configs.set(record.node, record.settings)
    elif record.node in configs:
        configs = configs.delete(record.node)
    return attrs.evolve(image, broker_configs=configs)


def _unassign(
    assigned: Map[NodeId, Map[Key, None]], node: NodeId, key: Key
) -> Map[NodeId, Map[Key, None]]:
    keys = assigned[node].delete(key)
    return assigned.set(node, keys) if keys else assigned.delete(node)


_APPLY: dict[type, Callable[[Image, Any], Image]] = {
    BrokerRecord: _broker,
    UnregisterBrokerRecord: _unregister,
    TopicRecord: _topic,
    ConfigRecord: _config,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _partition,
    ProducerIdsRecord: _producer_ids,
    BrokerConfigRecord: _broker_config,
}
