"""What must hold of the cluster: the properties of `ReplicationProperties.tla`, under their names.

An invariant looks at a state, an action property at a step. Liveness is in `liveness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from spec.conformance.replication.cluster import Cluster
from spec.conformance.replication.node import Entry, Node

Invariant = Callable[["Bounds", Cluster], bool]
ActionProperty = Callable[["Bounds", Cluster, Cluster], bool]


@attrs.frozen
class Bounds:
    """What the properties need of a model's constants, and of the rules that it runs with."""

    min_isr: int
    max_records: int
    max_epoch: int
    max_faults: int
    acks_one: frozenset[int]
    read_limit: Callable[[Node], int]
    candidates: Callable[[Cluster], frozenset[int]]


def type_ok(bounds: Bounds, cluster: Cluster) -> bool:
    """Offsets, epochs and sets are within the bounds that the model allows."""
    partition = cluster.decided.partition
    replicas = set(partition.replicas)
    last_epoch = bounds.max_epoch + bounds.max_faults + 1
    return (
        all(_node_ok(bounds, node, replicas, last_epoch) for node in cluster.nodes)
        and partition.leader in {*replicas, -1}
        and 1 <= partition.leader_epoch <= last_epoch
        and partition.isr <= replicas
        and partition.elr <= replicas - partition.isr
        and len(cluster.committed) <= bounds.max_records
        and cluster.acked <= set(range(1, bounds.max_records + 1))
    )


def _node_ok(bounds: Bounds, node: Node, replicas: set[int], last_epoch: int) -> bool:
    state, view = node.state, node.state.view
    offsets = range(bounds.max_records + 1)
    return (
        len(node.entries) in offsets
        and all(1 <= epoch <= last_epoch for epoch, _ in node.entries)
        and state.high_watermark in offsets
        and 0 <= view.epoch <= last_epoch
        and view.leader in {*replicas, -1}
        and view.isr <= replicas
        and view.pending <= replicas
        and (leads(node) or (not view.isr and not view.pending))
    )


def leads(node: Node) -> bool:
    """Whether this broker believes to lead."""
    return node.state.view.leader == node.state.node


def leader_in_isr(bounds: Bounds, cluster: Cluster) -> bool:
    """The leader is in sync."""
    partition = cluster.decided.partition
    return partition.leader == -1 or partition.leader in partition.isr


def single_leader_per_epoch(bounds: Bounds, cluster: Cluster) -> bool:
    """Two replicas never lead in the same epoch."""
    epochs = [node.state.view.epoch for node in cluster.nodes if leads(node)]
    return len(epochs) == len(set(epochs))


def no_fenced_in_isr(bounds: Bounds, cluster: Cluster) -> bool:
    """KIP-841."""
    return not cluster.decided.partition.isr & cluster.decided.fenced


def min_isr_recovery_quorum(bounds: Bounds, cluster: Cluster) -> bool:
    """KIP-966: at least min ISR replicas may be elected cleanly; each failure may cost one."""
    partition = cluster.decided.partition
    return len(partition.isr | partition.elr) + cluster.used.faults >= bounds.min_isr


def log_matching(bounds: Bounds, cluster: Cluster) -> bool:
    """The same epoch at the same offset means the same log up to there."""
    for node in cluster.nodes:
        for other in cluster.nodes:
            for offset, (mine, theirs) in enumerate(zip(node.entries, other.entries, strict=False)):
                same = node.entries[: offset + 1] == other.entries[: offset + 1]
                if mine[0] == theirs[0] and not same:
                    return False
    return True


def hw_in_log_range(bounds: Bounds, cluster: Cluster) -> bool:
    """A high watermark is within its log."""
    return all(node.state.high_watermark <= len(node.entries) for node in cluster.nodes)


def _is_prefix(shorter: tuple[Entry, ...], longer: tuple[Entry, ...]) -> bool:
    return longer[: len(shorter)] == shorter


def _under(node: Node) -> tuple[Entry, ...]:
    return node.entries[: node.state.high_watermark]


def _in_sync(cluster: Cluster) -> Iterator[Node]:
    return (cluster.node(number) for number in cluster.decided.partition.isr)


def valid_high_watermark(bounds: Bounds, cluster: Cluster) -> bool:
    """What is under any high watermark is on every in-sync replica."""
    under = [_under(node) for node in cluster.nodes]
    return all(_is_prefix(each, node.entries) for node in _in_sync(cluster) for each in under)


def hw_replicated(bounds: Bounds, cluster: Cluster) -> bool:
    """What is under any high watermark is on min ISR replicas; each failure may cost one."""
    needed = bounds.min_isr - cluster.used.faults
    return all(
        sum(_is_prefix(_under(node), other.entries) for other in cluster.nodes) >= needed
        for node in cluster.nodes
    )


