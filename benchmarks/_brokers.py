"""Real brokers for benchmarks: processes of `hwmark serve` on free ports, in a folder that goes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from net.client import Admin
from net.client.errors import ClientError, KafkaError
from net.settings import format_folder, random_id
from storage.disk import jobs
from storage.disk.posix import PosixDisk

MIB: Final = 1 << 20
GIB: Final = 1 << 30
TOPIC: Final = "measured"
SHORT_LOGS: Final[Mapping[str, str]] = {
    "log.segment.bytes": str(64 * MIB),
    "log.retention.bytes": str(256 * MIB),
    "log.retention.check.interval.ms": "1000",
}
"""Logs that are deleted soon: the disk behind the page cache is not what is measured."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_START_S: Final = 30


@attrs.frozen(eq=False)
class Node:
    """A broker that runs."""

    number: int
    port: int
    process: subprocess.Popen[bytes]

    def cpu_s(self) -> float:
        """Tell what it has used of all cores so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_bytes(self) -> int:
        """Tell how much memory is its own or shared, as `ps` shows it."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@attrs.frozen(eq=False)
class Cluster:
    """Brokers that know each other."""

    nodes: tuple[Node, ...]
    folder: Path

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def cpu_s(self) -> float:
        """Tell what all of them have used so far."""
        return sum(node.cpu_s() for node in self.nodes)

    def create(self, topic: str, partitions: int = 1, **config: str) -> dict[int, int]:
        """Make a topic with a replica everywhere; return who leads which partition."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        return trio.run(self._create, topic, partitions, named)

    async def _create(self, topic: str, partitions: int, config: dict[str, str]) -> dict[int, int]:
        with trio.fail_after(_START_S):
            async with Admin(self.bootstrap) as admin:
                await self._until_all_take_part(admin)
                await admin.create_topic(topic, partitions, len(self.nodes), configs=config)
                leaders = await leaders_of(admin, topic, len(self.nodes))
        return leaders

    def leaders(self, topic: str) -> dict[int, int]:
        """Tell who leads which partition."""
        found: dict[int, int] = {}

        async def ask() -> None:
            async with Admin(self.bootstrap) as admin:
                found.update(await leaders_of(admin, topic, 1))

        trio.run(ask)
        return found

    async def _until_all_take_part(self, admin: Admin) -> None:
        while True:
            try:
                if len((await admin.describe_cluster()).brokers) == len(self.nodes):
                    return
            except ClientError:
                pass
            await trio.sleep(0.1)


async def leaders_of(admin: Admin, topic: str, in_sync: int) -> dict[int, int]:
    """Wait until each partition has a leader and so many replicas in sync; say who leads."""
    while True:
        try:
            partitions = (await admin.describe_topics([topic]))[topic].partitions
            if all(each.leader >= 0 and len(each.isr) >= in_sync for each in partitions):
                return {each.index: each.leader for each in partitions}
        except KafkaError:
            # Who is asked has not heard of it yet.
            pass
        await trio.sleep(0.1)


@contextmanager
def running(
    count: int, settings: Mapping[str, str] | None = None, below: str | None = None
) -> Iterator[Cluster]:
    """Start so many brokers, which are controllers too; stop them and remove their folder."""
    folder = Path(tempfile.mkdtemp(prefix="hwmark-bench-", dir=below))
    ports, cluster_id = free_ports(2 * count), random_id()
    with ExitStack() as after:
        after.callback(shutil.rmtree, folder, ignore_errors=True)
        nodes = []
        for number in range(1, count + 1):
            own = settings_of(number, ports, folder, settings or {})
            nodes.append(_started(folder, number, ports[number - 1], own, cluster_id))
            after.callback(stop, nodes[-1])
        for node in nodes:
            _wait_until_up(node)
        yield Cluster(tuple(nodes), folder)


def settings_of(
    number: int, ports: list[int], folder: Path, settings: Mapping[str, str]
) -> dict[str, str]:
    """Say what one of several brokers is told, of which each has a port, and another below."""
    count = len(ports) // 2
    voters = ",".join(f"{n + 1}@127.0.0.1:{ports[count + n]}" for n in range(count))
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[number - 1]},"
        f"CONTROLLER://127.0.0.1:{ports[count + number - 1]}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / str(number)),
        "message.max.bytes": str(2 * MIB),
        "controller.quorum.election.timeout.ms": "300",
        "hwmark.metrics.port": "-1",
        "hwmark.log.level": "warning",
        **settings,
    }


def _started(
    folder: Path, number: int, port: int, settings: Mapping[str, str], cluster_id: str
) -> Node:
    data = folder / str(number)
    data.mkdir()
    disk = PosixDisk()
    jobs.run(format_folder(disk, str(data), cluster_id, number))
    disk.close()
    config = folder / f"{number}.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    log = folder / f"{number}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "hwmark.serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
        )
    return Node(number, port, process)


def _wait_until_up(node: Node) -> None:
    """Read the line with which a node says that it listens."""
    timer = threading.Timer(_START_S, node.process.kill)
    timer.start()
    try:
        line = node.process.stdout.readline() if node.process.stdout else b""
    finally:
        timer.cancel()
    if not line:
        raise RuntimeError(f"broker {node.number} did not start")
    json.loads(line)


def stop(node: Node) -> None:
    """End it; its folder goes with it, so nothing needs to be put in order."""
    process = node.process
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def free_ports(count: int) -> list[int]:
    """Find ports that nobody has; all at once, so that they differ."""
    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
