"""Real nodes on real files and loopback sockets, in the loop of the test that uses them.

The first node is the controller, and a broker too; the others are brokers. What a test asks goes
over the wire as bytes of the version that it names.
"""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from net.channel import Channel, ChannelConfig, Channels
from net.node import Node, NodeAddresses, World
from net.settings import BrokerSettings, format_folder
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork
from net.wire.apis import Api
from net.wire.fetch import (
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch_answer,
)
from net.wire.library import Message
from net.wire.produce import (
    ProducedPartition,
    ProduceRequest,
    encode_produce,
    parse_produce_answer,
)
from storage.batch.build import build
from storage.batch.header import Batch, split
from storage.batch.records import Record
from storage.disk import jobs
from storage.disk.posix import PosixDisk
from storage.disk.trio_disk import open_trio_disk

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 30
TIMEOUT_MS: Final = 30_000
# Below the system's own choices for outgoing connections.
_PORTS: Final = range(15_000, 30_000)


def free_port() -> int:
    """Find a port that nobody has; a controller's address is known before it starts."""
    chance = random.Random()
    for _ in range(100):
        port = chance.choice(_PORTS)
        with socket.socket() as holder:
            try:
                holder.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


def settings_of(
    folder: Path, number: int, controller_port: int, changes: Mapping[str, str]
) -> BrokerSettings:
    """Make the settings of a node of such a cluster."""
    leads = number == 1
    listeners = f"PLAINTEXT://{HOST}:0"
    if leads:
        listeners += f",CONTROLLER://{HOST}:{controller_port}"
    given = {
        "process.roles": "broker,controller" if leads else "broker",
        "node.id": str(number),
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(folder / f"node-{number}"),
        "broker.heartbeat.interval.ms": "200",
        "replica.fetch.wait.max.ms": "200",
        "controller.quorum.election.timeout.ms": "100",
        "controller.quorum.election.backoff.max.ms": "10",
        "hwmark.metrics.port": "0",
        **changes,
    }
    return BrokerSettings.from_mapping(given)


def formatted(settings: BrokerSettings, cluster_id: str = CLUSTER_ID) -> BrokerSettings:
    """Prepare a node's folders."""
    disk = PosixDisk()
    for folder in settings.all_dirs:
        jobs.run(format_folder(disk, folder, cluster_id, settings.node_id))
    disk.close()
    return settings


@attrs.define
class Running:
    """A node that runs."""

    node: Node
    stop: trio.Event
    ended: trio.Event
    addresses: NodeAddresses
    failure: BaseException | None = None

    @property
    def clients(self) -> Endpoint:
        return self.addresses.listeners["PLAINTEXT"]


