"""Nodes of a quorum in one loop: real files, a virtual clock, and messages that go as bytes.

Each node is what a process would run, but for the server and the channels between them: a request
is encoded, carried with a delay, and given to the handler of its API. Links can be cut, and nodes
killed and started again from their files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from net.driving import Timers
from net.errors import ConnectionLost, MalformedRequest
from net.metadata.describe import HANDLERS
from net.metadata.log import LOG_CONFIG, MetadataLog, closed, opened
from net.metadata.node import NodeIdentity, QuorumNode
from net.metadata.wire_peers import PeerConfig, WirePeers
from net.transport.seam import Endpoint
from protocol.controller.records import Record, TopicRecord
from protocol.controller.state import Image, TopicConfig
from protocol.errors import ErrorCode, InvariantViolation
from protocol.quorum import QuorumConfig
from protocol.quorum.trace import Line
from protocol.types import Epoch, NodeId, Offset
from storage.disk.posix import PosixDisk
from storage.log.config import LogConfig

CLUSTER = "a-cluster"
LATENCY_S = 0.002
OnAnswer = Callable[[memoryview], None]
OnFailure = Callable[[Exception], None]


@attrs.define
class Heard:
    """A listener that writes down what it is told."""

    committed_ends: list[Offset] = attrs.field(factory=list)
    records: list[tuple[Offset, Record]] = attrs.field(factory=list)
    elections: list[tuple[Epoch, Offset]] = attrs.field(factory=list)
    depositions: list[Epoch] = attrs.field(factory=list)
    image: Image = attrs.field(factory=Image)

    def committed(
        self, end_offset: Offset, records: Sequence[tuple[Offset, Record]], image: Image
    ) -> None:
        assert not self.committed_ends or end_offset > self.committed_ends[-1]
        self.committed_ends.append(end_offset)
        self.records.extend(records)
        self.image = image

    def elected(self, epoch: Epoch, end_offset: Offset, image: Image) -> None:
        assert image == self.image
        assert not self.committed_ends or end_offset == self.committed_ends[-1]
        self.elections.append((epoch, end_offset))

    def deposed(self, epoch: Epoch) -> None:
        self.depositions.append(epoch)


def _whole(_api: int, answer: bytes) -> bytes:
    return answer


class FakeRequest:
    """A request as a server would give it to a handler."""

    def __init__(
        self, api_key: int, version: int, body: bytes, peer: str, answered: Callable[[bytes], None]
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.body = memoryview(body)
        self.connection = self
        self.peer = peer
        self._answered = answered
        self.answers = 0

    def reply(self, parts: Sequence[Any]) -> None:
        self.answers += 1
        assert self.answers == 1
        self._answered(b"".join(bytes(part) for part in parts))


@attrs.define
class Running:
    """A node that runs."""

    node: QuorumNode
    log: MetadataLog
    disk: PosixDisk
    heard: Heard
    failures: list[str]
    violations: list[InvariantViolation]

    @property
    def is_active(self) -> bool:
        """Whether its controller would be the active one."""
        return self.node.is_leader and bool(getattr(self.node.state.role, "active", False))


class Loopback:
    """Channels of one node to all others of its world."""

    def __init__(self, world: World, me: NodeId) -> None:
        self._world = world
        self._me = me
        self._to: NodeId = -1

    def channel_to(self, endpoint: Endpoint) -> Loopback:
        channel = Loopback(self._world, self._me)
        channel._to = endpoint.port
        return channel

    def request(
        self,
        api: int,
        version: int,
        parts: Sequence[bytes],
        on_answer: OnAnswer,
        on_failure: OnFailure,
        timeout_ms: int,
    ) -> int:
        body = b"".join(parts)
        self._world.sent[api] = self._world.sent.get(api, 0) + 1
        carried = Carried(self._world, self._me, self._to, on_answer, on_failure)
        self._world.nursery.start_soon(carried.go, api, version, body, timeout_ms)
        return 0


class Carried:
    """One request on its way, and its answer."""

    def __init__(
        self, world: World, me: NodeId, to: NodeId, on_answer: OnAnswer, on_failure: OnFailure
    ) -> None:
        self._world, self._me, self._to = world, me, to
        self._from = world.running.get(me)
        self._on_answer, self._on_failure = on_answer, on_failure
        self._api = 0
        self._answer: bytes | None = None
        self._has_answer = trio.Event()

    async def go(self, api: int, version: int, body: bytes, timeout_ms: int) -> None:
        with trio.move_on_after(timeout_ms / 1000):
            await self._world.sleep(LATENCY_S)
            if self._world.reaches(self._me, self._to):
                self._handle(api, version, body)
                await self._has_answer.wait()
                await self._world.sleep(LATENCY_S)
        sender = self._world.running.get(self._me)
        if sender is None or sender is not self._from:
            return
        if self._answer is not None and self._world.reaches(self._to, self._me):
            try:
                self._on_answer(memoryview(self._answer))
            except MalformedRequest as error:
                self._on_failure(error)
        else:
            self._on_failure(ConnectionLost("it is cut"))

    def _handle(self, api: int, version: int, body: bytes) -> None:
        self._api = api
        peer = f"{self._me}:{id(self._from)}"
        request = FakeRequest(api, version, body, peer, self._take)
        try:
            HANDLERS[api](self._world.running[self._to].node, request)
        except MalformedRequest:
            self._world.malformed += 1
            self._has_answer.set()

    def _take(self, answer: bytes) -> None:
        self._answer = self._world.spoil(self._api, answer)
        self._has_answer.set()


class World:
    """The nodes of a quorum, by their ids."""

    def __init__(
        self,
        nursery: trio.Nursery,
        clock: MockClock,
        folder: Path,
        voters: int,
        *,
        config: QuorumConfig | None = None,
        snapshot_every_bytes: int = 1 << 30,
        log_config: LogConfig = LOG_CONFIG,
    ) -> None:
        self.nursery = nursery
        self.clock = clock
        self.folder = folder
        self.voters = frozenset(range(1, voters + 1))
        self.config = config or QuorumConfig()
        self.snapshot_every_bytes = snapshot_every_bytes
        self.log_config = log_config
        self.peer_config = PeerConfig()
        self.spoil: Callable[[int, bytes], bytes] = _whole
        """What becomes of an answer, by its API, on its way."""
        self.timers = Timers()
        self.running: dict[NodeId, Running] = {}
        self.cut: set[NodeId] = set()
        self.sent: dict[int, int] = {}
        self.malformed = 0
        self.lines: list[Line] = []
        self._starts = 0
        self._incarnations: dict[NodeId, int] = {}
        self._names = 0

    def path(self, node: NodeId) -> Path:
        """Where a node has its files."""
        return self.folder / f"node-{node}"

    def reaches(self, sender: NodeId, to: NodeId) -> bool:
        """Whether a message gets there now."""
        return to in self.running and sender not in self.cut and to not in self.cut

    async def start(self, node: NodeId, cluster_id: str = CLUSTER) -> Running:
        """Start a node from what its files have."""
        self._starts += 1
        self._incarnations[node] = self._incarnations.get(node, 0) + 1
        disk = PosixDisk()
        try:
            log = await opened(disk, str(self.path(node)), self.log_config)
        except BaseException:
            disk.close()
            raise
        endpoints = {voter: Endpoint("loopback", voter) for voter in self.voters}
        channels: Any = Loopback(self, node)
        peers = WirePeers(node, cluster_id, endpoints, channels, self.peer_config)
        heard, failures = Heard(image=log.loaded.image), list[str]()
        violations: list[InvariantViolation] = []
        quorum = QuorumNode(
            NodeIdentity(node, self.voters, cluster_id, self._incarnations[node], endpoints),
            log,
            peers,
            self.timers,
            failed=failures.append,
            violated=violations.append,
            config=attrs.evolve(self.config, jitter_seed=self._starts),
            snapshot_every_bytes=self.snapshot_every_bytes,
            trace=self.lines.append,
        )
        quorum.add_listener(heard)
        running = Running(quorum, log, disk, heard, failures, violations)
        self.running[node] = running
        quorum.start()
        return running

    async def start_all(self, *observers: NodeId) -> None:
        """Start all voters, and these observers."""
        for node in sorted({*self.voters, *observers} - set(self.running)):
            await self.start(node)

    def kill(self, node: NodeId) -> None:
        """End a node as a killed process ends."""
        running = self.running.pop(node)
        running.node._close()
        running.disk.close()

    async def stop(self, node: NodeId) -> None:
        """Stop a node in good order."""
        running = self.running[node]
        running.node.stop()
        await self.sleep(LATENCY_S * 3)
        del self.running[node]
        await closed(running.log)
        running.disk.close()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await passes(self.clock, seconds)

    def now_s(self) -> float:
        """Tell the time."""
        return self.clock.current_time()

    def leader(self) -> Running | None:
        """The node that is the active leader of the newest epoch."""
        active = [each for each in self.running.values() if each.is_active]
        return max(active, key=lambda each: each.node.state.epoch, default=None)

    async def elected(self, *, other_than: NodeId = -1, within_s: float = 20) -> Running:
        """Wait for an active leader."""

        def found() -> bool:
            leader = self.leader()
            return leader is not None and leader.node.identity.node != other_than

        await self.until(found, within_s)
        leader = self.leader()
        assert leader is not None
        return leader

    async def until(self, holds: Callable[[], bool], within_s: float = 20) -> None:
        """Wait for something, by the virtual clock."""
        with trio.fail_after(within_s):
            while not holds():
                await self.sleep(0.01)

    def propose(self, leader: Running, count: int = 1, padding: int = 0) -> Offset:
        """Propose topics that nobody has; return where the log ends then."""
        state = leader.node.state
        records = []
        for _ in range(count):
            self._names += 1
            config = TopicConfig().other.set("p", "x" * padding)
            records.append(
                TopicRecord(f"t{self._names}", f"id{self._names}", TopicConfig(other=config))
            )
        base: Offset = state.role.reserved_end  # type: ignore[union-attr]
        refusals: list[ErrorCode] = []
        leader.node.propose(records, base, state.epoch, refusals.append)
        assert not refusals
        return base + count

    async def commit(self, leader: Running, count: int = 1, padding: int = 0) -> Offset:
        """Propose, and wait until the leader's image has it."""
        end = self.propose(leader, count, padding)
        await self.until(lambda: leader.node.applied >= end)
        return end

    async def all_have(self, end_offset: Offset, within_s: float = 20) -> None:
        """Wait until everybody's image is at this offset."""
        nodes = self.running.values()
        await self.until(lambda: all(each.node.applied >= end_offset for each in nodes), within_s)

    def check(self) -> None:
        """Nothing went wrong, and equal offsets are equal images."""
        by_offset: dict[Offset, Image] = {}
        for each in self.running.values():
            assert not each.failures
            assert not each.violations
            assert by_offset.setdefault(each.node.applied, each.node.image) == each.node.image
        assert not self.malformed


async def passes(mock_clock: MockClock, seconds: float) -> None:
    """Let virtual time pass."""
    assert mock_clock.autojump_threshold == 0
    await trio.sleep(seconds)


Body = Callable[[World], Awaitable[None]]


def run(body: Body, folder: Path, voters: int = 3, **options: Any) -> None:
    """Run a test on a world that is checked at its end."""
    clock = MockClock(autojump_threshold=0)

    async def main() -> None:
        async with opened_world(clock, folder, voters, **options) as world:
            await body(world)
            world.check()

    trio.run(main, clock=clock)


@asynccontextmanager
async def opened_world(
    clock: MockClock, folder: Path, voters: int, **options: Any
) -> AsyncIterator[World]:
    """Provide a world; at the end all of it is killed."""
    async with trio.open_nursery() as nursery:
        world = World(nursery, clock, folder, voters, **options)
        nursery.start_soon(world.timers.run)
        try:
            yield world
        finally:
            for node in tuple(world.running):
                world.kill(node)
            nursery.cancel_scope.cancel()
