"""Consumers' fetches: answered at once, or after waiting in a bounded purgatory for enough to read.

No session is made for a consumer (session id 0), so each of its fetches names all that it wants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from net.broker.fetching.consumer_fetch import ConsumerFetch
from net.broker.fetching.seams import Asker, Finder, Served
from net.broker.fetching.session import refuse
from net.driving import Timers
from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import FetchRequest
from net.wire.topics import Topic
from protocol.errors import ErrorCode
from protocol.types import NodeId

_FULL: Final = (0, -1)


@attrs.frozen
class ConsumerLimits:
    """`max_bytes` is `fetch.max.bytes`; nobody waits longer than `max_wait_ms`."""

    max_bytes: int = 55 << 20
    max_parked: int = 10_000
    max_wait_ms: int = 60_000


def _nowhere_nearer(_partition: Served, _rack: str) -> NodeId | None:
    return None


def _no_hint(_topic: Topic, _index: int) -> CurrentLeader | None:
    return None


def _no_endpoints(_nodes: Sequence[NodeId], _request: Asker) -> Sequence[NodeEndpoint]:
    return ()


class ConsumerFetches:
    """Serves consumers.

    `choose_replica` names a replica that is nearer to a rack (KIP-392), if this one leads;
    `leader_of` who leads a partition that is not here, and `endpoints_of` where brokers are
    (KIP-951).
    """

    def __init__(
        self,
        finder: Finder,
        timers: Timers,
        limits: ConsumerLimits | None = None,
        *,
        choose_replica: Callable[[Served, str], NodeId | None] = _nowhere_nearer,
        leader_of: Callable[[Topic, int], CurrentLeader | None] = _no_hint,
        endpoints_of: Callable[[Sequence[NodeId], Asker], Sequence[NodeEndpoint]] = _no_endpoints,
    ) -> None:
        self.finder = finder
        self.timers = timers
        self.limits = limits or ConsumerLimits()
        self.choose_replica = choose_replica
        self.leader_of = leader_of
        self.endpoints_of = endpoints_of
        self.parked: set[ConsumerFetch] = set()

    def handle(self, request: Asker, fetch: FetchRequest) -> None:
        """Serve a consumer's fetch; the request is answered now or later."""
        if fetch.session_epoch not in _FULL:
            refuse(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        else:
            ConsumerFetch(self, request, fetch).begin()

    def has_room(self) -> bool:
        """Whether one more may wait."""
        return len(self.parked) < self.limits.max_parked

    def close(self) -> None:
        """Answer all who wait with what there is."""
        for each in list(self.parked):
            each.finish()
