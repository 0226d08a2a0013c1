"""Longer work on a local cluster: a rolling restart, and taking a broker out of it.

Each step waits until the cluster is whole again before the next one begins, and gives up with a
reason after a while; what was done by then is done, and the command can be run again.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hwmark.cluster_layout import Plan
from hwmark.cluster_view import endangered, held_by, under_replicated
from net.client.errors import ClientError
from net.client.topology import ClusterInfo
from net.errors import NetError
from spec.runner import JobError

_POLL_S: Final = 0.3
_ASK_AGAIN_S: Final = 5.0
_SHOWN: Final = 3

Order = Callable[[str, int], Awaitable[Any]]
"""Tells the supervisor to `start` or `stop` a node."""
Tell = Callable[[str], None]


class View(Protocol):
    """What the work needs to see and to change; `ClusterView` is the real one."""

    async def look(self) -> ClusterInfo: ...
    async def min_in_sync(self, topics: list[str]) -> dict[str, int]: ...
    async def decommission(self, node: int, *, wanted: bool) -> None: ...
    async def unregister_broker(self, broker_id: int) -> None: ...


async def until(
    view: View, holds: Callable[[ClusterInfo], str | None], timeout_s: float, what: str
) -> ClusterInfo:
    """Look again and again until nothing is missing; `holds` names what is.

    Brokers that do not answer are waited for like everything else: one of them is restarting.
    """
    missing = "nobody answered"
    with trio.move_on_after(timeout_s):
        while True:
            try:
                info = await view.look()
                found = holds(info)
                if found is None:
                    return info
                missing = found
            except (NetError, ClientError) as error:
                missing = str(error)
            await trio.sleep(_POLL_S)
    raise JobError(f"{what}: not within {timeout_s:g} s: {missing}")


def whole(brokers: tuple[int, ...]) -> Callable[[ClusterInfo], str | None]:
    """Say what is missing until all these brokers are there and every replica is in sync."""

    def missing(info: ClusterInfo) -> str | None:
        absent = [str(node) for node in brokers if node not in info.brokers]
        if absent:
            return f"broker {', '.join(absent)} is not there"
        behind = under_replicated(info)
        return f"under-replicated: {_some(behind)}" if behind else None

    return missing


def gone(node: int) -> Callable[[ClusterInfo], str | None]:
    """Say what is missing until a broker is known to be away."""
    return lambda info: f"broker {node} is still there" if node in info.brokers else None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


async def roll(
    plan: Plan, view: View, order: Order, tell: Tell, *, timeout_s: float, force: bool = False
) -> None:
    """Restart every node, one at a time; none while a replica is behind.

    A node whose absence would stop acks=all writes is not stopped, unless forced to.
    """
    nodes = [*plan.brokers, *(node.id for node in plan.nodes if not node.is_broker)]
    for node in nodes:
        info = await until(view, whole(plan.brokers), timeout_s, f"before node {node}")
        minima = await view.min_in_sync(list(info.topics))
        lost = endangered(info, minima, node)
        if lost and not force:
            raise JobError(
                f"without node {node} there are too few replicas for writes to {_some(lost)}; "
                "add replicas, or say --force"
            )
        tell(f"node {node}: stopping")
        await order("stop", node)
        if node in plan.brokers and len(plan.brokers) > 1:
            # Else somebody who has not heard of it yet would say that nothing is missing.
            await until(view, gone(node), timeout_s, f"node {node} stopped")
        tell(f"node {node}: starting")
        await order("start", node)
        tell(f"node {node}: catching up")
        await until(view, whole(plan.brokers), timeout_s, f"after node {node}")
        tell(f"node {node}: done")


async def decommission(
    plan: Plan,
    node: int,
    view: View,
    order: Order,
    moved: Callable[[int, int], None],
    *,
    timeout_s: float,
) -> str:
    """Move everything away from a broker, then stop and unregister it; say what came of it.

    `moved` is told how many partitions are gone, of how many.
    """
    planned = plan.node(node)
    if not planned.is_broker:
        raise JobError(f"node {node} is no broker, so it has no partitions")
    info = await until(view, lambda _info: None, timeout_s, "looking at the cluster")
    total = held_by(info, node)
    moved(0, total)
    asked_s = -math.inf
    with trio.move_on_after(timeout_s) as bound:
        while True:
            if trio.current_time() - asked_s >= _ASK_AGAIN_S:
                # One request moves only so much, so it is made again until nothing is left.
                await view.decommission(node, wanted=True)
                asked_s = trio.current_time()
            info = await until(view, lambda _info: None, timeout_s, "looking at the cluster")
            left = held_by(info, node)
            moved(max(total - left, 0), max(total, left))
            if not left:
                break
            await trio.sleep(_POLL_S)
    if bound.cancelled_caught:
        raise JobError(f"{held_by(info, node)} partitions are still on node {node}; run it again")
    if "controller" in planned.roles:
        return f"node {node} has no partitions; it goes on as a controller"
    await order("stop", node)
    await view.unregister_broker(node)
    return f"node {node} is gone"


@contextmanager
def steps(what: str, *, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show how far the work is: a bar on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    disable = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        task = progress.add_task("", total=None)
        yield lambda text, done, total: progress.update(
            task, description=text, completed=done, total=total
        )
