"""The controller on the quorum's log: every node has the same image of what is committed.

The driver between the two machines is the one in this file: it proposes what the controller
appends, folds what is committed into an image, and hands that to the controller when its node is
elected. A snapshot is the image as it was when it was taken, and whoever installs it goes on from
there.
"""

from __future__ import annotations

from random import Random

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from protocol.controller import (
    AppendRecords,
    BecameActive,
    Command,
    Controller,
    ControllerRules,
    ControllerState,
    CreateTopics,
    DeleteTopics,
    Heartbeat,
    Image,
    NewTopic,
    RecordsCommitted,
    RegisterBroker,
    Registered,
    Reply,
    Resigned,
    Unregister,
    apply,
    replay,
)
from protocol.machine import Effect, Event
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.types import NodeId, Offset
from tests.protocol.quorum.cluster import Cluster
from tests.protocol.quorum.parts import Broken, Entry, Node
from tests.protocol.quorum.properties import check
from tests.protocol.quorum.walk import STORM, Walk, healed


@attrs.define
class Above:
    """What stands on a node: a controller, and the image of what its node knows as committed."""

    controller: Controller
    image: Image = attrs.field(factory=Image)
    applied: Offset = 0


def folded(image: Image, entries: list[Entry]) -> Image:
    """Fold committed entries into an image; an epoch's first record says nothing to it."""
    for _, record in entries:
        if record is not None:
            image = apply(image, record)  # type: ignore[arg-type]
    return image


class Controllers(Cluster):
    """A cluster with a controller on each of its voters, and an image on every node."""

    def __init__(self, voters: int, observers: int, seed: int) -> None:
        self.above: dict[NodeId, Above] = {}
        self.snapshots: dict[Offset, Image] = {0: Image()}
        self.registered: dict[NodeId, int] = {}
        self.activated = 0
        super().__init__(voters, observers, seed=seed)

    def start(self, number: NodeId) -> None:
        """A node starts from its snapshot."""
        super().start(number)
        start = self.nodes[number].disk.start
        controller = Controller(ControllerState(), ControllerRules())
        self.above[number] = Above(controller, self.snapshots[start], start)

    def due(self, number: NodeId) -> None:
        """A node, and the controller on it, do what is due."""
        super().due(number)
        if self.running(number):
            for event in self.above[number].controller.due(self.now_ms):
                self.tell(number, event)

    def command(self, command: Command) -> None:
        """A command reaches whoever believes to be the active controller."""
        for number in list(self.above):
            if self.running(number) and self.above[number].controller.state.active:
                self.tell(number, command)

    def tell(self, number: NodeId, event: Event) -> None:
        """The controller of a node handles an event."""
        for effect in self.above[number].controller.handle(event, self.now_ms):
            if isinstance(effect, AppendRecords):
                count, epoch = len(effect.records), self.nodes[number].state.epoch
                base = effect.base_offset
                self.handle(number, e.RecordsProposed("c", epoch, base, count, effect.records))
            elif isinstance(effect, Reply) and isinstance(effect.value, Registered):
                self.registered[effect.value.node] = effect.value.epoch

    def _begin(self, number: NodeId, effect: Effect) -> None:
        if isinstance(effect, do.Refuse) and effect.correlation == "c":
            # What it decided is not even proposed: it cannot go on from there.
            self.tell(number, Resigned())
        elif isinstance(effect, do.WriteSnapshot):
            self._write_snapshot(self.above[number], effect.end_offset)
        super()._begin(number, effect)

    def _write_snapshot(self, above: Above, end: Offset) -> None:
        if above.applied != end:
            raise Broken("SnapshotIsCommitted", (above.applied, end))
        if self.snapshots.setdefault(end, above.image) != above.image:
            raise Broken("SnapshotsAgree", end)

    def _tell(self, node: Node, effect: Effect) -> None:
        super()._tell(node, effect)
        above = self.above[node.id]
        match effect:
            case do.Committed(end):
                self._apply(node, above, end)
                if above.controller.state.active:
                    self.tell(node.id, RecordsCommitted(end))
            case do.Elected(_, end):
                if above.applied != end:
                    raise Broken("ElectedKnowsAll", (above.applied, end))
                self.activated += 1
                self.tell(node.id, BecameActive(above.image, end))
            case do.Deposed():
                self.tell(node.id, Resigned())

    def _apply(self, node: Node, above: Above, end: Offset) -> None:
        disk = node.disk
        if above.applied < disk.start <= end:
            above.image, above.applied = self.snapshots[disk.start], disk.start
        above.image = folded(above.image, disk.entries[above.applied : end])
        above.applied = max(above.applied, end)

    def check_images(self) -> None:
        """Every image is the replay of what is committed, as far as its node knows."""
        for number, above in self.above.items():
            if self.running(number):
                expected = folded(Image(), self.committed[: above.applied])
                if above.image != expected:
                    raise Broken("SameImage", (number, above.applied))


