"""Fetch: followers go to their sessions, consumers to theirs, by the replica id of the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from net.broker.fetching import ConsumerFetches, ConsumerLimits, FollowerSessions
from net.broker.fetching.seams import Served
from net.broker.hints import endpoints_of, leader_hint
from net.driving import Timers
from net.server.request import Request
from net.settings.groups_traffic import RACK_AWARE
from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import parse_fetch
from net.wire.topics import Topic
from protocol.replication import Leader
from protocol.types import NodeId

if TYPE_CHECKING:
    from net.broker.broker import Broker


class Fetching:
    """All fetches of a broker."""

    def __init__(self, broker: Broker, timers: Timers) -> None:
        self._broker = broker
        self._sessions = FollowerSessions(broker.replicas, timers)
        self._consumers = ConsumerFetches(
            broker.replicas,
            timers,
            ConsumerLimits(max_bytes=broker.settings.fetch_max_bytes),
            choose_replica=self._nearest,
            leader_of=self._leader_of,
            endpoints_of=self._endpoints_of,
        )

    @property
    def waiting(self) -> int:
        """How many consumers wait for records."""
        return len(self._consumers.parked)

    @property
    def session_count(self) -> int:
        """How many followers have a session here."""
        return len(self._sessions)

    def serve(self, request: Request) -> None:
        """Answer a fetch."""
        fetch = parse_fetch(request.version, request.body)
        if fetch.replica_id >= 0:
            self._sessions.handle(request, fetch)
        else:
            self._consumers.handle(request, fetch)

    def close(self) -> None:
        """Let go of everybody."""
        self._consumers.close()
        self._sessions.close()

    def _nearest(self, partition: Served, rack: str) -> NodeId | None:
        """Name a replica in sync in this rack, other than the leader, which is asked now."""
        broker = self._broker
        state = partition.state
        if broker.settings.replica_selector_class != RACK_AWARE or not rack:
            return None
        image = broker.image
        mine = image.brokers.get(broker.node)
        if not isinstance(state.role, Leader) or (mine is not None and mine.rack == rack):
            return None
        for node in sorted(state.view.isr - {broker.node}):
            registration = image.brokers.get(node)
            if registration is not None and registration.rack == rack and image.is_available(node):
                return node
        return None

    def _leader_of(self, topic: Topic, index: int) -> CurrentLeader | None:
        image = self._broker.image
        if isinstance(topic, UUID):
            text = str(topic)
            name = next((each.name for each in image.topics.values() if each.id == text), None)
        else:
            name = topic
        return None if name is None else leader_hint(image, name, index)

    def _endpoints_of(self, nodes: Sequence[NodeId], request: Any) -> Sequence[NodeEndpoint]:
        listener = request.connection.listener_name
        return endpoints_of(self._broker.image, nodes, listener)
