"""A cluster of real broker processes on loopback, to be used and broken by synchronous tests.

Every process is a child in a session of its own that ends with the tests, however those end, and is
only ever signalled by its own id. Waiting means asking for a condition, with a bound.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import confluent_kafka.admin
from confluent_kafka import KafkaError, KafkaException

from hwmark import tied
from hwmark.cluster_layout import (
    HOST,
    NodePlan,
    config_file,
    last_lines,
    log_file,
    make_plan,
    write_cluster,
)
from hwmark.properties import read_settings
from hwmark.serve import format_node

PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.05
# Below the system's own choices for outgoing connections: the port of a broker that is down must
# not become somebody's, nor a client that dials it be connected to itself.
_FIRST_PORT, _LAST_PORT = 15_000, 30_000

T = TypeVar("T")

admin_api: Any = confluent_kafka.admin
"""Its module of admin calls, which does not say what it exports."""

QUIET: Final[dict[str, str | int | float]] = {"log_level": 2}
"""For clients of librdkafka: a broker that is gone is no news here."""


def until(what: str, holds: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """Ask until the answer is true, and return it; fail, by name, after a while."""
    end = time.monotonic() + patience_s
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"after {patience_s:g} s still not: {what}")
        time.sleep(_PAUSE_S)


class LocalCluster:
    """Brokers 1, 2, ... of which the first three (or the only one) are controllers, too."""

    def __init__(
        self, folder: Path, brokers: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        base_port, self._claim = _claim_ports(brokers)
        self.plan = make_plan(brokers, 0, settings or {}, base_port)
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.paused: set[int] = set()
        self._admin: Any = None
        write_cluster(self.plan, folder)
        for node in self.plan.nodes:
            # Metadata have a folder of their own, so that a broker can lose its data alone.
            with config_file(folder, node).open("a", encoding="utf-8") as config:
                config.write(f"metadata.log.dir={folder.resolve() / node.folder / 'metadata'}\n")
            self._format(node)

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return self.plan.bootstrap

    @property
    def brokers(self) -> tuple[int, ...]:
        """All of them, whether they run or not."""
        return self.plan.brokers

    @property
    def admin(self) -> Any:
        """A client that knows those brokers first which are not frozen: it asks one of them."""
        if self._admin is None:
            nodes = [node for node in self.plan.nodes if node.id not in self.paused]
            bootstrap = ",".join(f"{HOST}:{node.port}" for node in nodes)
            self._admin = admin_api.AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        return self._admin

    def __enter__(self) -> LocalCluster:
        """Start all of it."""
        try:
            self.heal()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """End all of it."""
        self.close()

    def close(self) -> None:
        """End every process at once."""
        for number in tuple(self.running):
            self.kill(number)
        self._admin = None
        self._claim.close()

    def start(self, number: int) -> None:
        """Start a node; it is not ready yet."""
        node = self.plan.node(number)
        serve = [sys.executable, "-m", "hwmark.serve", "--config", str(self.config(number))]
        command = [sys.executable, tied.__file__, str(os.getpid()), *serve]
        with log_file(self.folder, node).open("ab") as log:
            self.running[number] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def heal(self) -> None:
        """Let every node run and be ready, and every replica be in sync."""
        for number in tuple(self.paused):
            self.resume(number)
        for node in self.plan.nodes:
            process = self.running.get(node.id)
            if process is not None and process.poll() is not None:
                del self.running[node.id]
            if node.id not in self.running:
                self.start(node.id)
        self.wait_ready(self.brokers)
        until("every replica is in sync", self.is_whole)

    def wait_ready(self, numbers: Iterable[int]) -> None:
        """Wait until nodes say that they serve."""
        for number in numbers:
            until(f"node {number} is ready", lambda number=number: self._is_ready(number))  # type: ignore[misc]

    def kill(self, number: int) -> None:
        """End a node as if its power failed, page cache apart."""
        self._signal(number, signal.SIGKILL)
        self._reap(number)

    def kill_all(self) -> None:
        """End every node at one moment."""
        for number in self.running:
            self._signal(number, signal.SIGKILL)
        for number in tuple(self.running):
            self._reap(number)

    def stop(self, number: int) -> int:
        """Let a node stop in good order; return its exit status."""
        self.ask_to_stop(number)
        return self._reap(number)

    def ask_to_stop(self, number: int) -> None:
        """Tell a node to stop in good order, and do not wait."""
        self._signal(number, signal.SIGTERM)

    def ended(self, number: int) -> int:
        """Wait until a node has ended; return its exit status."""
        return self._reap(number)

    def pause(self, number: int) -> None:
        """Freeze a node."""
        self._signal(number, signal.SIGSTOP)
        self.paused.add(number)
        self._admin = None

    def resume(self, number: int) -> None:
        """Let a frozen node go on."""
        self._signal(number, signal.SIGCONT)
        self.paused.discard(number)

    def wipe(self, number: int) -> None:
        """Give a node that is down a new disk for its data."""
        if number in self.running:
            raise AssertionError(f"node {number} is running")
        node = self.plan.node(number)
        shutil.rmtree(self.data(number))
        self._format(node)

    def config(self, number: int) -> Path:
        """Where a node's properties are."""
        return config_file(self.folder, self.plan.node(number))

    def data(self, number: int) -> Path:
        """Where a node's records are."""
        return self.folder / self.plan.node(number).folder / "data"

    def pid(self, number: int) -> int:
        """The id of a node's process."""
        return self.running[number].pid

    def log(self, number: int) -> str:
        """All that a node has said."""
        return log_file(self.folder, self.plan.node(number)).read_text(errors="replace")

    def ends_of_logs(self, lines: int = 25) -> str:
        """What the nodes said last, for whoever reads a failure."""
        return "\n".join(
            f"-- node {node.id}\n" + "\n".join(last_lines(log_file(self.folder, node), lines))
            for node in self.plan.nodes
        )

    def metrics(self, number: int) -> dict[str, float]:
        """A node's numbers, by name and labels; none if it does not answer."""
        page = self._get(number, "metrics")
        return {
            name: float(value)
            for name, value in re.findall(r"^(hwmark_\S+) (\S+)$", page or "", re.MULTILINE)
        }

    def active_controller(self) -> int:
        """Wait for a controller that decides, and return it."""
        return until("a controller is active", self._active_controller)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Wait until a partition has a leader, and return it."""
        return until(f"{topic}-{partition} has a leader", lambda: self._leader(topic, partition))

    def leader_after(self, topic: str, partition: int, old: int) -> int:
        """Wait until somebody else leads, and return who."""

        def other() -> int | None:
            found = self._leader(topic, partition)
            return None if found == old else found

        return until(f"{topic}-{partition} is not led by {old}", other)

    def isr_of(self, topic: str, partition: int = 0) -> set[int]:
        """Who is in sync, as some broker knows it."""
        found = self._partition(topic, partition)
        return set(found.isrs) if found is not None else set()

    def partitions_of(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic, as some broker knows them."""
        known = self._metadata()
        if known is None or topic not in known.topics:
            return ()
        return tuple(sorted(known.topics[topic].partitions))

    def is_whole(self) -> bool:
        """Whether every broker knows of all, and every replica is in sync, as the leaders say."""
        known = self._metadata()
        if known is None or len(known.brokers) != len(self.brokers):
            return False
        for number in self.brokers:
            if self.metrics(number).get("hwmark_under_replicated_partitions", 1) > 0:
                return False
        partitions = (each for topic in known.topics.values() for each in topic.partitions.values())
        return all(each.leader > 0 and len(each.isrs) == len(each.replicas) for each in partitions)

    def _is_made(self, topic: admin_api.NewTopic) -> bool:
        try:
            self.admin.create_topics([topic])[topic.topic].result(PATIENCE_S)
        except KafkaException as error:
            # The client gives up what it has asked of a broker that it forgets, as it may when its
            # only connection is closed for being idle (KIP-899). The topic may be there by then.
            if error.args[0].code() == KafkaError._DESTROY_BROKER:
                return False
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return True

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Make a topic on up to three brokers, and wait until all of them know it."""
        replication = min(3, len(self.brokers))
        topic = admin_api.NewTopic(name, partitions, replication, config=dict(config or {}))
        until(f"topic {name} is made", lambda: self._is_made(topic))
        for number in self.brokers:
            until(f"{name} is on broker {number}", lambda number=number: self._has(number, topic))  # type: ignore[misc]
        return name

    def describe(self, topic: str) -> dict[str, str]:
        """The settings of a topic."""
        resource = admin_api.ConfigResource(admin_api.ConfigResource.Type.TOPIC, topic)
        entries = self.admin.describe_configs([resource])[resource].result(PATIENCE_S)
        return {name: entry.value for name, entry in entries.items()}

    def _has(self, number: int, topic: Any) -> bool:
        """Whether a broker has all of its replicas; here each broker has one of each partition."""
        names = self.data(number).glob(f"{topic.topic}-*")
        return sum(1 for _ in names) >= topic.num_partitions or len(self.brokers) > 3

    def _leader(self, topic: str, partition: int) -> int | None:
        found = self._partition(topic, partition)
        return found.leader if found is not None and found.leader > 0 else None

    def _partition(self, topic: str, partition: int) -> Any:
        known = self._metadata(topic)
        return None if known is None else known.topics[topic].partitions.get(partition)

    def _metadata(self, topic: str | None = None) -> Any:
        """Ask some broker; none if it does not answer soon."""
        try:
            return self.admin.list_topics(topic, timeout=5)
        except KafkaException:
            return None

    def _active_controller(self) -> int | None:
        for number in self.running:
            if number in self.paused:
                continue
            if self.metrics(number).get("hwmark_quorum_is_active_controller") == 1:
                return number
        return None

    def _is_ready(self, number: int) -> bool:
        process = self.running[number]
        if process.poll() is not None:
            raise AssertionError(f"node {number} ended with status {process.returncode}")
        return self._get(number, "ready") is not None

    def _get(self, number: int, page: str) -> str | None:
        address = f"http://{HOST}:{self.plan.node(number).metrics_port}/{page}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                found: bytes = answer.read()
                return found.decode()
        except (urllib.error.URLError, OSError):
            return None

    def _signal(self, number: int, which: signal.Signals) -> None:
        # It looks first whether the process has ended, so the id cannot be another's by now.
        self.running[number].send_signal(which)

    def _reap(self, number: int) -> int:
        status = self.running[number].wait(PATIENCE_S)
        del self.running[number]
        self.paused.discard(number)
        return status

    def _format(self, node: NodePlan) -> None:
        format_node(read_settings(self.config(node.id)), self.plan.cluster_id)


def _claim_ports(count: int) -> tuple[int, socket.socket]:
    """Find a block of ports that nobody has: `make_plan` takes three rows of a hundred.

    The socket that is returned keeps other clusters of this kind off, even while nodes are down.
    """
    blocks = list(range(_FIRST_PORT, _LAST_PORT, 300))
    random.shuffle(blocks)
    for base in blocks:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0hwmark-tests-ports-{base}")
            with ExitStack() as held:
                for row in (0, 100, 200):
                    for at in range(count):
                        holder = held.enter_context(socket.socket())
                        holder.bind((HOST, base + row + at))
            return base, claim
        except OSError:
            claim.close()
    raise AssertionError("no free ports")
