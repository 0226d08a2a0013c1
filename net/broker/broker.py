"""A broker: its partitions, its standing with the controller, and who answers which request.

It follows the metadata through the node's member of the quorum. It is made before its listeners are
open, and told its real addresses by `start`. How it stops, and what becomes of its disk, is the
business of `net.node`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import trio

from net.broker.apis import (
    configs,
    forwarding,
    log_dirs,
    metadata,
    offsets,
    produce,
    producers,
)
from net.broker.apis.fetch import Fetching
from net.broker.controller_link import ControllerLink
from net.broker.following.fetchers import Fetchers
from net.broker.following.seams import FetcherConfig, Line
from net.broker.hints import endpoint_of
from net.broker.lifecycle import Introduction, Lifecycle
from net.broker.partition import Partition
from net.broker.producer_ids import ProducerIds
from net.broker.proposals import Proposals
from net.broker.replicas import Replicas
from net.broker.running import note_running
from net.broker.timestamps import TimestampPolicy
from net.broker.tracing import Write
from net.channel.channel import Channel
from net.channel.channels import Channels
from net.clock import wall_ms
from net.driving import Timers
from net.errors import BadSetting
from net.metadata.image import Change, ImageLoader
from net.metrics.counters import BrokerCounters
from net.server.request import Request
from net.settings.broker import BrokerSettings
from net.settings.topic import TopicSettings, said_by, topic_settings
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller.state import Image
from protocol.errors import ErrorCode, InvariantViolation
from protocol.replication.effects import SendFetch, SendProposal
from protocol.replication.state import Follower
from protocol.types import BrokerEpoch, Epoch, NodeId, Offset
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.store import LogStore

_log = logging.getLogger(__name__)

_CLUSTER_WIDE: Final = -1
_AUTO_CREATE_TIMEOUT_MS: Final = 5_000
_MAX_CREATING: Final = 1_000


class Quorum(Protocol):
    """What a broker needs of the node's member of the metadata quorum."""

    @property
    def leader(self) -> tuple[NodeId, Epoch]: ...
    @property
    def images(self) -> ImageLoader: ...
    @property
    def applied(self) -> Offset: ...


Handler = Callable[[Request, "Broker"], None]


