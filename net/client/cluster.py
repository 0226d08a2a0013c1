"""The cluster as a client sees it: its brokers, the topics it cares for, and channels to brokers.

One task keeps the picture fresh: when somebody says that it is wrong, when a topic is wanted that
is not in it, and every few minutes. It asks one broker after the other, with a growing pause after
a failure, and never more often than the pause. The picture that is there stays until a better one
comes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping

import trio

from net.channel import Channel, ChannelConfig, Channels
from net.client.config import ConnectionConfig
from net.client.errors import ClientError, ClientTimedOut, KafkaError
from net.client.topology import (
    Broker,
    ClusterInfo,
    PartitionInfo,
    TopicInfo,
    keep_newer,
    read_metadata,
)
from net.client.versions import call
from net.clock import now_ms
from net.driving import Timers
from net.errors import ConnectionLost, NetError
from net.transport.seam import Endpoint, Network
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_PASSING = frozenset(
    {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
)
"""Of a topic: what may be better the next time."""
_MOST_DOUBLINGS = 16
_PATIENCE_MS = 5_000
"""How long one broker may take to answer before the next is asked."""


class Cluster:
    """Knows who leads what. `run` is its task; `channel` and `leader` are plain calls."""

    def __init__(
        self,
        bootstrap: Iterable[Endpoint],
        network: Network,
        nursery: trio.Nursery,
        config: ConnectionConfig,
        timers: Timers,
        chance: random.Random,
        listener: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.info = ClusterInfo(None, -1, {}, {})
        self._bootstrap = tuple(bootstrap)
        self._chance = chance
        self._listener = listener
        self._channels = Channels(
            network,
            nursery,
            ChannelConfig(client_id=config.client_id),
            chance=chance,
            timers=timers,
        )
        self._wanted: dict[str, None] = {}
        self._failures = 0
        self._stale = trio.Event()
        self._changed = trio.Event()
        self._why = "the cluster was not asked yet"

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """All brokers that are known."""
        return self.info.brokers

    def channel(self, broker_id: int) -> Channel | None:
        """Return the channel to a broker, if it is known where it is."""
        broker = self.info.brokers.get(broker_id)
        return None if broker is None else self._channels.channel_to(broker.endpoint)

    def leader(self, topic: str, partition: int) -> PartitionInfo | None:
        """Return what is known of a partition; `None` if it has no leader that can be reached."""
        info = self.info.topics.get(topic)
        found = None if info is None else info.find(partition)
        return None if found is None or found.leader not in self.info.brokers else found

    def want(self, topic: str) -> None:
        """Care for a topic from now on."""
        if topic in self._wanted:
            return
        if len(self._wanted) >= self.config.max_topics:
            raise ClientError(f"more than {self.config.max_topics} topics")
        self._wanted[topic] = None
        self._stale.set()

    def expire(self) -> None:
        """Say that what is known is wrong, or not enough."""
        self._stale.set()

    async def topic(self, name: str, timeout_ms: int) -> TopicInfo:
        """Wait until a topic is known. Errors that will not pass are raised at once."""
        self.want(name)
        deadline_ms = now_ms() + timeout_ms
        while True:
            found = self.info.topics.get(name)
            if found is not None and found.partitions and not found.error:
                return found
            if found is not None and found.error not in _PASSING:
                raise KafkaError(found.error, name)
            self._stale.set()
            left_ms = deadline_ms - now_ms()
            if left_ms <= 0:
                if found is not None:
                    raise KafkaError(found.error or ErrorCode.LEADER_NOT_AVAILABLE, name)
                raise ClientTimedOut(f"nobody told about topic {name}: {self._why}")
            await self.change(left_ms)

    async def change(self, timeout_ms: int) -> None:
        """Wait until the picture is fresh, or the time is over."""
        with trio.move_on_after(timeout_ms / 1000):
            await self._changed.wait()

    async def known(self, timeout_ms: int) -> ClusterInfo:
        """Wait until brokers are known."""
        deadline_ms = now_ms() + timeout_ms
        while not self.info.brokers:
            self._stale.set()
            left_ms = deadline_ms - now_ms()
            if left_ms <= 0:
                raise ClientTimedOut(f"no broker answered: {self._why}")
            await self.change(left_ms)
        return self.info

    async def run(self) -> None:
        """Keep the picture fresh until cancelled."""
        while True:
            with trio.move_on_after(self.config.metadata_max_age_ms / 1000):
                await self._stale.wait()
            self._stale = trio.Event()
            try:
                self.info = keep_newer(self.info, await self.ask_somebody(self._wanted))
            except (NetError, ClientError) as error:
                self._why = str(error)
                _log.info("no metadata: %s", error)
                self._failures += 1
                self._stale.set()
            else:
                incomplete = any(self._is_incomplete(name) for name in self._wanted)
                self._failures = self._failures + 1 if incomplete else 0
                if incomplete:
                    self._stale.set()
                self._changed.set()
                self._changed = trio.Event()
                self._listener()
            await trio.sleep(self.pause_ms(self._failures) / 1000)

    def _is_incomplete(self, name: str) -> bool:
        topic = self.info.topics.get(name)
        if topic is None:
            return True
        if topic.error:
            return topic.error in _PASSING
        return any(each.leader not in self.info.brokers for each in topic.partitions)

    def pause_ms(self, failures: int) -> float:
        """How long to rest after so many failures in a row."""
        config = self.config
        grown_ms = config.retry_backoff_ms << min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return min(config.max_backoff_ms, grown_ms) * self._chance.uniform(0.8, 1.2)

    async def ask_somebody(self, topics: Iterable[str] | None) -> ClusterInfo:
        """Ask brokers in a random order, those of the bootstrap list last, until one answers."""
        known = [broker.endpoint for broker in self.info.brokers.values()]
        self._chance.shuffle(known)
        first = list(self._bootstrap)
        self._chance.shuffle(first)
        failure: Exception = ConnectionLost("there is no broker to ask")
        for endpoint in dict.fromkeys((*known, *first)):
            try:
                return await self.metadata(self._channels.channel_to(endpoint), topics)
            except (NetError, ClientError) as error:
                failure = error
        raise failure

    async def metadata(self, channel: Channel, topics: Iterable[str] | None) -> ClusterInfo:
        """Ask one broker; for all topics if none are named."""
        named = None if topics is None else [{"name": name} for name in topics]
        message: Message = {
            "topics": named,
            "allow_auto_topic_creation": self.config.auto_create_topics and topics is not None,
        }
        timeout_ms = min(self.config.request_timeout_ms, _PATIENCE_MS)
        answer = await call(channel, Api.METADATA, message, timeout_ms)
        found = read_metadata(answer)
        if not found.brokers:
            raise ConnectionLost(f"{channel.endpoint} knows of no broker yet")
        return found

    def any_channel(self) -> Channel:
        """Return the channel to some broker."""
        brokers = list(self.info.brokers.values())
        place = self._chance.choice(brokers).endpoint if brokers else self._bootstrap[0]
        return self._channels.channel_to(place)

    def close(self) -> None:
        """Close all channels."""
        self._channels.close()
