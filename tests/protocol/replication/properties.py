"""The invariants of `spec/ReplicationProperties.tla`, on a cluster; under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from protocol.replication import Log
from protocol.types import NO_LEADER
from tests.protocol.replication.cluster import Cluster
from tests.protocol.replication.parts import Broken, Entry, Node


def check(cluster: Cluster) -> None:
    """Raise `Broken` if something does not hold."""
    record = cluster.record
    cluster.damaged -= record.isr
    for name, detail in broken(cluster):
        raise Broken(name, f"{detail}; {record}")


def broken(cluster: Cluster) -> Iterator[tuple[str, object]]:
    """Yield what does not hold. HwMonotonic and CommittedAppendOnly the cluster sees by itself."""
    yield from _metadata(cluster)
    nodes = list(cluster.nodes.values())
    for one, other in combinations(nodes, 2):
        start = max(one.start, other.start)
        if not logs_match(one.disk[start:], other.disk[start:]):
            yield "LogMatching", (one, other)
    yield from _high_watermarks(cluster, nodes)
    yield from _completeness(cluster)


def _metadata(cluster: Cluster) -> Iterator[tuple[str, object]]:
    record = cluster.record
    if record.leader != NO_LEADER and record.leader not in record.isr:
        yield "LeaderInIsr", record.leader
    if fenced := [node for node in record.isr if cluster.is_fenced(node)]:
        yield "NoFencedInIsr", fenced
    epochs = [node.state.view.epoch for node in leaders(cluster)]
    if len(set(epochs)) < len(epochs):
        yield "SingleLeaderPerEpoch", epochs


def _high_watermarks(cluster: Cluster, nodes: list[Node]) -> Iterator[tuple[str, object]]:
    in_sync = [cluster.nodes[node] for node in cluster.record.isr]
    for node in nodes:
        end = node.high_watermark
        if not node.start <= end <= len(node.disk):
            yield "HwInLogRange", node
        if node.replica is not None and not is_on_disk(node.state.log, node.disk):
            yield "StorageHasTheLog", node
        if not all(each.has(node.disk, end, node.start) for each in in_sync):
            yield "ValidHighWatermark", node
        if not node.has(cluster.committed, end):
            yield "ConsistentRead", node


def _completeness(cluster: Cluster) -> Iterator[tuple[str, object]]:
    record, committed = cluster.record, cluster.committed
    end = len(committed)
    for number in sorted(record.isr | record.elr):
        if not cluster.nodes[number].has(committed, end):
            yield "LeaderCandidateCompleteness", cluster.nodes[number]
    for node in leaders(cluster):
        if node.state.view.epoch == record.leader_epoch:
            if not node.has(committed, end):
                yield "LeaderCompleteness", node
            promised = cluster.acked - cluster.deleted
            if not promised <= {record_id for _, record_id in node.disk[node.start :]}:
                yield "AckedNotLost", node


def leaders(cluster: Cluster) -> list[Node]:
    """List who believes to lead."""
    return [node for node in cluster.nodes.values() if node.leads()]


def is_on_disk(log: Log, disk: list[Entry]) -> bool:
    """Whether a replica knows the log that it has."""
    starts = all(disk[start][0] == epoch for epoch, start in log.epochs)
    return starts and log.end_offset == len(disk)


def logs_match(one: list[Entry], other: list[Entry]) -> bool:
    """An entry of the same epoch at the same offset is the same, and so is all before it."""
    if one == other:
        return True
    differ = False
    for mine, theirs in zip(one, other, strict=False):
        differ = differ or mine != theirs
        if differ and mine[0] == theirs[0]:
            return False
    return True
