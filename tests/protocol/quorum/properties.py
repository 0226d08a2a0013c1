"""The invariants of `spec/QuorumProperties.tla`, on a cluster; under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from protocol.quorum import Candidate
from protocol.replication.log import last_epoch
from tests.protocol.quorum.cluster import Cluster
from tests.protocol.quorum.parts import Broken, Entry, Node


def check(cluster: Cluster) -> None:
    """Raise `Broken` if something does not hold."""
    for name, detail in broken(cluster):
        raise Broken(name, detail)


def broken(cluster: Cluster) -> Iterator[tuple[str, object]]:
    """Yield what does not hold. OneVotePerEpoch and CommittedAppendOnly the cluster sees itself."""
    yield from _leaders(cluster)
    for one, other in combinations(cluster.nodes.values(), 2):
        if not logs_match(one.disk.entries, other.disk.entries):
            yield "LogMatching", (one, other)
    committed = cluster.committed
    for node in cluster.nodes.values():
        if node.disk.entries[: node.disk.start] != committed[: node.disk.start]:
            yield "SnapshotIsCommitted", node
        if node.machine is not None:
            yield from _node(node, committed)
    holders = [each for each in cluster.voters if _has(cluster.nodes[each], committed)]
    if 2 * len(holders) <= len(cluster.voters):
        yield "CommittedNotLost", holders


def _has(node: Node, committed: list[Entry]) -> bool:
    return node.disk.entries[: len(committed)] == committed


def _leaders(cluster: Cluster) -> Iterator[tuple[str, object]]:
    for node in cluster.leaders():
        epoch = node.state.epoch
        if cluster.elected.setdefault(epoch, node.id) != node.id:
            yield "OneLeaderPerEpoch", (epoch, node.id, cluster.elected)
        if epoch >= max(cluster.elected) and not _has(node, cluster.committed):
            yield "LeaderCompleteness", node


def _node(node: Node, committed: list[Entry]) -> Iterator[tuple[str, object]]:
    state, disk = node.state, node.disk
    if state.high_watermark > len(disk.entries):
        yield "HwInLogRange", node
    if node.under() != committed[: state.high_watermark]:
        yield "HwIsCommitted", node
    if state.saving is None and disk.vote != (state.epoch, state.voted):
        yield "VoteIsDurable", node
    if isinstance(state.role, Candidate) and disk.vote != (state.epoch, node.id):
        yield "VoteIsDurable", node
    if not state.writes and state.log.end_offset != len(disk.entries):
        yield "StorageHasTheLog", node
    if not state.writes and disk.entries and last_epoch(state.log) != disk.entries[-1][0]:
        yield "StorageHasTheLog", node


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
