"""The promises of `spec/QuorumProperties.tla` beyond small constants: five voters, long logs.

A node may crash in the middle of a write, be silent for long, and take snapshots; messages are
delayed, lost, repeated and reordered. When all of that ends, somebody leads and all is committed.
"""

from __future__ import annotations

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol.quorum import Quorum
from protocol.quorum import effects as do
from tests.protocol.quorum.cluster import Cluster
from tests.protocol.quorum.properties import check
from tests.protocol.quorum.walk import CALM, STORM, Walk, healed

ANY = st.integers(0, 10**6)


class ClusterMachine(RuleBasedStateMachine):
    """Whatever happens to three or five voters, and an observer."""

    @initialize(voters=st.sampled_from([3, 5]), seed=ANY, calm=st.booleans())
    def begin(self, voters: int, seed: int, calm: bool) -> None:
        self.cluster = Cluster(voters, 1, seed=seed)
        if calm:
            assert healed(self.cluster)

    def pick(self, number: int) -> int:
        return number % len(self.cluster.nodes) + 1

    @rule(node=ANY, count=st.integers(1, 3))
    def propose(self, node: int, count: int) -> None:
        self.cluster.propose(self.pick(node), count)

    @rule(by_ms=st.sampled_from([1, 10, 60, 200, 400]))
    def pass_time(self, by_ms: int) -> None:
        self.cluster.tick(by_ms)

    @rule(node=ANY)
    def do_what_is_due(self, node: int) -> None:
        self.cluster.due(self.pick(node))

    @rule(node=ANY)
    def finish_a_write(self, node: int) -> None:
        self.cluster.complete(self.pick(node))

    @precondition(lambda self: self.cluster.messages)
    @rule(place=ANY, again=st.booleans())
    def deliver(self, place: int, again: bool) -> None:
        self.cluster.deliver(place % len(self.cluster.messages), again=again)

    @precondition(lambda self: self.cluster.messages)
    @rule(place=ANY)
    def lose(self, place: int) -> None:
        self.cluster.drop(place % len(self.cluster.messages))

    @rule(node=ANY, written=st.integers(0, 3))
    def crash(self, node: int, written: int) -> None:
        number = self.pick(node)
        if self.cluster.running(number):
            self.cluster.crash(number, written)

    @rule(node=ANY)
    def restart(self, node: int) -> None:
        number = self.pick(node)
        if not self.cluster.running(number):
            self.cluster.start(number)

    @rule(node=ANY)
    def take_a_snapshot(self, node: int) -> None:
        self.cluster.snapshot(self.pick(node))

    @rule(seed=ANY, steps=st.integers(20, 120))
    def go_on_as_usual(self, seed: int, steps: int) -> None:
        """Much happens that is not worth choosing one by one, or nothing would ever get far."""
        Walk(self.cluster, Random(seed)).steps(steps, CALM)

    @invariant()
    def promises_are_kept(self) -> None:
        check(self.cluster)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            assert healed(self.cluster)


def test_whatever_happens_the_promises_are_kept_and_what_can_heal_does() -> None:
    run_state_machine_as_test(
        ClusterMachine,
        settings=settings(
            max_examples=100,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            database=None,
        ),
    )


MOODS: dict[str, dict[str, int]] = {
    "as usual": {},
    "crashes": {"crash": 3, "restart": 4, "complete": 5},
    "losses": {"drop": 8, "again": 6},
    "silence": {"long_tick": 4, "due": 10},
    "snapshots": {"snapshot": 5, "crash": 2, "restart": 2, "propose": 5},
}


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize(("voters", "observers"), [(1, 1), (2, 1), (3, 0), (3, 2), (5, 1)])
def test_long_walks_keep_the_promises_and_heal(voters: int, observers: int, mood: str) -> None:
    for seed in range(3):
        cluster = Cluster(voters, observers, seed=seed)
        walk = Walk(cluster, Random(seed))
        for _ in range(3):
            walk.steps(300, {**STORM, **MOODS[mood]})
            walk.steps(200, CALM)
        assert healed(cluster), cluster.leaders()


