"""Random walks of a cluster: what happens next is drawn from a seed, so a walk can be repeated.

Hypothesis shrinks what it finds, but spreads its choices thinly over a long run. A walk with
weights gets further, and much of what goes wrong takes several elections.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import attrs

from protocol.errors import InvariantViolation
from protocol.replication.events import ACKS_ALL
from tests.protocol.replication.cluster import Cluster
from tests.protocol.replication.parts import Broken, Node
from tests.protocol.replication.properties import check

WEIGHTS = {
    "deliver": 40,
    "complete": 20,
    "due": 25,
    "tick": 8,
    "learn": 12,
    "produce": 8,
    "heartbeat": 6,
    "restart": 3,
    "drop": 2,
    "consume": 2,
    "delete": 0,
    "fence": 1,
    "crash": 1,
    "prefer": 1,
}
CALM = {"fence": 0, "crash": 0, "drop": 0, "prefer": 0}
MAX_MESSAGES = 30


@attrs.define
class Walk:
    """A cluster, and where chance leads it."""

    cluster: Cluster
    random: Random

    def steps(self, count: int, changed: Mapping[str, int] | None = None) -> None:
        """Let so many things happen, by weights some of which may be changed; look after each."""
        weights = WEIGHTS | dict(changed or {})
        for name in self.random.choices(list(weights), list(weights.values()), k=count):
            getattr(self, name)()
            check(self.cluster)

    def node(self) -> Node:
        """Choose a broker."""
        return self.random.choice(list(self.cluster.nodes.values()))

    def deliver(self) -> None:
        """A message arrives, perhaps not for the last time."""
        messages = self.cluster.messages
        while len(messages) > MAX_MESSAGES:
            self.drop()
        if messages:
            place = self.random.randrange(len(messages))
            self.cluster.deliver(place, again=self.random.random() < 0.1)

    def drop(self) -> None:
        """A message is lost."""
        if self.cluster.messages:
            self.cluster.drop(self.random.randrange(len(self.cluster.messages)))

    def complete(self) -> None:
        """A write is done."""
        busy = [node.id for node in self.cluster.up() if node.writes]
        if busy:
            self.cluster.complete(self.random.choice(busy))

    def due(self) -> None:
        """Somebody does what is due."""
        self.cluster.due(self.node().id)

    def tick(self) -> None:
        """Time passes."""
        self.cluster.tick(self.random.choice([1, 10, 40, 110]))

    def learn(self) -> None:
        """Somebody learns of a record."""
        self.cluster.learn(self.node().id, newest=self.random.random() < 0.7)

    def produce(self) -> None:
        """A producer sends something, mostly to somebody who believes to lead."""
        leading = [node for node in self.cluster.up() if node.leads()]
        node = self.random.choice(leading) if leading else self.node()
        acks = self.random.choice([ACKS_ALL, ACKS_ALL, 1])
        self.cluster.produce(node.id, acks, self.random.randint(1, 2))

    def consume(self) -> None:
        """A consumer reads what it may."""
        node = self.node()
        self.cluster.consume(node.id, self.random.randint(0, node.high_watermark))

    def delete(self) -> None:
        """An operator deletes some or all of what is committed, or what would be too much."""
        node = self.node()
        self.cluster.delete(node.id, self.random.choice([-1, node.high_watermark - 2, 10**6]))

    def heartbeat(self) -> None:
        """A fenced broker is heard of again; rarely, one says that it wants to stop."""
        fenced = [node for node in self.cluster.up() if self.cluster.is_fenced(node.id)]
        if fenced:
            self.cluster.heartbeat(self.random.choice(fenced).id)
        elif self.random.random() < 0.05:
            self.cluster.heartbeat(self.random.choice(self.cluster.up()).id, leaving=True)

    def fence(self) -> None:
        """A broker is not heard of."""
        self.cluster.fence(self.node().id)

    def prefer(self) -> None:
        """The first replica is to lead."""
        self.cluster.prefer()

    def crash(self) -> None:
        """A broker stops."""
        up = self.cluster.up()
        if len(up) > 1:
            self.cluster.crash(self.random.choice(up).id, self.random.randint(0, 2))

    def restart(self) -> None:
        """A broker that has stopped starts again, with more or less of what it had."""
        down = [node for node in self.cluster.nodes.values() if node.replica is None]
        if down:
            node = self.random.choice(down)
            lossy = self.cluster.may_lose(node.id) and self.random.random() < 0.5
            lost = self.random.randint(0, len(node.disk)) if lossy else None
            self.cluster.restart(node.id, lost=lost, forgotten=self.random.choice([0, 0, 1, 9]))


def healed(cluster: Cluster, rounds: int) -> bool:
    """Let all that heals happen, and nothing else; tell whether all is well after so many rounds.

    That is the spec's liveness: everyone is in sync, and the high watermark is at the log end.
    """
    for node in cluster.nodes.values():
        if node.replica is not None and cluster.is_leaving(node.id):
            cluster.crash(node.id, written=len(node.writes))
        if node.replica is None:
            cluster.restart(node.id)
    cluster.read_limit = 100
    for _ in range(rounds):
        for number, node in cluster.nodes.items():
            if cluster.is_fenced(number):
                cluster.heartbeat(number)
            cluster.learn(number)
            while node.writes:
                cluster.complete(number)
            cluster.due(number)
        for _ in range(len(cluster.messages)):
            cluster.deliver(0)
        cluster.tick(5)
        check(cluster)
        if is_whole(cluster):
            return True
    return False


def is_whole(cluster: Cluster) -> bool:
    """Whether everyone is in sync and knows that everything is committed."""
    end = len(cluster.committed)
    return cluster.record.isr == set(cluster.nodes) and all(
        node.has(cluster.committed, end) and node.high_watermark == len(node.disk) == end
        for node in cluster.nodes.values()
    )


def found(cluster: Cluster, seed: int, steps: int, **weights: int) -> str | None:
    """Walk; give the name of what is broken, None if nothing is."""
    try:
        Walk(cluster, Random(seed)).steps(steps, weights)
    except (Broken, InvariantViolation) as violation:
        return violation.name
    return None
