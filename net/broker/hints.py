"""Where a partition's leader is, as answers tell clients (KIP-951), and where brokers are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from net.transport.seam import Endpoint
from net.wire.common import CurrentLeader, NodeEndpoint
from protocol.controller.state import Image
from protocol.types import NO_LEADER, NodeId


def leader_hint(image: Image, topic: str, index: int) -> CurrentLeader | None:
    """Tell who leads a partition now; `None` if nobody does."""
    record = image.partitions.get((topic, index))
    if record is None or record.leader == NO_LEADER:
        return None
    return CurrentLeader(record.leader, record.leader_epoch)


def endpoint_of(image: Image, node: NodeId, listener: str) -> Endpoint | None:
    """Tell where a broker listens under this name."""
    registration = image.brokers.get(node)
    if registration is None:
        return None
    # Opaque to the controller; this is how brokers introduce themselves.
    known: Any = registration.endpoints
    for name, host, port, *_ in known:
        if name == listener:
            return Endpoint(host, port)
    return None


def endpoints_of(image: Image, nodes: Iterable[NodeId], listener: str) -> list[NodeEndpoint]:
    """List where these brokers are, for clients of a listener of this name."""
    found = []
    for node in sorted(nodes):
        endpoint = endpoint_of(image, node, listener)
        if endpoint is not None:
            rack = image.brokers[node].rack or None
            found.append(NodeEndpoint(node, endpoint.host, endpoint.port, rack))
    return found
