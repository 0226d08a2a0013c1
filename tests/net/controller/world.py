"""A controller on a real quorum of one, with files and a virtual clock; requests go as bytes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import trio
import trio.testing

from net.controller import ControllerNode
from net.controller.apis import HANDLERS
from net.driving import Timers
from net.metadata.log import closed, opened
from net.metadata.node import NodeIdentity, QuorumNode
from net.settings.broker import BrokerSettings
from net.wire.apis import VERSIONS, Api
from net.wire.library import Message, decode_response, encode_request
from protocol.controller import ControllerConfig, Image, Partition
from protocol.errors import InvariantViolation
from protocol.replication.trace import Line
from storage.disk.posix import PosixDisk

CLUSTER_ID = "a-cluster"
NODE = 100
GIVEN = {
    "process.roles": "controller",
    "node.id": str(NODE),
    "controller.quorum.voters": f"{NODE}@controller.test:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
    "log.dirs": "/nowhere",
    "num.partitions": "2",
    "default.replication.factor": "2",
    "min.insync.replicas": "2",
}


async def later(seconds: float) -> None:
    """Let virtual time pass."""
    with trio.move_on_after(seconds):
        await trio.Event().wait()


def versions(api: Api) -> range:
    """Return every version of an API that is served."""
    return range(VERSIONS[api].serves_from, VERSIONS[api].serves_to + 1)


class NoPeers:
    """A quorum of one has nobody to talk to."""

    def send(self, effect: object, told: object) -> None:
        raise AssertionError((effect, told))

    def fetch_part(self, *asked: object) -> None:
        raise AssertionError(asked)


class FakeRequest:
    """A request as a server gives it to a handler; its bytes are gone when the handler returns."""

    def __init__(self, api: Api, version: int, body: bytes, correlation_id: int) -> None:
        self.api_key = int(api)
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = "a test"
        self.body = memoryview(bytearray(body))
        self.answered = trio.Event()
        self.answer = b""

    def reply(self, parts: Sequence[bytes]) -> None:
        assert not self.answered.is_set()
        self.answer = b"".join(parts)
        self.answered.set()


@attrs.define
class Cluster:
    """A controller, and those who talk to it."""

    node: ControllerNode
    timers: Timers
    violations: list[InvariantViolation]
    lines: list[Line]
    sent: int = 0
    epochs: dict[int, int] = attrs.field(factory=dict)

    @property
    def image(self) -> Image:
        """What is committed."""
        return self.node.committed_image

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.image.partitions[topic, index]

    def topic_id(self, name: str = "t") -> uuid.UUID:
        return uuid.UUID(self.image.topics[name].id)

    def send(self, api: Api, version: int, message: Message) -> FakeRequest:
        """Send a request, and do not wait."""
        self.sent += 1
        request = FakeRequest(api, version, encode_request(api, version, message), self.sent)
        HANDLERS[api](request, self.node)
        request.body.release()
        return request

    async def ask(self, api: Api, version: int, message: Message) -> Message:
        """Send a request and wait for its answer."""
        return await self.answer_to(self.send(api, version, message))

    async def answer_to(self, request: FakeRequest) -> Message:
        with trio.fail_after(60):
            await request.answered.wait()
        return decode_response(request.api_key, request.version, request.answer)

    async def register(self, node: int, version: int = 4, **changes: Any) -> Message:
        """Let a broker register."""
        message = {**registration(node), **changes}
        answer = await self.ask(Api.BROKER_REGISTRATION, version, message)
        self.epochs[node] = answer["broker_epoch"]
        return answer

    async def heartbeat(self, node: int, version: int = 1, **changes: Any) -> Message:
        """Let a broker be heard, which has read everything."""
        message = {
            "broker_id": node,
            "broker_epoch": self.epochs[node],
            "current_metadata_offset": 10**9,
            "want_fence": False,
            "want_shut_down": False,
            **changes,
        }
        return await self.ask(Api.BROKER_HEARTBEAT, version, message)

    async def brokers(self, count: int) -> None:
        """Let brokers 1, 2, ... take part."""
        for node in range(1, count + 1):
            assert (await self.register(node))["error_code"] == 0
            assert (await self.heartbeat(node))["error_code"] == 0

    async def topic(self, *replicas: list[int], name: str = "t", **settings: str) -> uuid.UUID:
        """Create a topic with these replicas."""
        topic = new_topic(name, -1, -1, replicas, **settings)
        answer = await self.ask(Api.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 60_000})
        (result,) = answer["topics"]
        assert result["error_code"] == 0, result
        return self.topic_id(name)


def registration(node: int) -> Message:
    """Make a broker's registration."""
    return {
        "broker_id": node,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": uuid.UUID(int=1000 + node),
        "listeners": [
            {"name": "PLAIN", "host": f"b{node}", "port": 9092, "security_protocol": 0},
        ],
        "features": [],
        "rack": None,
        "is_migrating_zk_broker": False,
        "log_dirs": [],
        "previous_broker_epoch": -1,
    }


def new_topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    **settings: str,
) -> Message:
    """Make a topic of a CreateTopics request; underscores in names of settings are dots."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [
            {"partition_index": index, "broker_ids": list(replicas)}
            for index, replicas in enumerate(assignment)
        ],
        "configs": [
            {"name": setting.replace("_", "."), "value": value}
            for setting, value in settings.items()
        ],
    }


Body = Callable[[Cluster], Awaitable[None]]


def run(body: Body, folder: Path, config: ControllerConfig | None = None, **given: str) -> None:
    """Run a test with an active controller, in virtual time; nothing may be broken at the end."""
    settings = BrokerSettings.from_mapping(
        GIVEN | {name.replace("_", "."): value for name, value in given.items()}
    )

    async def main() -> None:
        disk = PosixDisk()
        log = await opened(disk, str(folder / "metadata"))
        timers = Timers()
        violations: list[InvariantViolation] = []
        lines: list[Line] = []
        failures: list[str] = []
        identity = NodeIdentity(NODE, frozenset({NODE}), CLUSTER_ID)
        quorum = QuorumNode(
            identity,
            log,
            NoPeers(),
            timers,
            failed=failures.append,
            violated=violations.append,
        )
        node = ControllerNode(
            quorum,
            timers,
            settings,
            CLUSTER_ID,
            random=Random(1),
            violated=violations.append,
            config=config,
            trace=lines.append,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timers.run)
            quorum.start()
            with trio.fail_after(60):
                while not node.is_active:
                    await later(0.5)
            cluster = Cluster(node, timers, violations, lines)
            await body(cluster)
            quorum.stop()
            nursery.cancel_scope.cancel()
        await closed(log)
        disk.close()
        assert violations == []
        assert failures == []
        json.dumps(lines)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.01))
