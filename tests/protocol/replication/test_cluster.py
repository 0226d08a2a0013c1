"""The promises of `spec/ReplicationProperties.tla` beyond small constants: five brokers, long logs.

A broker may be fenced, crash in the middle of a write, and come back with less than it had;
messages are delayed, lost, repeated and reordered. `cluster` says what bounds the losses.
"""

from __future__ import annotations

from random import Random

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol.errors import InvariantViolation
from protocol.replication import Rules
from protocol.replication.events import ACKS_ALL
from tests.protocol.replication.cluster import Cluster
from tests.protocol.replication.parts import Broken, Node
from tests.protocol.replication.properties import check
from tests.protocol.replication.walk import CALM, Walk, healed

SIZE = 5
NODES = st.integers(1, SIZE)
FEW = st.integers(0, 3)
ANY = st.integers(0, 10**6)


class ClusterMachine(RuleBasedStateMachine):
    """Whatever happens to five brokers."""

    replica_rules = Rules()

    @initialize(min_isr=st.sampled_from([1, 2, 2, 3]), read_limit=st.integers(1, 4))
    def begin(self, min_isr: int, read_limit: int) -> None:
        self.cluster = Cluster(SIZE, min_isr, self.replica_rules)
        self.cluster.read_limit = read_limit
        Walk(self.cluster, Random(0)).steps(100, CALM)

    @rule(acks=st.sampled_from([ACKS_ALL, 1, 0]), count=st.integers(1, 3))
    def produce_at_the_leader(self, acks: int, count: int) -> None:
        self.cluster.produce(max(1, self.cluster.record.leader), acks, count)

    @rule(node=NODES)
    def produce_anywhere(self, node: int) -> None:
        self.cluster.produce(node, ACKS_ALL)

    @rule(node=NODES, back=FEW)
    def consume(self, node: int, back: int) -> None:
        self.cluster.consume(node, max(0, self.cluster.nodes[node].high_watermark - back))

    @rule(node=NODES, back=FEW)
    def delete(self, node: int, back: int) -> None:
        self.cluster.delete(node, self.cluster.nodes[node].high_watermark - back)

    @rule(by_ms=st.sampled_from([1, 10, 40, 120]))
    def pass_time(self, by_ms: int) -> None:
        self.cluster.tick(by_ms)

    @rule(node=NODES)
    def do_what_is_due(self, node: int) -> None:
        self.cluster.due(node)

    @rule(node=NODES)
    def finish_a_write(self, node: int) -> None:
        self.cluster.complete(node)

    @precondition(lambda self: self.cluster.messages)
    @rule(place=ANY, again=st.booleans())
    def deliver(self, place: int, again: bool) -> None:
        self.cluster.deliver(place % len(self.cluster.messages), again=again)

    @precondition(lambda self: self.cluster.messages)
    @rule(place=ANY)
    def lose(self, place: int) -> None:
        self.cluster.drop(place % len(self.cluster.messages))

    @rule(node=NODES, newest=st.booleans())
    def learn(self, node: int, newest: bool) -> None:
        self.cluster.learn(node, newest=newest)

    @rule(node=NODES)
    def fence(self, node: int) -> None:
        self.cluster.fence(node)

    @rule()
    def unfence_all(self) -> None:
        for node in self.cluster.up():
            self.cluster.heartbeat(node.id)

    @rule(node=NODES)
    def want_to_stop(self, node: int) -> None:
        if self.cluster.nodes[node].replica is not None:
            self.cluster.heartbeat(node, leaving=True)

    @rule()
    def elect_the_preferred_leader(self) -> None:
        self.cluster.prefer()

    @rule(node=NODES, written=FEW)
    def crash(self, node: int, written: int) -> None:
        self.cluster.crash(node, written)

    def down(self) -> list[Node]:
        return [node for node in self.cluster.nodes.values() if node.replica is None]

    @precondition(lambda self: self.down())
    @rule(forgotten=FEW)
    def restart(self, forgotten: int) -> None:
        self.cluster.restart(self.down()[0].id, forgotten=forgotten)

    @precondition(lambda self: self.down() and self.cluster.may_lose(self.down()[0].id))
    @rule(lost=st.integers(0, 20))
    def restart_with_less(self, lost: int) -> None:
        self.cluster.restart(self.down()[0].id, lost=lost)

    @rule(seed=ANY, steps=st.integers(20, 120))
    def go_on_as_usual(self, seed: int, steps: int) -> None:
        """Much happens that is not worth choosing one by one, or nothing would ever get far."""
        Walk(self.cluster, Random(seed)).steps(steps, CALM)

    @invariant()
    def promises_are_kept(self) -> None:
        check(self.cluster)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            assert self.cluster.rejected == 0


def test_whatever_happens_to_five_brokers_the_promises_are_kept() -> None:
    run_state_machine_as_test(
        ClusterMachine,
        settings=settings(
            max_examples=120,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            database=None,
        ),
    )


@pytest.mark.parametrize(
    "rules",
    [
        attrs.evolve(Rules(), kept_on_becoming_follower=lambda _, high_watermark: high_watermark),
        attrs.evolve(Rules(), answer_is_current=lambda *_: True),
    ],
    ids=["KIP-101", "KIP-320"],
)
def test_five_brokers_with_a_wrong_rule_are_found_out(rules: Rules) -> None:
    machine = type("WrongMachine", (ClusterMachine,), {"replica_rules": rules})
    unshrunk = settings(
        max_examples=200,
        stateful_step_count=60,
        phases=[Phase.generate],
        deadline=None,
        derandomize=True,
        database=None,
    )
    with pytest.raises((Broken, InvariantViolation)):
        run_state_machine_as_test(machine, settings=unshrunk)


MOODS: dict[str, dict[str, int]] = {
    "as usual": {},
    "elections": {"fence": 4, "prefer": 4, "learn": 5},
    "crashes": {"crash": 4, "restart": 8, "complete": 8},
    "deletions": {"delete": 2, "fence": 2, "crash": 2},
    "slow brokers": {"learn": 3, "due": 10, "deliver": 15, "tick": 10, "fence": 2},
}


def storm_and_calm(cluster: Cluster, seed: int, mood: dict[str, int], phases: int) -> None:
    """Let much go wrong, and then nothing for a while, again and again."""
    walk = Walk(cluster, Random(seed))
    for _ in range(phases):
        walk.steps(300, mood)
        walk.steps(200, CALM)


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize(("size", "min_isr"), [(2, 1), (3, 1), (3, 2), (5, 2), (5, 3)])
def test_long_walks_keep_the_promises_and_what_can_heal_does(
    size: int, min_isr: int, mood: str
) -> None:
    for seed in range(4):
        cluster = Cluster(size, min_isr)
        storm_and_calm(cluster, seed, MOODS[mood], phases=4)
        assert cluster.rejected == 0
        assert healed(cluster, rounds=300), cluster.record


def test_walks_go_far() -> None:
    # The tests above would pass on clusters in which little happens.
    cluster = Cluster(3, 2)
    storm_and_calm(cluster, 0, MOODS["as usual"], phases=20)
    assert cluster.record.leader_epoch > 40
    assert len(cluster.committed) > 200
    assert len(cluster.acked) > 50
    assert len({epoch for epoch, _ in cluster.committed}) > 15
