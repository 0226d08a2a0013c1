"""Liveness of the explored cluster: a fair behaviour in which what must happen in the end does not.

Every property here is of the form "in the end always P". Under weak fairness it is broken exactly
if there is a reachable strongly connected component that has a state in which P does not hold, and
in which every fair action is taken, or is not enabled somewhere: going round such a component for
ever is fair, and never settles in P. A state that nothing leads away from is such a component if no
fair action is enabled there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from spec.conformance.cluster import Cluster, Label
from spec.conformance.explore import Exploration

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


@attrs.frozen
class Lasso:
    """A path to a component in which a fair behaviour may stay for ever, and the component."""

    path: list[tuple[Label | None, Cluster]]
    cycle: frozenset[int]


def fair_lasso(found: Exploration, settles: Callable[[Cluster], bool]) -> Lasso | None:
    """Find a fair behaviour that never settles, reached by the shortest path; None if none is."""
    successors: list[list[tuple[Label, int]]] = [[] for _ in found.states]
    for source, label, target in found.edges:
        if source != target:
            successors[source].append((label, target))
    bad: list[tuple[int, frozenset[int]]] = []
    for component in _components(successors):
        unsettled = [state for state in component if not settles(found.states[state])]
        if unsettled and _is_fair(component, successors, found.states):
            bad.append((min(unsettled), component))
    if not bad:
        return None
    nearest, component = min(bad, key=lambda each: len(found.path_to(each[0])))
    return Lasso(found.path_to(nearest), component)


def _is_fair(
    component: frozenset[int], successors: list[list[tuple[Label, int]]], states: list[Cluster]
) -> bool:
    """Whether going round for ever gives every fair action its turn, or disables it."""
    always: set[Label] | None = None
    taken: set[Label] = set()
    for state in component:
        fair = [(label, to) for label, to in successors[state] if _counts(label, states[state])]
        taken |= {label for label, to in fair if to in component}
        enabled = {label for label, _ in fair}
        always = enabled if always is None else always & enabled
    return not (always or set()) - taken


def _counts(label: Label, state: Cluster) -> bool:
    if label[0] == "ElectLeader" and state.decided.partition.leader != -1:
        return False
    return label[0] in _FAIR


def _components(successors: list[list[tuple[Label, int]]]) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components (Tarjan, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(successors)):
        if root in order:
            continue
        work = [(root, iter(successors[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            state, rest = work[-1]
            for _, target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(successors[target])))
                    break
                if target in on_stack:
                    low[state] = min(low[state], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[state])
                if low[state] == order[state]:
                    yield _popped(state, stack, on_stack)


def _popped(root: int, stack: list[int], on_stack: set[int]) -> frozenset[int]:
    component = set()
    while True:
        state = stack.pop()
        on_stack.discard(state)
        component.add(state)
        if state == root:
            return frozenset(component)