def leader_candidate_completeness(bounds: Bounds, cluster: Cluster) -> bool:
    """Everyone who may be elected cleanly has all that was ever committed."""
    partition = cluster.decided.partition
    eligible = partition.isr | partition.elr
    return all(_is_prefix(cluster.committed, cluster.node(each).entries) for each in eligible)


def _acting(cluster: Cluster) -> Iterator[Node]:
    epoch = cluster.decided.partition.leader_epoch
    return (node for node in cluster.nodes if leads(node) and node.state.view.epoch == epoch)


def leader_completeness(bounds: Bounds, cluster: Cluster) -> bool:
    """A leader of the newest epoch has all that was ever committed."""
    return all(_is_prefix(cluster.committed, node.entries) for node in _acting(cluster))


def acked_not_lost(bounds: Bounds, cluster: Cluster) -> bool:
    """A leader of the newest epoch has all that was ever acknowledged."""
    return all(cluster.acked <= _ids(node) for node in _acting(cluster))


def _ids(node: Node) -> set[int]:
    return {record for _, record in node.entries}


def consistent_read(bounds: Bounds, cluster: Cluster) -> bool:
    """Whatever a consumer may read, anywhere and at any time, is the same."""
    return all(
        _is_prefix(node.entries[: bounds.read_limit(node)], cluster.committed)
        for node in cluster.nodes
    )


def committed_append_only(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """What is committed only grows."""
    return _is_prefix(before.committed, after.committed)


def hw_monotonic(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """A replica's high watermark goes back only when its broker has restarted."""
    return all(
        new.state.high_watermark >= old.state.high_watermark
        or new.state.broker_epoch > old.state.broker_epoch
        for old, new in zip(before.nodes, after.nodes, strict=True)
    )


def fails_closed(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """acks=all appends nothing under min ISR."""
    record = after.used.records
    if record == before.used.records or record in bounds.acks_one:
        return True
    return all(
        len(old.state.view.isr) >= bounds.min_isr
        for old, new in zip(before.nodes, after.nodes, strict=True)
        if record in _ids(new)
    )


def only_laggards_leave(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """A leader proposes to remove only a follower that lags behind it."""
    return all(
        _progress(old, follower) < len(old.entries)
        for old, new in zip(before.nodes, after.nodes, strict=True)
        if not old.state.view.pending and new.state.view.pending
        for follower in old.state.view.isr - new.state.view.pending
    )


def _progress(node: Node, follower: int) -> int:
    """Tell what this leader knows of a follower's log end."""
    known = getattr(node.state.role, "followers", ())
    return next((each.end_offset for each in known if each.node == follower), 0)


def unclean_is_last_resort(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """Nobody is elected uncleanly while somebody could be elected cleanly."""
    if before.decided.partition.leader != -1 or after.decided.partition.leader == -1:
        return True
    candidates = bounds.candidates(before)
    return not candidates or after.decided.partition.leader in candidates


def refines_abstract_log(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """Every step is one of `AbstractLog`: what is committed grows, and is what is acknowledged."""
    if (before.committed, before.acked) == (after.committed, after.acked):
        return True
    ids = [record for _, record in after.committed]
    return (
        _is_prefix(before.committed, after.committed)
        and len(set(ids)) == len(ids)
        and before.acked <= after.acked
        and after.acked <= set(ids)
    )


def version_is_place(bounds: Bounds, before: Cluster, after: Cluster) -> bool:
    """Nothing is decided twice or out of order.

    The spec says so of the whole history; by steps it is that every decision is the next version.
    """
    old, new = before.decided.partition, after.decided.partition
    return old == new or new.version == old.version + 1


INVARIANTS: dict[str, Invariant] = {
    "TypeOk": type_ok,
    "LeaderInIsr": leader_in_isr,
    "SingleLeaderPerEpoch": single_leader_per_epoch,
    "NoFencedInIsr": no_fenced_in_isr,
    "MinIsrRecoveryQuorum": min_isr_recovery_quorum,
    "LogMatching": log_matching,
    "HwInLogRange": hw_in_log_range,
    "ValidHighWatermark": valid_high_watermark,
    "HwReplicated": hw_replicated,
    "LeaderCandidateCompleteness": leader_candidate_completeness,
    "LeaderCompleteness": leader_completeness,
    "AckedNotLost": acked_not_lost,
    "ConsistentRead": consistent_read,
}
ACTION_PROPERTIES: dict[str, ActionProperty] = {
    "CommittedAppendOnly": committed_append_only,
    "HwMonotonic": hw_monotonic,
    "FailsClosed": fails_closed,
    "OnlyLaggardsLeave": only_laggards_leave,
    "UncleanIsLastResort": unclean_is_last_resort,
    "RefinesAbstractLog": refines_abstract_log,
    "VersionIsPlace": version_is_place,
}