class Broker:
    """One broker. Everything of it runs on the loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        cluster_id: str,
        store: LogStore,
        quorum: Quorum,
        channels: Channels,
        dial: Callable[[Any], Channel],
        timers: Timers,
        chance: random.Random,
        *,
        stop: Callable[[str], None],
        wall: Callable[[], int] = wall_ms,
        trace: Write | None = None,
        boot: str = "",
    ) -> None:
        """`dial` makes a channel for one use alone. `stop` ends the whole node, with a reason."""
        self.node = settings.node_id
        self.cluster_id = cluster_id
        self.settings = settings
        self.image = Image()
        self.wall = wall
        self.counters = BrokerCounters()
        self.lifecycle: Lifecycle | None = None
        self.link = ControllerLink(channels, quorum, settings.voters)
        self.replicas = Replicas(self.node, store, settings, timers, self, wall, trace)
        self.proposals = Proposals(self.node, self.link)
        self.producer_ids = ProducerIds(self.node, self.link, lambda: self.epoch)
        self.fetchers = Fetchers(
            FetcherConfig(
                self.node,
                settings.replica_fetch_wait_max_ms,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                settings.replica_socket_timeout_ms,
            ),
            self._dial_broker,
            timers,
            chance,
            is_throttled=self._is_throttled,
            rate=lambda: self.settings.follower_replication_throttled_rate,
            named=None if trace is None else _fetch_named,
        )
        self.fetching = Fetching(self, timers)
        self.stop = stop
        self._quorum = quorum
        self._dial = dial
        self._timers = timers
        self._topic_settings: dict[str, TopicSettings] = {}
        self._timestamps: dict[str, TimestampPolicy] = {}
        self._creating: set[str] = set()
        self._led: set[TopicPartition] = set()
        self._boot = boot
        self._is_noted = False

    @property
    def epoch(self) -> BrokerEpoch:
        """This incarnation; 0 before it is registered."""
        return 0 if self.lifecycle is None else self.lifecycle.epoch

    def start(self, introduction: Introduction) -> None:
        """Register with the controller, and follow the metadata."""
        self.lifecycle = Lifecycle(
            introduction,
            self.link,
            self.settings,
            self._timers,
            applied=lambda: self._quorum.applied,
            registered=self._registered,
            unfenced=lambda: _log.info("broker %d takes part", self.node),
            taken=self.stop,
        )
        self._quorum.images.subscribe(self._changed)

    def serve(self, request: Request) -> None:
        """Answer a request that came on one of the broker's listeners."""
        if not self.replicas.has_begun:
            # What it would say of topics and brokers now, clients would take for the truth, and
            # forget those that they know.
            request.close("this broker has not read the metadata yet")
            return
        HANDLERS[request.api_key](request, self)

    def later(self, wait_ms: int, call: Callable[[], None]) -> None:
        """Call somebody in a while."""
        self._timers.call_later(wait_ms, call)

    @property
    def is_ready(self) -> bool:
        """Whether clients are served."""
        lifecycle = self.lifecycle
        return lifecycle is not None and lifecycle.epoch > 0 and not lifecycle.is_fenced

    @property
    def metadata_offset(self) -> Offset:
        """How far this broker has read the metadata log."""
        return self._quorum.applied

    async def hand_over(self) -> bool:
        """Ask to stop, and wait until leaderships have moved elsewhere; tell whether they have."""
        lifecycle = self.lifecycle
        if lifecycle is None or not lifecycle.epoch:
            return False
        moved = trio.Event()
        lifecycle.wants_to_stop(moved.set)
        await moved.wait()
        return lifecycle.may_stop

    def close(self) -> None:
        """Serve nobody any more."""
        if self.lifecycle is not None:
            self.lifecycle.close()
        self.replicas.resign()
        self.fetchers.close()
        self.fetching.close()

    def _registered(self, epoch: BrokerEpoch) -> None:
        _log.info("broker %d is registered with epoch %d", self.node, epoch)
        disk, folders = self.replicas.store.disk, self.settings.log_dirs
        # Before anything is written as this incarnation.
        jobs.start(disk, note_running(disk, folders, epoch, self._boot), self._noted)

    def _noted(self, result: Exception | None) -> None:
        if result is not None:
            self.stop(f"a log folder cannot be written: {result}")
            return
        self._is_noted = True
        self._begin_if_known(self.image)

    def _begin_if_known(self, image: Image) -> bool:
        """Start the replicas once the metadata know of this very registration."""
        mine = image.brokers.get(self.node)
        if self.replicas.has_begun or not self._is_noted:
            return False
        if mine is None or mine.epoch < self.epoch:
            return False
        self.replicas.begin(self.epoch, image)
        return True

    def _changed(self, change: Change) -> None:
        """Follow the metadata."""
        before, self.image = self.image, change.after
        self.counters.metadata_changes += 1
        self._creating.difference_update(change.topics)
        topics: Iterable[str] = change.topics
        if self._reconfigured(before, change.after):
            topics = tuple(change.after.topics)
        for topic in topics:
            self._topic_settings.pop(topic, None)
            self._timestamps.pop(topic, None)
        if self._begin_if_known(change.after):
            return
        self.replicas.changed(change.after, sorted(change.partitions))
        if self.replicas.has_begun:
            self.replicas.configured(topics)
        if self.lifecycle is not None and self.lifecycle.is_fenced:
            self.lifecycle.beat_soon()

    def _reconfigured(self, before: Image, after: Image) -> bool:
        """Take over settings of brokers that were changed while the cluster runs."""
        was = (before.broker_configs.get(_CLUSTER_WIDE), before.broker_configs.get(self.node))
        now = (after.broker_configs.get(_CLUSTER_WIDE), after.broker_configs.get(self.node))
        if was == now:
            return False
        try:
            self.settings = self.settings.overlaid(dict(now[0] or {}), dict(now[1] or {}))
        except BadSetting as error:
            _log.error("settings from the metadata are not taken over: %s", error)
            return False
        self.replicas.settings = self.settings
        return True

    def settings_of(self, topic: str) -> TopicSettings:
        """Tell the settings that hold for a topic that is there."""
        found = self._topic_settings.get(topic)
        if found is None:
            said = said_by(self.image.topics[topic].config)
            found = self._topic_settings[topic] = topic_settings(said, self.settings)
        return found

    def timestamps_of(self, topic: str) -> TimestampPolicy:
        """Tell which times a topic's records may have."""
        found = self._timestamps.get(topic)
        if found is None:
            found = self._timestamps[topic] = TimestampPolicy.of(self.settings_of(topic))
        return found

    def auto_create(self, names: Iterable[str]) -> None:
        """Make topics that clients ask for, if that is allowed; they ask again in a moment."""
        if not self.settings.auto_create_topics_enable:
            return
        wanted = [name for name in dict.fromkeys(names) if name not in self._creating]
        wanted = wanted[: max(0, _MAX_CREATING - len(self._creating))]
        if not wanted:
            return
        self._creating.update(wanted)
        message: Message = {
            "topics": [
                {
                    "name": name,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [],
                    "configs": [],
                }
                for name in wanted
            ],
            "timeout": _AUTO_CREATE_TIMEOUT_MS,
            "validate_only": False,
        }
        done = partial(self._created, wanted)
        self.link.request(Api.CREATE_TOPICS, 7, message, done, done, _AUTO_CREATE_TIMEOUT_MS)

    def _created(self, names: list[str], result: Message | Exception) -> None:
        self._creating.difference_update(names)
        if isinstance(result, Exception):
            _log.info("topics were not created: %s", result)
            return
        for topic in result["topics"]:
            if topic["error_code"] not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                _log.info("topic %s was not created: %s", topic["name"], topic["error_message"])

    def send_fetch(self, partition: Partition, wanted: SendFetch) -> None:
        """A follower asks its leader."""
        self.fetchers.ask(partition, wanted)

    def role_changed(self, partition: Partition) -> None:
        """A replica leads or follows somebody else now."""
        key, counters = partition.key, self.counters
        if partition.leads and key not in self._led:
            self._led.add(key)
            counters.leaders_gained += 1
        elif not partition.leads and key in self._led:
            self._led.discard(key)
            counters.leaders_lost += 1
        if not isinstance(partition.state.role, Follower):
            self.fetchers.forget(partition)
            partition.fetch_sent(None)

    def send_proposal(self, partition: Partition, wanted: SendProposal) -> None:
        """A leader asks the controller for another ISR."""
        if len(wanted.isr) < len(partition.state.view.isr):
            self.counters.isr_shrinks += 1
        else:
            self.counters.isr_expands += 1
        self.proposals.propose(partition, wanted)

    def forget_log(self, partition: Partition) -> None:
        """A replica has ended for good."""
        self._led.discard(partition.key)
        self.fetchers.forget(partition)
        self.replicas.forget(partition)

    def violated(self, partition: Partition, violation: InvariantViolation) -> None:
        """What must never happen did: stop rather than corrupt a log."""
        self.stop(f"{partition.key.folder_name}: {violation}")

    def disk_failed(self, partition: Partition, error: Exception) -> None:
        """A disk did what it must not."""
        self.counters.storage_failures += 1
        self.replicas.store.fail(partition.key, error)

    def _dial_broker(self, node: NodeId) -> Line | None:
        endpoint = endpoint_of(self.image, node, self.settings.inter_broker_name)
        return None if endpoint is None else self._dial(endpoint)

    def _is_throttled(self, partition: Any) -> bool:
        key = partition.key
        if key.topic not in self.image.topics:
            return False
        throttled = self.settings_of(key.topic).follower_replication_throttled_replicas
        return throttled == ("*",) or f"{key.partition}:{self.node}" in throttled


def _fetch_named(partition: Any, name: str) -> None:
    partition.fetch_sent(name)


def _fetch(request: Request, broker: Broker) -> None:
    broker.fetching.serve(request)


HANDLERS: Final[Mapping[int, Handler]] = {
    Api.PRODUCE: produce.produce,
    Api.FETCH: _fetch,
    Api.LIST_OFFSETS: offsets.list_offsets,
    Api.METADATA: metadata.metadata,
    Api.DELETE_RECORDS: offsets.delete_records,
    Api.INIT_PRODUCER_ID: producers.init_producer_id,
    Api.OFFSET_FOR_LEADER_EPOCH: offsets.offsets_for_leader_epoch,
    Api.DESCRIBE_CONFIGS: configs.describe_configs,
    Api.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    Api.DESCRIBE_CLUSTER: metadata.describe_cluster,
    Api.DESCRIBE_PRODUCERS: producers.describe_producers,
    Api.DESCRIBE_QUORUM: forwarding.ask_quorum,
    **dict.fromkeys(forwarding.FORWARDED, forwarding.forward),
}
