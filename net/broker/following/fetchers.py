"""All fetchers of a broker, one for each broker that leads what this one follows."""

from __future__ import annotations

import random
from collections.abc import Callable

from net.broker.following.fetcher import Fetcher
from net.broker.following.seams import FetcherConfig, Follower, Key, Line
from net.broker.following.throttle import Throttle
from net.driving import Timers
from protocol.replication.effects import SendFetch
from protocol.types import NodeId


class Fetchers:
    """Where a partition's `SendFetch` goes.

    `dial` makes a channel to a broker for this use alone, `None` if it is not known where that is;
    it is closed when the connection fails, and dialled anew. `named`, if given, is told the name of
    each fetch when it leaves (`<follower>-<broker epoch>-<correlation id>`), the same as the leader
    knows it by; what a partition hears next of its fetch answers the one that was named last.
    """

    def __init__(
        self,
        config: FetcherConfig,
        dial: Callable[[NodeId], Line | None],
        timers: Timers,
        chance: random.Random,
        *,
        is_throttled: Callable[[Follower], bool] = lambda _: False,
        rate: Callable[[], int | None] = lambda: None,
        named: Callable[[Follower, str], None] | None = None,
    ) -> None:
        self._config = config
        self._dial = dial
        self._timers = timers
        self._chance = chance
        self._named = named
        self._throttle: Throttle[Follower] = Throttle(is_throttled, rate, timers.clock_ms)
        self._by_leader: dict[NodeId, Fetcher] = {}
        self._by_partition: dict[Key, Fetcher] = {}
        self._closed = False

    def __len__(self) -> int:
        """Count the leaders."""
        return len(self._by_leader)

    def ask(self, partition: Follower, wanted: SendFetch) -> None:
        """Ask a leader; `FetchAnswered` or `FetchRefused` will tell the partition what came."""
        if self._closed:
            return
        key = (partition.topic_id, partition.key.partition)
        fetcher = self._by_partition.get(key)
        if fetcher is None or fetcher.leader != wanted.leader:
            self.forget(partition)
            fetcher = self._by_partition[key] = self._fetcher(wanted.leader)
        fetcher.ask(partition, wanted)

    def forget(self, partition: Follower) -> None:
        """This partition follows nobody for now; it hears nothing of what it has asked."""
        key = (partition.topic_id, partition.key.partition)
        fetcher = self._by_partition.pop(key, None)
        if fetcher is None:
            return
        fetcher.forget(key)
        if not fetcher.members:
            del self._by_leader[fetcher.leader]
            fetcher.close()

    def close(self) -> None:
        """End all connections; nobody hears anything more."""
        self._closed = True
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._by_partition.clear()

    def _fetcher(self, leader: NodeId) -> Fetcher:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = Fetcher(
                leader,
                self._config,
                self._dial,
                self._timers,
                self._throttle,
                self._chance,
                self._named,
            )
        return fetcher
