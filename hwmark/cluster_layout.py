"""The plan of a local cluster: who is in it, on which ports, with which settings; and its folder.

A folder with a `cluster.json` is a cluster's, and nothing else is ever removed. What is planned is
written once, so a cluster that was kept comes up again as it was.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import attrs

from hwmark.properties import read_settings
from hwmark.serve import format_node
from net.settings import BadSetting, random_id, write_properties
from spec.runner import JobError

PLAN_FILE: Final = "cluster.json"
CONTROL_SOCKET: Final = "control.sock"
HOST: Final = "127.0.0.1"
MAX_NODES: Final = 100
VERSION: Final = 1

SHORT_TIMES: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "800",
    "broker.heartbeat.interval.ms": "150",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "controlled.shutdown.retry.backoff.ms": "1000",
}
"""A local cluster is for trying things out: a failure shows after seconds."""

_FIRST_CONTROLLER: Final = 1001
_CONTROLLER_PORTS: Final = 100
_METRICS_PORTS: Final = 200


@attrs.frozen
class NodePlan:
    """One node: its number, roles and ports. `port` is 0 if it is no broker."""

    id: int
    roles: tuple[str, ...]
    port: int
    controller_port: int
    metrics_port: int

    @property
    def is_broker(self) -> bool:
        """Whether clients can connect to it."""
        return "broker" in self.roles

    @property
    def folder(self) -> str:
        """Its folder within the cluster's."""
        return f"node-{self.id}"


@attrs.frozen
class Plan:
    """A cluster."""

    cluster_id: str
    nodes: tuple[NodePlan, ...]
    settings: Mapping[str, str]

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes if node.is_broker)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The numbers of the brokers."""
        return tuple(node.id for node in self.nodes if node.is_broker)

    def node(self, number: int) -> NodePlan:
        """Find a node; `JobError` names those there are."""
        for node in self.nodes:
            if node.id == number:
                return node
        known = ", ".join(str(node.id) for node in self.nodes)
        raise JobError(f"there is no node {number}: this cluster has {known}")

    def properties(self, node: NodePlan, folder: Path) -> dict[str, str]:
        """Return what a node is told."""
        listeners = []
        if node.is_broker:
            listeners.append(f"PLAINTEXT://{HOST}:{node.port}")
        if "controller" in node.roles:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        voters = [
            f"{each.id}@{HOST}:{each.controller_port}"
            for each in self.nodes
            if "controller" in each.roles
        ]
        return {
            "process.roles": ",".join(node.roles),
            "node.id": str(node.id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(folder / node.folder / "data"),
            "hwmark.metrics.port": str(node.metrics_port),
            **self.settings,
        }


def make_plan(
    brokers: int, controllers: int, settings: Mapping[str, str], base_port: int | None = None
) -> Plan:
    """Plan a cluster. With no controllers of their own, the first brokers are controllers, too."""
    if not (1 <= brokers <= MAX_NODES and 0 <= controllers <= MAX_NODES):
        raise JobError(f"a local cluster has 1 to {MAX_NODES} brokers and controllers")
    both = 0 if controllers else (3 if brokers >= 3 else 1)
    roles: list[tuple[int, tuple[str, ...]]] = [
        (number, ("broker", "controller") if number <= both else ("broker",))
        for number in range(1, brokers + 1)
    ]
    roles += [(_FIRST_CONTROLLER + at, ("controller",)) for at in range(controllers)]
    ports = _ports(len(roles), base_port)
    nodes = tuple(
        NodePlan(number, what, port if "broker" in what else 0, controller_port, metrics_port)
        for (number, what), (port, controller_port, metrics_port) in zip(roles, ports, strict=True)
    )
    defaults = {
        "default.replication.factor": str(min(3, brokers)),
        "min.insync.replicas": "2" if brokers >= 3 else "1",
        **SHORT_TIMES,
    }
    return Plan(random_id(), nodes, defaults | dict(settings))


def _ports(count: int, base_port: int | None) -> list[tuple[int, int, int]]:
    """Choose three ports per node: from a base, or free ones, all held at once so they differ."""
    if base_port is not None:
        if base_port + _METRICS_PORTS + count > 65_535:
            raise JobError(f"--port {base_port}: too high for {count} nodes")
        return [
            (base_port + at, base_port + _CONTROLLER_PORTS + at, base_port + _METRICS_PORTS + at)
            for at in range(count)
        ]
    with ExitStack() as stack:
        found = []
        for _ in range(3 * count):
            holder = stack.enter_context(socket.socket())
            holder.bind((HOST, 0))
            found.append(holder.getsockname()[1])
    return [(found[at], found[at + 1], found[at + 2]) for at in range(0, 3 * count, 3)]


def write_cluster(plan: Plan, folder: Path) -> None:
    """Make a cluster's folder: the plan, each node's properties, and formatted data folders."""
    if folder.exists() and any(folder.iterdir()):
        raise JobError(f"{folder} is not empty, and is no cluster; use another --dir")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # First of all, so that a half-made folder is known as one that may be removed.
    text = json.dumps({"version": VERSION, **attrs.asdict(plan)}, indent=2)
    (folder / PLAN_FILE).write_text(text + "\n", encoding="utf-8")
    for node in plan.nodes:
        (folder / node.folder).mkdir()
        properties = plan.properties(node, folder.resolve())
        config = config_file(folder, node)
        config.write_text(write_properties(properties, f"node {node.id}"), encoding="utf-8")
        try:
            format_node(read_settings(config), plan.cluster_id)
        except BadSetting as error:
            raise JobError(str(error)) from None


def config_file(folder: Path, node: NodePlan) -> Path:
    """Return where a node's properties are."""
    return folder / node.folder / "node.properties"


def log_file(folder: Path, node: NodePlan) -> Path:
    """Return where a node's log lines go."""
    return folder / node.folder / "node.log"


def read_plan(folder: Path) -> Plan:
    """Read the plan of a cluster's folder."""
    file = folder / PLAN_FILE
    if not file.exists():
        raise JobError(f"{folder} is no cluster; run `hwmark cluster up` first, or name its --dir")
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}, where only {VERSION} is known")
        nodes = tuple(
            NodePlan(**{**node, "roles": tuple(node["roles"])}) for node in found["nodes"]
        )
        return Plan(found["cluster_id"], nodes, dict(found["settings"]))
    except (ValueError, TypeError, KeyError) as error:
        raise JobError(f"{file} does not read as a cluster's: {error}") from None


def is_cluster(folder: Path) -> bool:
    """Whether a folder is a cluster's."""
    return (folder / PLAN_FILE).is_file()


def remove_cluster(folder: Path) -> None:
    """Remove a cluster's folder with all its data; a folder that is none stays."""
    if is_cluster(folder):
        shutil.rmtree(folder)


def last_lines(file: Path, count: int = 10, most_bytes: int = 16_384) -> Sequence[str]:
    """Return the end of a log file."""
    try:
        with file.open("rb") as source:
            size = source.seek(0, 2)
            source.seek(max(0, size - most_bytes))
            return source.read(most_bytes).decode("utf-8", "replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
