"""What a client knows of a cluster: brokers, topics, leaders. Values only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

import attrs

from net.transport.seam import Endpoint
from net.wire.library import Message

NO_ID: Final = uuid.UUID(int=0)
NO_LEADER: Final = -1


@attrs.frozen
class Broker:
    """A broker and where it listens."""

    id: int
    endpoint: Endpoint
    rack: str | None = None


@attrs.frozen
class PartitionInfo:
    """A partition: who leads it (-1: nobody), since which epoch (-1: not told), who follows."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error: int = 0


@attrs.frozen
class TopicInfo:
    """A topic, or the error instead of it."""

    name: str
    id: uuid.UUID
    partitions: tuple[PartitionInfo, ...]
    """By rising index."""
    error: int = 0
    is_internal: bool = False

    def find(self, index: int) -> PartitionInfo | None:
        """Return a partition, if there is such a one."""
        # Almost always they are numbered without a gap.
        if index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]
        return next((each for each in self.partitions if each.index == index), None)


@attrs.frozen
class ClusterInfo:
    """One answer about a cluster."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicInfo]


def read_metadata(answer: Message) -> ClusterInfo:
    """Make values of a Metadata answer of any version."""
    brokers = {
        each["node_id"]: Broker(
            each["node_id"], Endpoint(each["host"], each["port"]), each.get("rack")
        )
        for each in answer["brokers"]
    }
    topics = {
        each["name"]: TopicInfo(
            name=each["name"],
            id=each.get("topic_id") or NO_ID,
            partitions=tuple(
                sorted((_partition(one) for one in each["partitions"]), key=lambda one: one.index)
            ),
            error=each["error_code"],
            is_internal=each.get("is_internal", False),
        )
        for each in answer["topics"]
        if each["name"] is not None
    }
    return ClusterInfo(answer.get("cluster_id"), answer.get("controller_id", -1), brokers, topics)


def keep_newer(old: ClusterInfo, new: ClusterInfo) -> ClusterInfo:
    """Return the new picture, but leaders of an older epoch than is known already stay out.

    A broker that lags behind would send its clients back to a leader that is deposed (KIP-320).
    Only a topic that is surely the same is compared: one that was created again counts anew.
    """
    topics = dict(new.topics)
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is None or topic.id == NO_ID or before.id != topic.id:
            continue
        partitions = tuple(
            known
            if (known := before.find(each.index)) is not None
            and known.leader_epoch > each.leader_epoch
            else each
            for each in topic.partitions
        )
        topics[name] = attrs.evolve(topic, partitions=partitions)
    return attrs.evolve(new, topics=topics)


def _partition(each: Message) -> PartitionInfo:
    return PartitionInfo(
        index=each["partition_index"],
        leader=each["leader_id"],
        leader_epoch=each.get("leader_epoch", -1),
        replicas=tuple(each["replica_nodes"]),
        isr=tuple(each["isr_nodes"]),
        offline=tuple(each.get("offline_replicas", ())),
        error=each["error_code"],
    )
