"""Walks at random through what may happen to a cluster, and lets it heal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.protocol.quorum.cluster import Cluster
from tests.protocol.quorum.properties import check

CALM: Mapping[str, int] = {"deliver": 12, "complete": 8, "due": 6, "tick": 4, "propose": 3}
STORM: Mapping[str, int] = {
    **CALM,
    "again": 2,
    "drop": 3,
    "crash": 1,
    "restart": 1,
    "snapshot": 1,
    "long_tick": 1,
    "calm": 2,
}


class Walk:
    """One thing after another, chosen by chance; what must hold is looked at after each."""

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self.cluster = cluster
        self.chance = chance

    def steps(self, count: int, weights: Mapping[str, int]) -> None:
        """Take some steps."""
        names = list(weights)
        for name in self.chance.choices(names, [weights[each] for each in names], k=count):
            _STEPS[name](self)
            check(self.cluster)

    def _node(self) -> int:
        return self.chance.choice(list(self.cluster.nodes))

    def _place(self) -> int | None:
        messages = self.cluster.messages
        return self.chance.randrange(len(messages)) if messages else None

    def _deliver(self, *, again: bool = False) -> None:
        if (place := self._place()) is not None:
            self.cluster.deliver(place, again=again)

    def _drop(self) -> None:
        if (place := self._place()) is not None:
            self.cluster.drop(place)

    def _crash(self) -> None:
        number = self._node()
        if self.cluster.running(number):
            self.cluster.crash(number, self.chance.randrange(3))

    def _restart(self) -> None:
        for number in self.cluster.nodes:
            if not self.cluster.running(number):
                self.cluster.start(number)
                return

    def _propose(self) -> None:
        leaders = self.cluster.leaders()
        if leaders:
            self.cluster.propose(self.chance.choice(leaders).id, self.chance.randint(1, 3))


_STEPS: dict[str, Callable[[Walk], None]] = {
    "deliver": Walk._deliver,
    "again": lambda walk: walk._deliver(again=True),
    "drop": Walk._drop,
    "complete": lambda walk: walk.cluster.complete(walk._node()),
    "due": lambda walk: walk.cluster.due(walk._node()),
    "tick": lambda walk: walk.cluster.tick(walk.chance.choice((1, 5, 20))),
    "long_tick": lambda walk: walk.cluster.tick(walk.chance.choice((100, 250))),
    "crash": Walk._crash,
    "restart": Walk._restart,
    "propose": Walk._propose,
    "calm": lambda walk: calm(walk.cluster),
    "snapshot": lambda walk: walk.cluster.snapshot(walk._node()),
}


def calm(cluster: Cluster) -> None:
    """For a moment everything works."""
    for number, node in cluster.nodes.items():
        cluster.due(number)
        while node.machine is not None and node.disk.todo:
            cluster.complete(number)
    for _ in range(len(cluster.messages)):
        cluster.deliver(0)


def healed(cluster: Cluster, rounds: int = 2_000) -> bool:
    """Let everything work from now on; tell whether the cluster settles."""
    for number in cluster.nodes:
        if not cluster.running(number):
            cluster.start(number)
    for _ in range(rounds):
        calm(cluster)
        check(cluster)
        if cluster.settled():
            return True
        cluster.tick(5)
    return False