def test_walks_go_far() -> None:
    # The tests above would pass on clusters in which little happens.
    cluster = Cluster(3, 1, seed=1)
    walk = Walk(cluster, Random(1))
    for _ in range(12):
        walk.steps(500, STORM)
        assert healed(cluster)
    assert len(cluster.elected) > 10
    assert len(cluster.committed) > 100
    assert len({epoch for epoch, _ in cluster.committed}) > 8
    assert sum(node.disk.start > 0 for node in cluster.nodes.values()) > 1


def test_who_is_elected_is_active_once_and_then_told_what_is_committed() -> None:
    cluster = Cluster(3)
    assert healed(cluster)
    (leader,) = cluster.leaders()
    assert cluster.told[leader.id] == [do.Committed(1), do.Elected(1, 1)]
    cluster.propose(leader.id, 2)
    assert healed(cluster)
    for number in cluster.nodes:
        assert cluster.told[number][-1] == do.Committed(3)


def test_a_leader_cut_off_resigns_and_the_others_elect_another() -> None:
    cluster = Cluster(3)
    assert healed(cluster)
    (old,) = cluster.leaders()
    for _ in range(400):
        cluster.tick(5)
        for number in cluster.nodes:
            cluster.due(number)
            while cluster.nodes[number].disk.todo:
                cluster.complete(number)
        cluster.messages = [m for m in cluster.messages if old.id not in (m.sender, m.to)]
        for _ in range(len(cluster.messages)):
            cluster.deliver(0)
        check(cluster)
    leaders = [node.id for node in cluster.leaders()]
    assert leaders
    assert old.id not in leaders
    assert old.state.epoch == 1
    assert healed(cluster)


def test_kip_996_a_follower_that_was_cut_off_disturbs_nobody_when_it_is_back() -> None:
    cluster = Cluster(3)
    assert healed(cluster)
    (leader,) = cluster.leaders()
    lonely = next(number for number in cluster.nodes if number != leader.id)
    for _ in range(400):
        cluster.tick(5)
        for number in cluster.nodes:
            cluster.due(number)
        cluster.messages = [m for m in cluster.messages if lonely not in (m.sender, m.to)]
        for _ in range(len(cluster.messages)):
            cluster.deliver(0)
    assert healed(cluster)
    assert {node.state.epoch for node in cluster.nodes.values()} == {1}
    assert cluster.leaders() == [leader]


def test_nothing_is_due_before_the_deadline_something_at_it_and_nothing_when_all_is_handled() -> (
    None
):
    looked_at = 0
    for seed, mood in enumerate(MOODS.values()):
        cluster = Cluster(3 + 2 * (seed % 2), 1, seed=seed)
        walk = Walk(cluster, Random(seed))
        for _ in range(300):
            walk.steps(3, {**STORM, **mood})
            for node in cluster.nodes.values():
                if node.machine is not None:
                    looked_at += handles_what_is_due(node.machine, cluster.now_ms)
    assert looked_at > 1_000


def handles_what_is_due(machine: Quorum, now_ms: int) -> bool:
    """Look at a copy of a machine at its next deadline; tell whether it has one."""
    at_ms = machine.next_deadline()
    if at_ms is None:
        assert machine.due(now_ms + 10**9) == ()
        return False
    assert machine.due(at_ms - 1) == ()
    copy, later_ms = Quorum(machine.state, machine.rules), max(now_ms, at_ms)
    assert copy.due(later_ms) != ()
    for _ in range(12):
        for event in copy.due(later_ms):
            copy.handle(event, later_ms)
    assert copy.due(later_ms) == ()
    return True


def test_every_action_is_taken_in_such_walks() -> None:
    taken: set[str] = set()
    for seed, mood in enumerate([*MOODS.values()] * 3):
        cluster = Cluster(3, 1, seed=seed, trace=lambda step: taken.add(step.action.name))
        walk = Walk(cluster, Random(seed))
        for _ in range(4):
            walk.steps(400, {**STORM, **mood})
            assert healed(cluster)
    # Snapshots of a cluster like this come in one piece, and its disks do not fail.
    rare = {"ExpectSnapshot", "FailStorage"}
    assert {action.name for action in Quorum.actions} - taken <= rare
