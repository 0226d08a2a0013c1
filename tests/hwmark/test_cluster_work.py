"""Rolling restarts and decommissions wait for a cluster that is whole, and say why they do not."""

import uuid

import pytest
import trio

from hwmark.cluster import picture
from hwmark.cluster_layout import Plan, make_plan
from hwmark.cluster_view import endangered, under_replicated
from hwmark.cluster_work import decommission, roll
from net.client.admin import Quorum, QuorumReplica
from net.client.topology import Broker, ClusterInfo, PartitionInfo, TopicInfo
from net.errors import ConnectionLost
from net.transport.seam import Endpoint
from spec.runner import JobError


class FakeCluster:
    """Three brokers, one topic; a node that starts is in sync again after a few looks."""

    def __init__(self, plan: Plan, replicas: int = 3, min_isr: int = 2) -> None:
        self.plan = plan
        self.up = set(plan.brokers)
        self.behind: dict[int, int] = {}
        self.replicas = list(plan.brokers)[:replicas]
        self.min_isr = min_isr
        self.orders: list[str] = []
        self.wrong: list[str] = []
        self.looks_until_in_sync = 3
        self.moving: set[int] = set()
        self.unnoticed: dict[int, int] = {}
        """Nodes that have stopped, and for how many looks nobody has noticed."""
        self.unregistered: list[int] = []

    async def look(self) -> ClusterInfo:
        await trio.lowlevel.checkpoint()
        for node in list(self.behind):
            self.behind[node] -= 1
            if self.behind[node] <= 0:
                del self.behind[node]
        for node in list(self.unnoticed):
            self.unnoticed[node] -= 1
            if self.unnoticed[node] <= 0:
                del self.unnoticed[node]
                self.up.discard(node)
        for node in self.moving & set(self.replicas):
            self.replicas.remove(node)
        if not self.up:
            raise ConnectionLost("nobody")
        brokers = {node: Broker(node, Endpoint("h", 1)) for node in self.up}
        isr = tuple(node for node in self.replicas if node in self.up - set(self.behind))
        part = PartitionInfo(0, isr[0] if isr else -1, 1, tuple(self.replicas), isr)
        topic = TopicInfo("t", uuid.UUID(int=1), (part,))
        return ClusterInfo("c", 1, brokers, {"t": topic})

    async def min_in_sync(self, topics: list[str]) -> dict[str, int]:
        return dict.fromkeys(topics, self.min_isr)

    async def decommission(self, node: int, *, wanted: bool) -> None:
        assert wanted
        self.moving.add(node)

    async def unregister_broker(self, broker_id: int) -> None:
        if broker_id in self.up - set(self.unnoticed):
            self.wrong.append("unregistered while it runs")
        self.unregistered.append(broker_id)

    async def order(self, what: str, node: int) -> None:
        self.orders.append(f"{what} {node}")
        if what == "stop":
            if self.behind or len(self.up) < len(self.plan.brokers):
                self.wrong.append(f"stopped {node} while others are behind")
            if node in self.replicas and node in self.moving:
                self.wrong.append("stopped with partitions")
            self.unnoticed[node] = 3
        else:
            if node in self.up:
                self.wrong.append(f"started {node} before anybody missed it")
            self.up.add(node)
            self.behind[node] = self.looks_until_in_sync


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_one_node_at_a_time_and_none_while_a_replica_is_behind() -> None:
    plan = make_plan(3, 0, {})
    cluster = FakeCluster(plan)
    told: list[str] = []
    await roll(plan, cluster, cluster.order, told.append, timeout_s=30)
    expected = [f"{what} {node}" for node in (1, 2, 3) for what in ("stop", "start")]
    assert cluster.orders == expected
    assert cluster.wrong == []
    assert [text for text in told if text.endswith("done")] == [
        f"node {node}: done" for node in (1, 2, 3)
    ]


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_a_roll_gives_up_when_a_node_does_not_catch_up() -> None:
    plan = make_plan(3, 0, {})
    cluster = FakeCluster(plan)
    cluster.looks_until_in_sync = 1_000_000
    with pytest.raises(JobError, match=r"after node 1: not within 5 s: under-replicated: t-0"):
        await roll(plan, cluster, cluster.order, lambda _text: None, timeout_s=5)
    assert cluster.orders == ["stop 1", "start 1"]


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_a_node_that_writes_need_is_stopped_only_by_force() -> None:
    plan = make_plan(3, 0, {})
    cluster = FakeCluster(plan, replicas=2, min_isr=2)
    with pytest.raises(JobError, match="too few replicas for writes to t-0; add replicas"):
        await roll(plan, cluster, cluster.order, lambda _text: None, timeout_s=5)
    assert cluster.orders == []
    await roll(plan, cluster, cluster.order, lambda _text: None, timeout_s=5, force=True)
    assert len(cluster.orders) == 6


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_a_broker_is_stopped_and_unregistered_when_nothing_is_left_on_it() -> None:
    plan = make_plan(4, 0, {})
    cluster = FakeCluster(plan, replicas=4)
    seen: list[tuple[int, int]] = []
    result = await decommission(
        plan, 4, cluster, cluster.order, lambda *moved: seen.append(moved), timeout_s=30
    )
    assert result == "node 4 is gone"
    assert cluster.orders == ["stop 4"]
    assert cluster.unregistered == [4]
    assert cluster.wrong == []
    assert seen[0] == (0, 1)
    assert seen[-1] == (1, 1)


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_a_broker_that_is_a_controller_goes_on_as_one() -> None:
    plan = make_plan(4, 0, {})
    cluster = FakeCluster(plan, replicas=4)
    result = await decommission(plan, 1, cluster, cluster.order, lambda *_moved: None, timeout_s=30)
    assert "goes on as a controller" in result
    assert cluster.orders == []
    with pytest.raises(JobError, match="there is no node 9"):
        await decommission(plan, 9, cluster, cluster.order, lambda *_moved: None, timeout_s=30)


@pytest.mark.trio
async def test_what_is_in_danger_is_counted() -> None:
    cluster = FakeCluster(make_plan(3, 0, {}))
    info = await cluster.look()
    assert under_replicated(info) == []
    assert endangered(info, {"t": 2}, 1) == []
    assert endangered(info, {"t": 3}, 1) == ["t-0"]
    cluster.up.discard(3)
    info = await cluster.look()
    assert under_replicated(info) == ["t-0"]
    assert endangered(info, {"t": 2}, 1) == ["t-0"]
    assert endangered(info, {"t": 2}, 3) == []


@pytest.mark.trio
async def test_the_picture_is_healthy_only_if_everything_is() -> None:
    cluster = FakeCluster(make_plan(3, 0, {}))
    info = await cluster.look()
    replica = QuorumReplica(1, 5, -1, -1)
    quorum = Quorum(1, 2, 5, (replica,), ())
    processes = [{"node": node, "roles": ["broker"], "state": "running"} for node in (1, 2, 3)]
    found = picture(processes, info, quorum)
    assert found["healthy"]
    assert found["nodes"][0]["quorum"] == "leader"
    assert [node["in_sync"] for node in found["nodes"]] == [1, 1, 1]
    assert not picture(processes, info, quorum, "no answer")["healthy"]
    stopped = [*processes[:2], {**processes[2], "state": "stopped"}]
    assert not picture(stopped, info, quorum)["healthy"]
    cluster.up.discard(3)
    assert not picture(processes, await cluster.look(), quorum)["healthy"]
