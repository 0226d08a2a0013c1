"""Whatever brokers and operators do, in whatever order, the controller's promises hold.

Five brokers, three topics; brokers fail, restart, stop and go for good while partitions move. All
is looked at by scanning everything after each step, not by way of the controller's own indexes.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from immutables import Map

from protocol.controller import (
    EVERY_BROKER,
    AlterBrokerConfig,
    AlterPartition,
    AlterReassignment,
    AlterTopicConfig,
    AppendRecords,
    BecameActive,
    Command,
    Controller,
    ControllerConfig,
    ControllerRules,
    ControllerState,
    CreatePartitions,
    CreateTopics,
    Decommission,
    DeleteTopics,
    ElectionKind,
    ElectLeaders,
    Heartbeat,
    Image,
    LeaderlessDue,
    NewTopic,
    Partition,
    Record,
    RecordsCommitted,
    Refuse,
    RegisterBroker,
    Reply,
    Resigned,
    SessionExpired,
    UncleanDue,
    Unregister,
    Unset,
    replay,
)
from protocol.machine import Event
from protocol.types import NO_LEADER

BROKERS = range(1, 6)
TOPICS = ("t", "u", "v")

nodes = st.sampled_from(BROKERS)
names = st.sampled_from(TOPICS)
some_replicas = st.lists(nodes, min_size=1, max_size=4, unique=True).map(tuple)
unset: st.SearchStrategy[Unset | None] = st.sampled_from([None, Unset.DEFAULT])
one_in_four = st.integers(0, 3).map(lambda number: number == 0)


class RandomRuns(RuleBasedStateMachine):
    """A controller, its log, and its clients, who all expect one answer."""

    def __init__(self) -> None:
        super().__init__()
        config = ControllerConfig(max_items_per_command=3, default_replication_factor=2)
        self.machine = Controller(ControllerState(config=config), ControllerRules())
        self.records: list[Record] = []
        self.committed = 0
        self.sent = 0
        self.waiting: set[object] = set()
        self.now_ms = 0
        self.handle(BecameActive(Image(), 0))

    @property
    def image(self) -> Image:
        return self.machine.state.image

    def handle(self, event: Event) -> list[object]:
        """Hand over an event; return the values of the replies, checking what every step does."""
        before = self.machine.state
        effects = self.machine.handle(event, self.now_ms)
        values: list[object] = []
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert effect.base_offset == len(self.records)
                assert effect.records
                self.records.extend(effect.records)
            elif isinstance(effect, Refuse | Reply):
                self.waiting.remove(effect.correlation)
                values += [effect.value] if isinstance(effect, Reply) else []
                if isinstance(effect, Refuse) and not isinstance(event, Resigned | BecameActive):
                    assert self.machine.state is before
        after = self.machine.state
        if before.active and after.active:
            for key, old in before.image.partitions.items():
                if key in after.image.partitions:
                    moved_on(old, after.image.partitions[key])
        return values

    def send(self, command: Command) -> list[object]:
        self.waiting.add(command.correlation)
        return self.handle(command)

    def correlation(self) -> int:
        self.sent += 1
        return self.sent

    @initialize(min_isr=st.integers(1, 3), unclean=st.booleans(), crowd=st.integers(4, 5))
    def start(self, min_isr: int, unclean: bool, crowd: int) -> None:
        for node in BROKERS[:crowd]:
            self.send(RegisterBroker(self.correlation(), node, f"{node}/first"))
            self.send(Heartbeat(self.correlation(), node, 1))
        three = NewTopic("t", 2, 3, min_isr=min_isr, unclean_election=unclean)
        one = NewTopic("u", assignment=((1,), (2, 1)), unclean_election=unclean)
        self.send(CreateTopics(self.correlation(), (three, one)))

    @rule(down=st.lists(nodes, min_size=1, max_size=3, unique=True))
    def brokers_fall_silent(self, down: list[int]) -> None:
        """One after the other, while all others are heard of."""
        for node in down:
            self.now_ms += self.machine.state.config.session_timeout_ms
            for other in sorted(set(self.machine.state.heard_ms) - {node}):
                epoch = self.image.brokers[other].epoch
                self.send(Heartbeat(self.correlation(), other, epoch))
            self.handle(SessionExpired(node))

    @rule(back=st.sets(nodes, min_size=1))
    def brokers_are_heard_again(self, back: set[int]) -> None:
        for node in sorted(back.intersection(self.image.brokers)):
            epoch = self.image.brokers[node].epoch
            self.send(Heartbeat(self.correlation(), node, epoch))

    @rule()
    def everybody_who_can_joins(self) -> None:
        """Every leader takes in, one by one, the replicas that are alive."""
        for key in sorted(self.image.partitions):
            for node in self.image.partitions[key].replicas:
                known = self.image.partitions[key]
                able = known.leader != NO_LEADER and self.image.is_available(node)
                if able and node in known.replicas and node not in known.isr:
                    isr, joiner = known.isr | {node}, self.image.brokers[node].epoch
                    self.propose(known, known.leader, known.version, isr, joiner)
                    changed = self.image.partitions[key]
                    assert node in changed.isr
                    assert changed.isr == isr or known.reassigning

    def propose(
        self, known: Partition, node: int, version: int, isr: frozenset[int], joiner_epoch: int
    ) -> None:
        registered = self.image.brokers.get(node)
        self.send(
            AlterPartition(
                self.correlation(),
                node,
                registered.epoch if registered else 1,
                known.topic,
                known.index,
                known.leader_epoch,
                version,
                isr,
                joiner_epoch,
            )
        )

    @rule(ahead=one_in_four)
    def commit(self, ahead: bool) -> None:
        """Some of what was appended is durable, or all of it."""
        self.committed = (self.committed + len(self.records)) // 2 if ahead else len(self.records)
        self.handle(RecordsCommitted(self.committed))
        if not ahead:
            assert not self.waiting

    @rule(ms=st.sampled_from([1, 3_000, 9_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def what_is_due_happens(self) -> None:
        deadline_ms = self.machine.next_deadline()
        due = self.machine.due(self.now_ms)
        assert bool(due) == (deadline_ms is not None and deadline_ms <= self.now_ms)
        for event in due:
            self.handle(event)

    @rule(node=nodes, topic=names, index=st.integers(0, 2))
    def what_is_not_due_changes_only_what_it_may(self, node: int, topic: str, index: int) -> None:
        for event in (SessionExpired(node), LeaderlessDue(topic, index), UncleanDue(topic, index)):
            due = event in self.machine.due(self.now_ms)
            before = self.machine.state
            self.handle(event)
            assert due or self.machine.state is before

    @rule(node=nodes, clean=st.booleans(), knows=st.booleans())
    def register(self, node: int, clean: bool, knows: bool) -> None:
        known = self.image.brokers.get(node)
        epoch = known.epoch if known and knows else 0
        before = self.image
        command = RegisterBroker(
            self.correlation(), node, f"{node}/{self.sent}", epoch, clean, rack="ab"[node % 2]
        )
        self.send(command)
        if self.image is not before and not clean:
            assert not [each for each in self.image.partitions.values() if node in in_sync(each)]

    @rule(node=nodes, stale=one_in_four, stops=one_in_four, caught_up=st.booleans())
    def heartbeat(self, node: int, stale: bool, stops: bool, caught_up: bool) -> None:
        known = self.image.brokers.get(node)
        epoch = (known.epoch if known else 1) - stale
        self.send(Heartbeat(self.correlation(), node, epoch, stops, caught_up))

    @precondition(lambda self: self.image.partitions)
    @rule(data=st.data(), stale=one_in_four, sender=st.none() | nodes)
    def alter_partition(self, data: st.DataObject, stale: bool, sender: int | None) -> None:
        known = self.partition(data)
        isr = data.draw(st.sets(st.sampled_from(known.replicas)), label="isr")
        node = known.leader if sender is None else sender
        # A leader is always in the ISR that it proposes, and says what it knows.
        isr |= {node} if sender is None and node != NO_LEADER else set()
        brokers = self.image.brokers
        epochs = {brokers[each].epoch for each in isr - known.isr if each in brokers}
        joiner_epoch = min(epochs, default=0)
        self.propose(known, node, known.version - stale, frozenset(isr), joiner_epoch)

    @precondition(lambda self: self.image.partitions)
    @rule(data=st.data(), kind=st.sampled_from(ElectionKind), everywhere=one_in_four)
    def elect(self, data: st.DataObject, kind: ElectionKind, everywhere: bool) -> None:
        keys = None if everywhere else (self.partition(data).key,)
        self.send(ElectLeaders(self.correlation(), kind, keys))

    @rule(name=names, assignment=st.none() | st.lists(some_replicas, max_size=2).map(tuple))
    def create_topic(self, name: str, assignment: tuple[tuple[int, ...], ...] | None) -> None:
        new = NewTopic(name, assignment=assignment)
        self.send(CreateTopics(self.correlation(), (new,)))

    @rule(name=names)
    def delete_topic(self, name: str) -> None:
        self.send(DeleteTopics(self.correlation(), (name,)))

    @rule(name=names, count=st.integers(1, 4))
    def create_partitions(self, name: str, count: int) -> None:
        self.send(CreatePartitions(self.correlation(), name, count))

    @rule(name=names, min_isr=unset | st.integers(1, 3), unclean=unset | st.booleans())
    def alter_config(
        self, name: str, min_isr: int | Unset | None, unclean: bool | Unset | None
    ) -> None:
        self.send(AlterTopicConfig(self.correlation(), name, min_isr, unclean))

    @rule(node=nodes | st.just(EVERY_BROKER), value=st.none() | st.just("1"))
    def alter_broker_config(self, node: int, value: str | None) -> None:
        self.send(AlterBrokerConfig(self.correlation(), node, Map({"a": value})))

    @precondition(lambda self: self.image.partitions)
    @rule(data=st.data(), replicas=st.none() | some_replicas)
    def reassign(self, data: st.DataObject, replicas: tuple[int, ...] | None) -> None:
        known = self.partition(data)
        self.send(AlterReassignment(self.correlation(), known.topic, known.index, replicas))

    @rule(node=nodes, cancel=st.booleans())
    def decommission(self, node: int, cancel: bool) -> None:
        self.send(Decommission(self.correlation(), node, cancel))

    @rule(node=nodes)
    def unregister(self, node: int) -> None:
        self.send(Unregister(self.correlation(), node))

    @rule()
    def another_is_active_for_a_while(self) -> None:
        self.handle(Resigned())
        assert not self.waiting
        self.committed = len(self.records)
        self.handle(BecameActive(replay(self.records), len(self.records)))

    def partition(self, data: st.DataObject) -> Partition:
        key = data.draw(st.sampled_from(sorted(self.image.partitions)), label="partition")
        return self.image.partitions[key]

    @invariant()
    def the_image_is_that_of_the_records(self) -> None:
        assert replay(self.records) == self.image

    @invariant()
    def whoever_leads_is_in_sync_and_whoever_is_in_sync_is_alive(self) -> None:
        for each in self.image.partitions.values():
            assert each.leader == NO_LEADER or each.leader in each.isr
            assert not each.isr & each.elr
            assert in_sync(each) <= set(each.replicas)
            assert {node for node in each.isr if not self.image.brokers[node].fenced} == each.isr
            assert not each.elr or len(each.isr) < self.image.topics[each.topic].config.min_isr

    @invariant()
    def a_move_knows_where_it_comes_from_and_goes_to(self) -> None:
        for each in self.image.partitions.values():
            assert len(set(each.replicas)) == len(each.replicas)
            assert each.adding | each.removing <= set(each.replicas)
            assert not each.adding & each.removing
            assert set(each.replicas) <= set(self.image.brokers)

    @invariant()
    def the_index_is_what_a_scan_finds(self) -> None:
        found: dict[int, set[tuple[str, int]]] = {}
        for key, each in self.image.partitions.items():
            for node in each.replicas:
                found.setdefault(node, set()).add(key)
        assert {node: set(keys) for node, keys in self.image.assigned.items()} == found

    @invariant()
    def every_election_that_is_possible_is_due(self) -> None:
        alive = {
            node
            for node, broker in self.image.brokers.items()
            if not broker.fenced and not broker.shutting_down
        }
        found = {}
        for key, each in self.image.partitions.items():
            allowed = self.image.topics[each.topic].config.unclean_election
            if each.leader == NO_LEADER and in_sync(each) & alive:
                found[key] = False
            elif each.leader == NO_LEADER and allowed and alive.intersection(each.replicas):
                found[key] = True
        assert dict(self.machine.state.elections) == found

    @invariant()
    def exactly_those_have_a_session_who_are_not_fenced(self) -> None:
        alive = {node for node, broker in self.image.brokers.items() if not broker.fenced}
        assert set(self.machine.state.heard_ms) == alive


def in_sync(partition: Partition) -> frozenset[int]:
    """Who may be elected cleanly, if alive."""
    return partition.isr | partition.elr


def moved_on(old: Partition, new: Partition) -> None:
    """Every change is a new version, every other leader a new epoch, and neither goes back."""
    if new == old:
        return
    assert new.version == old.version + 1
    if new.leader != old.leader:
        assert new.leader_epoch == old.leader_epoch + 1
    else:
        assert new.leader_epoch == old.leader_epoch


TestRandomRuns = RandomRuns.TestCase
TestRandomRuns.settings = settings(deadline=None, max_examples=150, stateful_step_count=60)
