"""The quorum as it really runs: sockets, threads for the disk, and the clock on the wall."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from net.channel import ChannelConfig, Channels
from net.driving import Timers
from net.metadata.describe import HANDLERS
from net.metadata.log import closed, opened
from net.metadata.node import NodeIdentity, QuorumNode
from net.metadata.wire_peers import WirePeers
from net.server import Listening, Request, Server
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork
from net.wire.apis import Scope
from protocol.controller.records import TopicRecord
from protocol.controller.state import TopicConfig
from protocol.errors import InvariantViolation
from protocol.quorum import QuorumConfig
from storage.disk.trio_disk import open_trio_disk

CONFIG = QuorumConfig(
    election_timeout_ms=150,
    election_jitter_ms=150,
    fetch_timeout_ms=400,
    check_quorum_ms=800,
    request_retry_ms=100,
    fetch_retry_ms=20,
    fetch_wait_ms=100,
)
VOTERS = (1, 2, 3)


class Stopped(Exception):  # noqa: N818 - it tells what happened
    """A node reported that it cannot go on."""


class Cluster:
    """Nodes as processes would be, each with its own server, channels, disk and timers."""

    def __init__(self, nursery: trio.Nursery, folder: Path) -> None:
        self.folder = folder
        self.nodes: dict[int, QuorumNode] = {}
        self.starts = 0
        self._nursery = nursery
        self._changed = trio.Event()
        self._scopes: dict[int, trio.CancelScope] = {}
        self._ended: dict[int, trio.Event] = {}
        self.endpoints = {voter: Endpoint("127.0.0.1", free_port()) for voter in VOTERS}

    async def start(self, node: int) -> QuorumNode:
        self._scopes[node] = trio.CancelScope()
        self._ended[node] = trio.Event()
        found: QuorumNode = await self._nursery.start(self._run, node)
        self.nodes[node] = found
        return found

    async def kill(self, node: int) -> None:
        del self.nodes[node]
        self._scopes[node].cancel()
        await self._ended[node].wait()

    async def _run(
        self, node: int, task_status: trio.TaskStatus[QuorumNode] = trio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            with self._scopes[node]:
                async with self._opened(node) as quorum:
                    task_status.started(quorum)
                    await trio.Event().wait()
        finally:
            self._ended[node].set()

    @asynccontextmanager
    async def _opened(self, node: int) -> AsyncIterator[QuorumNode]:
        self.starts += 1
        network = TcpNetwork()
        async with open_trio_disk() as disk, trio.open_nursery() as nursery:
            timers = Timers()
            nursery.start_soon(timers.run)
            log = await opened(disk, str(self.folder / f"node-{node}"))
            channels = Channels(network, nursery, ChannelConfig(negotiate=False), timers=timers)
            quorum = QuorumNode(
                NodeIdentity(node, frozenset(VOTERS), "c", self.starts, self.endpoints),
                log,
                WirePeers(node, "c", self.endpoints, channels),
                timers,
                failed=_stop,
                violated=_raise,
                config=CONFIG,
                trace=lambda _line: self._something_changed(),
            )
            quorum.images.subscribe(lambda _change: self._something_changed())
            quorum.start()
            if node in VOTERS:
                await nursery.start(self._server(network, node, quorum).run)
            try:
                yield quorum
            finally:
                nursery.cancel_scope.cancel()

    def _server(self, network: TcpNetwork, node: int, quorum: QuorumNode) -> Server:
        def service(request: Request) -> None:
            HANDLERS[request.api_key](quorum, request)

        listening = Listening("CONTROLLER", self.endpoints[node], service, Scope.CONTROLLER)
        return Server(network, [listening])

    def leader(self) -> QuorumNode | None:
        active = [
            each
            for each in self.nodes.values()
            if each.is_leader and getattr(each.state.role, "active", False)
        ]
        return max(active, key=lambda each: each.state.epoch, default=None)

    async def elected(self) -> QuorumNode:
        await self.until(lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        return leader

    async def commit(self, names: list[str]) -> int:
        leader = await self.elected()
        records = [TopicRecord(name, f"id-{name}", TopicConfig()) for name in names]
        base: int = leader.state.role.reserved_end  # type: ignore[union-attr]
        leader.propose(records, base, leader.state.epoch, _refused)
        await self.all_have(base + len(names))
        return base + len(names)

    async def all_have(self, end: int) -> None:
        await self.until(lambda: all(each.applied >= end for each in self.nodes.values()))

    def _something_changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that the nodes will come to; the time is only for a broken one."""
        with trio.fail_after(60):
            while not holds():
                await self._changed.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _stop(reason: str) -> None:
    raise Stopped(reason)


def _raise(violation: InvariantViolation) -> None:
    raise violation


def _refused(error: object) -> None:
    raise Stopped(f"a proposal is refused: {error}")


def run(folder: Path, body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await body(Cluster(nursery, folder))
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_over_sockets_a_quorum_elects_replicates_and_survives_its_leader(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        for node in (*VOTERS, 9):
            await cluster.start(node)
        await cluster.commit(["a", "b"])
        leader = await cluster.elected()
        gone = leader.identity.node
        await cluster.kill(gone)
        end = await cluster.commit(["c"])
        await cluster.start(gone)
        await cluster.all_have(end)
        images = [each.image for each in cluster.nodes.values()]
        assert all(image == images[0] for image in images)
        assert sorted(images[0].topics) == ["a", "b", "c"]

    run(tmp_path, body)


def test_over_sockets_a_restart_of_all_keeps_everything(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        for node in VOTERS:
            await cluster.start(node)
        names = [f"t{number}" for number in range(50)]
        end = await cluster.commit(names)
        for node in VOTERS:
            await cluster.kill(node)
        for node in VOTERS:
            await cluster.start(node)
        await cluster.elected()
        await cluster.all_have(end)
        assert sorted(cluster.nodes[1].image.topics) == sorted(names)

    run(tmp_path, body)


def test_a_log_that_is_closed_in_good_order_opens_again(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(2):
            async with open_trio_disk() as disk:
                log = await opened(disk, str(tmp_path / "node"))
                assert log.end_offset == 0
                await closed(log)

    trio.run(main)
