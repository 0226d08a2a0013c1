"""A cluster as its own brokers tell it: who leads what, who is in sync, who controls.

It asks over the wire like any client, so what it shows is what clients see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from net.client.admin import Admin, ConfigKind
from net.client.topology import ClusterInfo, PartitionInfo

DECOMMISSION: Final = "hwmark.decommission"
MIN_ISR: Final = "min.insync.replicas"
TIMEOUT_MS: Final = 5_000


class ClusterView(Admin):
    """Looks at a cluster, and asks for the few things that an operator changes."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, client_id="hwmark-cluster", request_timeout_ms=TIMEOUT_MS)

    async def look(self) -> ClusterInfo:
        """Return brokers and all topics, as some broker knows them now."""
        await self.cluster.known(TIMEOUT_MS)
        return await self.cluster.ask_somebody(None)

    async def min_in_sync(self, topics: list[str]) -> dict[str, int]:
        """Return each topic's min.insync.replicas."""
        found = {}
        for topic in topics:
            entries = await self.describe_configs(ConfigKind.TOPIC, topic)
            found[topic] = int(entries[MIN_ISR].value or 1)
        return found

    async def decommission(self, node: int, *, wanted: bool) -> None:
        """Ask for everything to be moved away from a broker, or take that back."""
        await self.alter_configs(ConfigKind.BROKER, str(node), {DECOMMISSION: str(wanted).lower()})


def partitions(info: ClusterInfo) -> Iterator[tuple[str, PartitionInfo]]:
    """Yield every partition with its topic."""
    for name, topic in sorted(info.topics.items()):
        for partition in topic.partitions:
            yield name, partition


def under_replicated(info: ClusterInfo) -> list[str]:
    """Name the partitions that have fewer replicas in sync than replicas, or no leader."""
    return [
        f"{topic}-{each.index}"
        for topic, each in partitions(info)
        if len(each.isr) < len(each.replicas) or each.leader < 0
    ]


def endangered(info: ClusterInfo, min_in_sync: Mapping[str, int], node: int) -> list[str]:
    """Name the partitions that would take no acks=all writes if this broker stopped now."""
    return [
        f"{topic}-{each.index}"
        for topic, each in partitions(info)
        if node in each.isr and len(each.isr) - 1 < max(1, min_in_sync.get(topic, 1))
    ]


def held_by(info: ClusterInfo, node: int) -> int:
    """Count the partitions that a broker has a replica of."""
    return sum(node in each.replicas for _, each in partitions(info))


@attrs.frozen
class BrokerRow:
    """One broker's share."""

    node: int
    leads: int
    replicas: int
    in_sync: int


def shares(info: ClusterInfo) -> dict[int, BrokerRow]:
    """Count what each broker leads, has, and has in sync."""
    return {
        node: BrokerRow(
            node,
            sum(each.leader == node for _, each in partitions(info)),
            held_by(info, node),
            sum(node in each.isr for _, each in partitions(info)),
        )
        for node in info.brokers
    }
