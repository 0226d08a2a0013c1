"""A node of the cluster: broker, controller or both, put together from its settings and run.

`serve` is the whole life of a node: it opens its disks, takes part, and when it is told to stop it
hands its leaderships over, answers what it is working on and closes its logs. Whatever goes wrong
in between ends it with a reason; the next start makes good what was left.
"""

from __future__ import annotations

import gc
import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import attrs
import trio

from net.broker.broker import Broker
from net.broker.lifecycle import Introduction
from net.broker.running import boot_id, epoch_that_lost_nothing
from net.channel.channel import Channel, ChannelConfig
from net.channel.channels import Channels
from net.clock import wall_ms
from net.controller.apis import HANDLERS as CONTROLLER_HANDLERS
from net.controller.node import ControllerNode
from net.driving import Timers
from net.errors import BadSetting
from net.housekeeping import keep_house
from net.metadata.describe import HANDLERS as QUORUM_HANDLERS
from net.metadata.log import closed as close_metadata_log
from net.metadata.log import opened as open_metadata_log
from net.metadata.node import NodeIdentity, QuorumNode
from net.metadata.wire_peers import WirePeers
from net.metrics.endpoint import MetricsServer
from net.numbers import sources_of
from net.server import Limits, Listening, Request, Server
from net.settings.broker import BrokerSettings
from net.settings.derived import flush_policy, quorum_config
from net.settings.meta import check_folders
from net.tracing import Line, TraceFile
from net.transport.seam import Endpoint, Network
from net.transport.tcp import TcpNetwork
from net.wire.apis import Api, Scope
from net.wire.warmth import warm_up
from protocol.errors import InvariantViolation
from protocol.types import BrokerEpoch
from storage.disk import jobs
from storage.disk.seam import Disk
from storage.disk.trio_disk import open_trio_disk
from storage.errors import StorageError
from storage.log.config import LogConfig
from storage.store import LogStore

_log = logging.getLogger(__name__)

_PLAINTEXT: Final = 0
_INDEX_CACHE_BYTES: Final = 16 * 1024 * 1024
_COLLECT_EVERY: Final = (20_000, 20, 50)


class NodeFailed(Exception):  # noqa: N818 - it tells what happened
    """A node had to stop by itself, and this is why."""


@attrs.frozen
class NodeAddresses:
    """Where a node is, with its real ports."""

    node_id: int
    listeners: Mapping[str, Endpoint]
    metrics: Endpoint | None


@attrs.frozen
class World:
    """What a node lives in: the real one, or one that a simulator makes."""

    network: Network
    disk: Disk
    chance: random.Random
    wall: Callable[[], int] = wall_ms
    boot: str = ""
    """Which boot of the system this is; empty if nobody knows."""


async def serve(
    settings: BrokerSettings,
    *,
    started: Callable[[NodeAddresses], None],
    stop: trio.Event,
) -> None:
    """Run a node on real sockets and disks until `stop` is set; `NodeFailed` if it cannot go on."""
    try:
        with _rare_collections():
            async with open_trio_disk() as disk:
                world = World(TcpNetwork(), disk, random.Random(), boot=boot_id())
                await Node(settings, world).run(started, stop)
    except BaseExceptionGroup as group:
        reason = _reason(group)
        if reason is None:
            raise
        raise NodeFailed(str(reason)) from None


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for cycles rarely, and not among what has been loaded by now.

    A request makes hundreds of small objects that go by themselves. Walking over everything else to
    find nothing takes a twentieth of a busy broker's time, and each full walk stops it for long.
    """
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def _reason(error: BaseException) -> Exception | None:
    """Find the one reason in groups of groups, if it is nothing but what a user can mend."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    known = (NodeFailed, BadSetting, StorageError, OSError, InvariantViolation)
    return error if isinstance(error, known) else None


