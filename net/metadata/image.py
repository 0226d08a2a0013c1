"""The image of the metadata, and who wants to hear of its changes.

An image is what `protocol.controller.apply` makes of the committed records. Here records become an
image, an image becomes the records of a snapshot, and each step is told as a `Change` that names
what it touched: a broker with ten thousand partitions need not look at all of them again. What a
change means is for whoever hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import attrs

from net.metadata.codec import AnyRecord, BadRecord, FloorRecord
from protocol.controller.records import (
    BrokerConfigRecord,
    BrokerRecord,
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    apply,
)
from protocol.controller.state import Floor, Image, Key
from protocol.types import NO_LEADER, NodeId, Offset


@attrs.frozen
class Change:
    """From one image to the next: `after` is that of everything before `offset`.

    The sets name all that may differ: also what is gone, and what was changed and changed back.
    """

    before: Image
    after: Image
    offset: Offset
    partitions: frozenset[Key] = frozenset()
    topics: frozenset[str] = frozenset()
    brokers: frozenset[NodeId] = frozenset()


Subscriber: TypeAlias = Callable[[Change], None]


class ImageLoader:
    """The newest image, and those who are told when there is a newer one."""

    def __init__(self, image: Image | None = None, offset: Offset = 0) -> None:
        self.image = Image() if image is None else image
        self.offset = offset
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell somebody of every change; at once of all that there is, if there is something."""
        self._subscribers.append(subscriber)
        if self.offset:
            subscriber(difference(Image(), self.image, self.offset))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Tell them no more."""
        self._subscribers.remove(subscriber)

    def apply(self, records: Sequence[tuple[Offset, Record]], end_offset: Offset) -> Change:
        """Take the committed records up to `end_offset`, and tell what they change."""
        before = image = self.image
        touched = _Touched()
        for _, record in records:
            touched.note(image, record)
            image = apply(image, record)
        return self._publish(touched.change(before, image, end_offset))

    def replace(self, image: Image, end_offset: Offset) -> Change:
        """Take a snapshot's image instead, and tell how it differs."""
        return self._publish(difference(self.image, image, end_offset))

    def _publish(self, change: Change) -> Change:
        self.image, self.offset = change.after, change.offset
        for subscriber in tuple(self._subscribers):
            subscriber(change)
        return change


class _Touched:
    """What some records are about."""

    def __init__(self) -> None:
        self.partitions: set[Key] = set()
        self.topics: set[str] = set()
        self.brokers: set[NodeId] = set()

    def note(self, image: Image, record: Record) -> None:
        match record:
            case BrokerRecord(registration):
                self.brokers.add(registration.node)
            case UnregisterBrokerRecord(node) | BrokerConfigRecord(node):
                self.brokers.add(node)
            case TopicRecord(name) | ConfigRecord(name):
                self.topics.add(name)
            case RemoveTopicRecord(name):
                self.topics.add(name)
                topic = image.topics.get(name)
                if topic is not None:
                    self.partitions.update(each.key for each in image.of_topic(topic))
            case PartitionRecord(partition):
                self.partitions.add(partition.key)
                self.topics.add(partition.topic)

    def change(self, before: Image, after: Image, offset: Offset) -> Change:
        return Change(
            before,
            after,
            offset,
            frozenset(self.partitions),
            frozenset(self.topics),
            frozenset(self.brokers),
        )


def difference(before: Image, after: Image, offset: Offset) -> Change:
    """Compare two images whole; for what came as a snapshot."""
    touched = _Touched()
    touched.partitions = {
        key
        for key in {*before.partitions, *after.partitions}
        if before.partitions.get(key) != after.partitions.get(key)
    }
    touched.topics = {
        name
        for name in {*before.topics, *after.topics}
        if before.topics.get(name) != after.topics.get(name)
    }
    touched.brokers = {
        node
        for node in {*before.brokers, *after.brokers, *before.broker_configs, *after.broker_configs}
        if before.brokers.get(node) != after.brokers.get(node)
        or before.broker_configs.get(node) != after.broker_configs.get(node)
    }
    return touched.change(before, after, offset)


def image_records(image: Image) -> Iterator[AnyRecord]:
    """Yield records that lead to this very image, in the same order for equal images."""
    if image.floor != Floor():
        yield FloorRecord(image.floor)
    for node in sorted(image.brokers):
        yield BrokerRecord(image.brokers[node])
    for node in sorted(image.broker_configs):
        yield BrokerConfigRecord(node, image.broker_configs[node])
    for name in sorted(image.topics):
        topic = image.topics[name]
        yield TopicRecord(topic.name, topic.id, topic.config)
        for partition in image.of_topic(topic):
            yield PartitionRecord(partition)
    if image.next_producer_id:
        yield ProducerIdsRecord(NO_LEADER, 0, image.next_producer_id)


def image_of(records: Iterable[AnyRecord], image: Image | None = None) -> Image:
    """Give the image that a snapshot's records lead to."""
    image = Image() if image is None else image
    for record in records:
        if isinstance(record, FloorRecord):
            image = attrs.evolve(image, floor=record.floor)
        else:
            image = apply(image, record)
    return image


def log_records(found: Iterable[tuple[Offset, AnyRecord]]) -> list[tuple[Offset, Record]]:
    """Give the records of a log, which has none that only snapshots have."""
    records: list[tuple[Offset, Record]] = []
    for offset, record in found:
        if isinstance(record, FloorRecord):
            raise BadRecord(f"offset {offset}: a floor record, which only snapshots have")
        records.append((offset, record))
    return records
