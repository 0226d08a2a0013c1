"""Which partition a record goes to, when its sender does not say.

Records with a key go where Kafka's hash says, in every client. Those without go by turns, or stick
to one partition until a batch of it is closed (KIP-480), so that batches become large. Partitions
without a leader are avoided for these, as long as there are others.
"""

from __future__ import annotations

import abc
import random

from net.client.murmur2 import partition_of
from net.client.topology import NO_LEADER, TopicInfo
from net.transport.seam import Buffer


class Partitioner(abc.ABC):
    """Chooses partitions for one producer."""

    sticks = False
    """Whether asking twice for one record does no harm."""

    def choose(self, topic: TopicInfo, key: Buffer | None) -> int:
        """Return the index of a partition of the topic."""
        if key is not None:
            return topic.partitions[partition_of(key, len(topic.partitions))].index
        return self.choose_keyless(topic)

    @abc.abstractmethod
    def choose_keyless(self, topic: TopicInfo) -> int:
        """Return a partition for a record that may go anywhere."""

    def batch_closed(self, topic: str, partition: int) -> None:
        """Hear that a batch takes no more records."""
        del topic, partition


def _led(topic: TopicInfo) -> list[int]:
    led = [each.index for each in topic.partitions if each.leader != NO_LEADER]
    return led or [each.index for each in topic.partitions]


class StickyPartitioner(Partitioner):
    """Stays with a partition until its batch is closed, then takes another one at random."""

    sticks = True

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._chosen: dict[str, int] = {}
        self._closed: dict[str, int] = {}

    def choose_keyless(self, topic: TopicInfo) -> int:
        """Return the chosen one, or choose."""
        chosen = self._chosen.get(topic.name)
        led = _led(topic)
        if chosen is None or chosen not in led:
            last = self._closed.pop(topic.name, None)
            others = [index for index in led if index != last] or led
            chosen = self._chosen[topic.name] = self._chance.choice(others)
        return chosen

    def batch_closed(self, topic: str, partition: int) -> None:
        """Choose anew the next time."""
        if self._chosen.get(topic) == partition:
            self._closed[topic] = self._chosen.pop(topic)


class RoundRobinPartitioner(Partitioner):
    """Takes one partition after the other, for records with a key too, as Kafka's does."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def choose(self, topic: TopicInfo, key: Buffer | None) -> int:
        """Return the next one; the key does not matter."""
        del key
        return self.choose_keyless(topic)

    def choose_keyless(self, topic: TopicInfo) -> int:
        """Return the next one."""
        count = self._counts.get(topic.name, 0)
        self._counts[topic.name] = count + 1
        led = _led(topic)
        return led[count % len(led)]