class Node:
    """One node, from its start to its end."""

    def __init__(self, settings: BrokerSettings, world: World) -> None:
        self.settings = settings
        self.world = world
        self.timers = Timers()
        self.broker: Broker | None = None
        self.controller: ControllerNode | None = None
        self.store: LogStore | None = None
        self.cluster_id = ""
        self._traces: list[TraceFile] = []
        self._failure: str | None = None
        self._stop = trio.Event()

    async def run(self, started: Callable[[NodeAddresses], None], stop: trio.Event) -> None:
        """Live."""
        settings, world = self.settings, self.world
        metas = check_folders(world.disk, settings.all_dirs, settings.node_id)
        self.cluster_id = metas[0].cluster_id
        warm_up()
        async with trio.open_nursery() as nursery, self._metadata(nursery) as quorum:
            if settings.is_controller:
                self.controller = ControllerNode(
                    quorum,
                    self.timers,
                    settings,
                    self.cluster_id,
                    random=world.chance,
                    violated=self._violated,
                    trace=self._trace_into("trace-controller"),
                )
            if settings.is_broker:
                await self._make_broker(nursery, quorum)
            server = Server(world.network, self._listeners(quorum), _limits(settings))
            endpoints = await self._start_server(nursery, server)
            metrics = await self._start_metrics(nursery, quorum, server)
            quorum.start()
            self._introduce(endpoints)
            if self.store is not None:
                nursery.start_soon(keep_house, self.store, settings, world.wall)
            nursery.start_soon(self._wait_for, stop)
            started(NodeAddresses(settings.node_id, endpoints, metrics))
            await self._stop.wait()
            await self._shut_down(server, quorum)
            nursery.cancel_scope.cancel()
        for trace in self._traces:
            trace.close()
        if self._failure is not None:
            raise NodeFailed(self._failure)

    @asynccontextmanager
    async def _metadata(self, nursery: trio.Nursery) -> AsyncIterator[QuorumNode]:
        """Open the metadata log, and make this node's member of the quorum."""
        settings, world = self.settings, self.world
        log = await open_metadata_log(world.disk, f"{settings.metadata_dir}/metadata")
        nursery.start_soon(self.timers.run)
        identity = NodeIdentity(
            settings.node_id,
            frozenset(settings.voters) if settings.voters else frozenset({settings.node_id}),
            self.cluster_id,
            endpoints=settings.voters,
        )
        peers = WirePeers(
            settings.node_id, self.cluster_id, settings.voters, self._channels(nursery)
        )
        quorum = QuorumNode(
            identity,
            log,
            peers,
            self.timers,
            failed=self.fail,
            violated=self._violated,
            config=quorum_config(settings, world.chance.getrandbits(63)),
            snapshot_every_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
        )
        yield quorum
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 10):
            await close_metadata_log(log)

    def _channels(self, nursery: trio.Nursery) -> Channels:
        config = ChannelConfig(f"broker-{self.settings.node_id}", negotiate=False)
        return Channels(
            self.world.network, nursery, config, chance=self.world.chance, timers=self.timers
        )

    async def _make_broker(self, nursery: trio.Nursery, quorum: QuorumNode) -> None:
        settings, world = self.settings, self.world
        store = LogStore(
            world.disk,
            settings.log_dirs,
            policy=flush_policy(settings),
            index_cache_bytes=_INDEX_CACHE_BYTES,
            offline=lambda key, error: self._disk_lost(key, error),
            start_moved=lambda key, offset: self._retained(key, offset),
        )
        await trio.to_thread.run_sync(jobs.run, store.open(lambda _key: LogConfig()))
        for folder in store.folders:
            for warning in folder.warnings:
                _log.warning("%s", warning)
            if folder.failure is not None:
                raise NodeFailed(f"{folder.path}: {folder.failure}")
        self.store = store
        channels = self._channels(nursery)

        def dial(endpoint: Endpoint) -> Channel:
            return Channel(
                world.network,
                nursery,
                endpoint,
                self.timers,
                channels.config,
                channels.correlations,
                world.chance,
            )

        self.broker = Broker(
            settings,
            self.cluster_id,
            store,
            quorum,
            channels,
            dial,
            self.timers,
            world.chance,
            stop=self.fail,
            wall=world.wall,
            trace=self._trace_into("trace"),
            boot=world.boot,
        )

    def _trace_into(self, kind: str) -> Callable[[Line], None] | None:
        """Open one of this node's traces, if they are wanted."""
        folder = self.settings.hwmark_trace_dir
        if folder is None:
            return None
        file = TraceFile(folder, f"{kind}-{self.settings.node_id}")
        self._traces.append(file)
        return file.write

    def _retained(self, key: object, offset: int) -> None:
        if self.broker is not None:
            self.broker.replicas.retained(key, offset)  # type: ignore[arg-type]

    def _disk_lost(self, key: object, error: Exception) -> None:
        if self.broker is not None:
            self.broker.replicas.lost(key, error)  # type: ignore[arg-type]
        # Leaders on it would lead for ever, as nobody is told of a single folder that is lost.
        self.fail(f"a log folder failed: {error}")

    def _listeners(self, quorum: QuorumNode) -> list[Listening]:
        settings = self.settings
        found = []
        if self.broker is not None:
            broker = self.broker
            found += [
                Listening(each.name, each.endpoint, broker.serve, Scope.BROKER)
                for each in settings.broker_listeners
            ]
        if self.controller is not None:
            service = _controller_service(quorum, self.controller)
            found += [
                Listening(each.name, each.endpoint, service, Scope.CONTROLLER)
                for each in settings.controller_listeners
            ]
        return found

    def _introduce(self, endpoints: Mapping[str, Endpoint]) -> None:
        if self.broker is None or self.store is None:
            return
        settings = self.settings
        bound = {name: endpoint.port for name, endpoint in endpoints.items()}
        listeners = tuple(
            (each.name, each.endpoint.host, each.endpoint.port, _PLAINTEXT)
            for each in settings.advertised(bound)
        )
        incarnation = uuid.UUID(int=self.world.chance.getrandbits(128), version=4)
        self.broker.start(
            Introduction(
                settings.node_id,
                self.cluster_id,
                incarnation,
                listeners,
                settings.broker_rack or "",
                self._epoch_that_lost_nothing(self.store),
            )
        )

    def _epoch_that_lost_nothing(self, store: LogStore) -> BrokerEpoch:
        """Tell the epoch of the incarnation before, if the logs have all that it ever wrote."""
        stopped = min(folder.stopped_epoch or 0 for folder in store.folders)
        if stopped > 0:
            return stopped
        return epoch_that_lost_nothing(self.world.disk, self.settings.log_dirs, self.world.boot)

    async def _start_server(self, nursery: trio.Nursery, server: Server) -> dict[str, Endpoint]:
        try:
            endpoints: dict[str, Endpoint] = await nursery.start(server.run)
        except OSError as error:
            # The system does not say which of them.
            wanted = ", ".join(str(each) for each in self.settings.listeners)
            raise NodeFailed(f"cannot listen on {wanted}: {error.strerror}") from None
        return endpoints

    async def _start_metrics(
        self, nursery: trio.Nursery, quorum: QuorumNode, server: Server
    ) -> Endpoint | None:
        settings = self.settings
        if settings.hwmark_metrics_port < 0:
            return None
        endpoint = Endpoint(settings.hwmark_metrics_host, settings.hwmark_metrics_port)
        sources = sources_of(settings, quorum, server, self.broker, self.controller)
        metrics = MetricsServer(self.world.network, endpoint, sources)
        found: Endpoint = await nursery.start(metrics.run)
        return found

    async def _wait_for(self, stop: trio.Event) -> None:
        await stop.wait()
        self._stop.set()

    def fail(self, reason: str) -> None:
        """Stop the node, because it cannot go on; the first reason counts."""
        if self._failure is None:
            _log.critical("node %d stops: %s", self.settings.node_id, reason)
            self._failure = reason
        self._stop.set()

    def _violated(self, violation: InvariantViolation) -> None:
        self.fail(str(violation))

    async def _shut_down(self, server: Server, quorum: QuorumNode) -> None:
        """Leave in good order; after a failure, leave at once."""
        settings = self.settings
        if (
            self._failure is None
            and self.broker is not None
            and settings.controlled_shutdown_enable
        ):
            with trio.move_on_after(settings.controlled_shutdown_timeout_ms / 1000):
                await self.broker.hand_over()
        epoch = self.broker.epoch if self.broker is not None else 0
        if self.broker is not None:
            self.broker.close()
        if self._failure is None:
            await server.drain(timeout_s=1)
        quorum.stop()
        if self.store is not None and self._failure is None:
            closed = trio.Event()
            self.store.close(epoch, lambda _result: closed.set())
            with trio.move_on_after(30):
                await closed.wait()


def _controller_service(
    quorum: QuorumNode, controller: ControllerNode
) -> Callable[[Request], None]:
    def serve_controller(request: Request) -> None:
        handler = QUORUM_HANDLERS.get(request.api_key)
        if handler is not None:
            handler(quorum, request)
        else:
            CONTROLLER_HANDLERS[Api(request.api_key)](request, controller)

    return serve_controller


def _limits(settings: BrokerSettings) -> Limits:
    return Limits(
        max_connections=settings.max_connections,
        max_connections_per_ip=settings.max_connections_per_ip,
        socket_request_max_bytes=settings.socket_request_max_bytes,
        idle_ms=settings.connections_max_idle_ms,
        queued_max_bytes=settings.queued_max_request_bytes,
    )
