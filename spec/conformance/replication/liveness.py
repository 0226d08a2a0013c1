"""What must happen in the end in a cluster, and which of its steps do not wait for ever."""

from __future__ import annotations

from collections.abc import Callable

from spec.conformance.replication.cluster import Cluster
from spec.conformance.system import Label

# The actions that `Fairness` of Replication.tla names; ElectLeader only where nobody leads.
_FAIR = frozenset(
    {
        "BecomeLeader",
        "BecomeFollower",
        "LearnIsr",
        "LeaderHandleFetch",
        "LeaderHandleLateFetch",
        "FollowerHandleAnswer",
        "CommitIsr",
        "RejectIsr",
        "ElectLeader",
        "UnfenceBroker",
        "ExpandIsr",
    }
)


def hw_reaches_log_end(cluster: Cluster) -> bool:
    """The high watermark reaches the log end."""
    leader = cluster.decided.partition.leader
    if leader == -1:
        return True
    node = cluster.node(leader)
    return node.state.high_watermark == len(node.entries)


def isr_heals(cluster: Cluster) -> bool:
    """The ISR is whole."""
    return len(cluster.decided.partition.isr) == len(cluster.nodes)


def acked_becomes_replicated(cluster: Cluster) -> bool:
    """What is acknowledged is on every replica."""
    return all(cluster.acked <= {record for _, record in node.entries} for node in cluster.nodes)


LIVENESS: dict[str, Callable[[Cluster], bool]] = {
    "HwReachesLogEnd": hw_reaches_log_end,
    "IsrHeals": isr_heals,
    "AckedBecomesReplicated": acked_becomes_replicated,
}


def is_fair(label: Label, cluster: Cluster) -> bool:
    """Whether a step is one that `Fairness` gives its turn."""
    if label[0] == "ElectLeader" and cluster.decided.partition.leader != -1:
        return False
    return label[0] in _FAIR