def storm(cluster: Controllers, seed: int, steps: int) -> None:
    """Let brokers register, topics come and go, and much go wrong."""
    chance = Random(seed)
    walk = Walk(cluster, chance)
    without_proposals = {name: weight for name, weight in STORM.items() if name != "propose"}
    for number in range(steps):
        for _ in range(3):
            cluster.command(a_command(cluster, chance, number))
        walk.steps(12, {**without_proposals, "complete": 14, "calm": 4})
        cluster.check_images()
        if number % 5 == 0:
            assert healed(cluster)


def a_command(cluster: Controllers, chance: Random, number: int) -> Command:
    """Draw something that a broker or an operator wants."""
    broker = chance.randint(1, 4)
    topic = f"t{chance.randint(1, 3)}"
    commands: list[Command] = [
        RegisterBroker(number, broker, f"i{number}"),
        Heartbeat(number, broker, cluster.registered.get(broker, 0)),
        CreateTopics(number, (NewTopic(topic, partitions=2, replication_factor=1),)),
        DeleteTopics(number, (topic,)),
        Unregister(number, broker),
    ]
    return chance.choices(commands, [4, 4, 3, 1, 1])[0]


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10**6), voters=st.sampled_from([1, 3, 5]))
def test_the_image_is_the_same_on_every_node_whatever_happens(seed: int, voters: int) -> None:
    cluster = Controllers(voters, 1, seed)
    assert healed(cluster)
    storm(cluster, seed, 40)
    assert healed(cluster)
    check(cluster)
    cluster.check_images()
    assert {above.applied for above in cluster.above.values()} == {len(cluster.committed)}
    (first, *others) = [above.image for above in cluster.above.values()]
    assert all(image == first for image in others)


def test_who_got_an_answer_finds_it_in_the_image() -> None:
    for seed in range(10):
        cluster = Controllers(3, 0, seed)
        assert healed(cluster)
        storm(cluster, seed, 40)
        assert healed(cluster)
        image = cluster.above[1].image
        floor = image.floor.broker_epoch
        for node, epoch in cluster.registered.items():
            known = image.brokers[node].epoch if node in image.brokers else floor
            assert known >= epoch


def test_a_snapshot_of_the_image_equals_the_replay_of_its_log() -> None:
    cluster = Controllers(3, 1, 5)
    assert healed(cluster)
    storm(cluster, 5, 60)
    assert healed(cluster)
    assert len(cluster.snapshots) > 3
    records = [record for _, record in cluster.committed]
    for end, image in cluster.snapshots.items():
        assert image == replay([each for each in records[:end] if each is not None])  # type: ignore[misc]


def test_such_storms_go_far() -> None:
    # The tests above would pass on controllers that never get anything done.
    cluster = Controllers(3, 1, 2)
    assert healed(cluster)
    storm(cluster, 2, 60)
    assert healed(cluster)
    assert cluster.activated > 3
    assert len(cluster.committed) > 60
    assert any(node.disk.start > 0 for node in cluster.nodes.values())


def test_an_image_that_misses_a_record_is_noticed() -> None:
    cluster = Controllers(3, 0, 3)
    assert healed(cluster)
    cluster.command(RegisterBroker(0, 1, "i"))
    assert healed(cluster)
    cluster.above[2].image = Image()
    with pytest.raises(Broken, match="SameImage"):
        cluster.check_images()