class Live:
    """A cluster, and a client of it."""

    def __init__(self, nursery: trio.Nursery, folder: Path, changes: Mapping[str, str]) -> None:
        self.folder = folder
        self.controller_port = free_port()
        self.running: dict[int, Running] = {}
        self._nursery = nursery
        self._changes = changes
        config = ChannelConfig("a test", negotiate=False)
        self._channels = Channels(TcpNetwork(), nursery, config, chance=random.Random(1))
        self._topics = 0

    def settings(self, number: int, changes: Mapping[str, str] | None = None) -> BrokerSettings:
        changes = {**self._changes, **(changes or {})}
        return settings_of(self.folder, number, self.controller_port, changes)

    async def start(
        self, number: int = 1, changes: Mapping[str, str] | None = None, *, boot: str = "a boot"
    ) -> Running:
        """Start a node, with other settings than the rest if told so; wait until it takes part."""
        settings = formatted(self.settings(number, changes))
        found: Running = await self._nursery.start(self._run, settings, boot)
        self.running[number] = found
        await until(lambda: found.ended.is_set() or _takes_part(found.node))
        return found

    async def _run(
        self,
        settings: BrokerSettings,
        boot: str,
        task_status: trio.TaskStatus[Running] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        stop, ended = trio.Event(), trio.Event()
        found: list[Running] = []
        try:
            async with open_trio_disk() as disk:
                node = Node(settings, World(TcpNetwork(), disk, random.Random(), boot=boot))

                def started(addresses: NodeAddresses) -> None:
                    found.append(Running(node, stop, ended, addresses))
                    task_status.started(found[0])

                await node.run(started, stop)
        except Exception as error:
            if not found:
                raise
            while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            found[0].failure = error
        finally:
            ended.set()

    async def stop(self, number: int = 1) -> Running:
        """Let a node stop in good order."""
        found = self.running.pop(number)
        found.stop.set()
        with trio.fail_after(PATIENCE_S):
            await found.ended.wait()
        return found

    def node(self, number: int = 1) -> Node:
        return self.running[number].node

    def to(self, number: int = 1) -> Channel:
        """Return a channel to a broker's clients' listener."""
        return self._channels.channel_to(self.running[number].clients)

    def channel_to(self, endpoint: Endpoint) -> Channel:
        return self._channels.channel_to(endpoint)

    def to_controller(self) -> Channel:
        return self._channels.channel_to(self.running[1].addresses.listeners["CONTROLLER"])

    async def ask(
        self, api: Api, version: int, message: Message, *, channel: Channel | None = None
    ) -> Message:
        """Send a request of this version, to the first broker unless told otherwise."""
        return await (channel or self.to()).call(api, version, message, TIMEOUT_MS)

    async def topic(self, *replicas: list[int], name: str | None = None, **settings: str) -> str:
        """Make a topic, of one partition at the first broker unless told otherwise."""
        self._topics += 1
        name = name or f"topic-{self._topics}"
        message = {"topics": [new_topic(name, replicas or ([1],), **settings)], "timeout": 10_000}
        (made,) = (await self.ask(Api.CREATE_TOPICS, 7, message))["topics"]
        assert made["error_code"] == 0, made
        await self.leads(name, (replicas or ([1],))[0][0])
        return name

    async def leads(self, topic: str, number: int, index: int = 0) -> None:
        """Wait until a broker leads a partition."""
        replicas = self.node(number).broker.replicas  # type: ignore[union-attr]

        def leads() -> bool:
            found = replicas.partitions.get((topic, index))  # type: ignore[call-overload]
            return found is not None and found.leads

        await until(leads)

    async def move(self, topic: str, replicas: list[int] | None) -> int:
        """Reassign a topic's first partition; return the error."""
        partitions = [{"partition_index": 0, "replicas": replicas}]
        message = {"topics": [{"name": topic, "partitions": partitions}], "timeout": 10_000}
        answer = await self.ask(Api.ALTER_PARTITION_REASSIGNMENTS, 1, message)
        assert answer["error_code"] == 0
        error: int = answer["responses"][0]["partitions"][0]["error_code"]
        return error

    async def has_replicas(self, topic: str, *replicas: int) -> None:
        """Wait until these are a partition's replicas, and all of them in sync."""

        async def has() -> bool:
            found = await self.partition(topic)
            isr = sorted(found["isr_nodes"])
            return found["replica_nodes"] == list(replicas) and isr == sorted(replicas)

        await until_true(has)

    async def hand_over(self, topic: str, old: int, new: int) -> None:
        """Let the other replica lead, which is in sync."""
        assert await self.move(topic, [new, old]) == 0
        await self.has_replicas(topic, new, old)
        partitions = [{"topic": topic, "partitions": [0]}]
        message = {"election_type": 0, "topic_partitions": partitions, "timeout": 10_000}
        assert (await self.ask(Api.ELECT_LEADERS, 2, message))["error_code"] == 0
        await self.leads(topic, new)

    async def partition(self, topic: str, index: int = 0) -> Message:
        """What Metadata tells of a partition."""
        found: Message = (await self.described(topic))["partitions"][index]
        return found

    async def described(self, topic: str) -> Message:
        message = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        found: Message = (await self.ask(Api.METADATA, 12, message))["topics"][0]
        return found

    async def topic_id(self, topic: str) -> UUID:
        found: UUID = (await self.described(topic))["topic_id"]
        return found

    async def produce(
        self,
        topic: str,
        batch: bytes | bytearray,
        version: int = 9,
        *,
        acks: int = -1,
        number: int = 1,
    ) -> ProducedPartition:
        """Send one batch and wait for its answer."""
        request = ProduceRequest(None, acks, 10_000, [(topic, [(0, memoryview(batch))])])
        answer = await self.to(number).ask(
            Api.PRODUCE,
            version,
            encode_produce(version, request),
            lambda view: parse_produce_answer(version, bytes(view)),
            TIMEOUT_MS,
        )
        return answer.topics[0][1][0]

    async def fetch(
        self, version: int, request: FetchRequest, *, channel: Channel | None = None
    ) -> FetchAnswer:
        return await (channel or self.to()).ask(
            Api.FETCH,
            version,
            [encode_fetch(version, request)],
            lambda view: parse_fetch_answer(version, bytes(view)),
            TIMEOUT_MS,
        )

    async def read(self, topic: str, offset: int = 0, version: int = 12) -> list[Batch]:
        """Read a partition from an offset on, as a consumer does."""
        named = await self.topic_id(topic) if version >= 13 else topic
        wanted = FetchPartition(0, offset, 1 << 20)
        answer = await self.fetch(version, FetchRequest(0, 0, [(named, [wanted])]))
        assert answer.topics[0][0] == named
        return batches(answer.topics[0][1][0])


def batches(found: FetchedPartition) -> list[Batch]:
    """The batches that came for a partition."""
    assert found.error_code == 0, found
    return [batch for part in found.records or () for batch in split(bytearray(part))]


def batch_of(*times_ms: int, value: bytes = b"value", **more: Any) -> bytearray:
    """Make a producer's batch with records of these times."""
    records = [Record(at, time, b"key", value) for at, time in enumerate(times_ms)]
    return build(records, **more)


def new_topic(name: str, replicas: Any, **settings: str) -> Message:
    """Make a topic of a CreateTopics request; underscores in names of settings are dots."""
    return {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": index, "broker_ids": list(nodes)}
            for index, nodes in enumerate(replicas)
        ],
        "configs": [
            {"name": setting.replace("_", "."), "value": value}
            for setting, value in settings.items()
        ],
    }


def _takes_part(node: Node) -> bool:
    broker = node.broker
    if not node.settings.is_broker:
        return True
    return broker is not None and broker.is_ready and broker.replicas.has_begun


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something is so."""
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.005)


async def until_true(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until something is so."""
    with trio.fail_after(PATIENCE_S):
        while not await condition():
            await trio.sleep(0.01)


@asynccontextmanager
async def cluster(folder: Path, brokers: int = 1, **changes: str) -> AsyncIterator[Live]:
    """Run a cluster; `num_partitions="3"` changes a setting of all of them. All stop at the end."""
    given = {name.replace("_", "."): text for name, text in changes.items()}
    async with trio.open_nursery() as nursery:
        live = Live(nursery, folder, given)
        for number in range(1, brokers + 1):
            await live.start(number)
        yield live
        for number in sorted(live.running, reverse=True):
            found = await live.stop(number)
            assert found.failure is None, found.failure
        nursery.cancel_scope.cancel()
