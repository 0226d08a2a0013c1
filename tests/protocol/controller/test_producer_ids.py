"""Producer ids: blocks for brokers, no id in two of them, not even over a change of controller."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.controller import (
    AllocateProducerIds,
    AppendRecords,
    BecameActive,
    Controller,
    ControllerConfig,
    ControllerRules,
    ControllerState,
    Image,
    ProducerIdBlock,
    ProducerIdsRecord,
    RecordsCommitted,
    RegisterBroker,
    Reply,
    Resigned,
    apply,
    replay,
)
from protocol.errors import ErrorCode, InvariantViolation
from protocol.idempotence.ids import ProducerIdPool
from protocol.machine import Event
from tests.protocol.controller.conftest import Cluster

Make = Callable[..., Cluster]


def ask(cluster: Cluster, node: int) -> AllocateProducerIds:
    return AllocateProducerIds("ids", node, cluster.image.brokers[node].epoch)


def test_brokers_get_blocks_one_after_the_other(cluster: Make) -> None:
    some = cluster(2)
    assert some.do(ask(some, 1)) == ProducerIdBlock(0, 1_000)
    assert some.do(ask(some, 2)) == ProducerIdBlock(1_000, 1_000)
    assert some.do(ask(some, 1)) == ProducerIdBlock(2_000, 1_000)
    assert some.records[-1] == ProducerIdsRecord(1, 1, 3_000)
    assert some.image.next_producer_id == 3_000


def test_a_block_is_given_when_it_is_durable_and_not_before(cluster: Make) -> None:
    some = cluster(1)
    assert [type(each) for each in some.handle(ask(some, 1))] == [AppendRecords]
    assert some.commit() == (Reply("ids", ProducerIdBlock(0, 1_000)),)


def test_only_a_registered_broker_in_its_present_incarnation_gets_one(cluster: Make) -> None:
    some = cluster(1)
    stale = ask(some, 1)
    some.register(1)
    assert some.refused(stale) is ErrorCode.STALE_BROKER_EPOCH
    unknown = AllocateProducerIds("ids", 7, 1)
    assert some.refused(unknown) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_the_size_of_a_block_is_a_setting(cluster: Make) -> None:
    some = cluster(1, ControllerConfig(producer_id_block=7))
    assert some.do(ask(some, 1)) == ProducerIdBlock(0, 7)
    assert some.do(ask(some, 1)) == ProducerIdBlock(7, 7)


def test_the_ids_end_where_a_64_bit_number_does(cluster: Make) -> None:
    some = cluster(1)
    almost = attrs.evolve(some.image, next_producer_id=2**63 - 1_001)
    some.handle(BecameActive(almost, len(some.records)))
    assert some.do(ask(some, 1)) == ProducerIdBlock(2**63 - 1_001, 1_000)
    assert some.refused(ask(some, 1)) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_image_takes_no_id_back() -> None:
    image = apply(Image(), ProducerIdsRecord(1, 1, 2_000))
    assert apply(image, ProducerIdsRecord(2, 1, 1_000)) is image


def test_a_controller_that_would_give_a_block_twice_stops(cluster: Make) -> None:
    some = cluster(1)
    some.do(ask(some, 1))
    before = some.machine.state
    again = attrs.evolve(before, last_records=(ProducerIdsRecord(1, 1, 1_000),))
    with pytest.raises(InvariantViolation, match="ProducerIdsOnce"):
        some.machine.check(ask(some, 1), before, again)
    back = attrs.evolve(again, image=attrs.evolve(before.image, next_producer_id=999))
    with pytest.raises(InvariantViolation, match="ProducerIdsOnce"):
        some.machine.check(ask(some, 1), before, back)


class Reign:
    """Controllers that follow upon one another, over one log of which only a part is durable."""

    def __init__(self) -> None:
        self.durable: list[object] = []
        self.appended: list[object] = []
        self.told: list[ProducerIdBlock] = []
        self.machine = Controller(ControllerState(), ControllerRules())
        self.begin()
        self.handle(RegisterBroker("register", 1, "a"))
        self.commit(1)

    def begin(self) -> None:
        """Another controller becomes active; what was not durable is gone."""
        self.machine.handle(Resigned(), 0)
        self.machine = Controller(ControllerState(), ControllerRules())
        self.appended = list(self.durable)
        image = replay(self.durable)  # type: ignore[arg-type]
        self.machine.handle(BecameActive(image, len(self.durable)), 0)

    def handle(self, event: Event) -> None:
        for effect in self.machine.handle(event, 0):
            if isinstance(effect, AppendRecords):
                self.appended.extend(effect.records)
            elif isinstance(effect, Reply) and isinstance(effect.value, ProducerIdBlock):
                self.told.append(effect.value)

    def commit(self, count: int) -> None:
        self.durable = self.appended[: len(self.durable) + count]
        self.handle(RecordsCommitted(len(self.durable)))


@given(st.lists(st.sampled_from(["ask", "commit", "change"]), max_size=40))
def test_no_id_is_in_two_blocks_over_changes_of_controller(story: list[str]) -> None:
    reign = Reign()
    for step in story:
        if step == "ask":
            reign.handle(AllocateProducerIds("ids", 1, 1))
        elif step == "commit":
            reign.commit(1)
        else:
            reign.begin()
    ids = [each for block in reign.told for each in range(block.first, block.first + block.count)]
    assert len(ids) == len(set(ids))


def test_a_pool_asks_before_it_is_empty_and_gives_every_id_once() -> None:
    pool = ProducerIdPool()
    assert pool.wants_block
    assert pool.take() == (pool, None)
    pool = pool.asking()
    assert not pool.wants_block
    pool = pool.received(100, 20)
    given: list[int | None] = []
    for _ in range(18):
        pool, one = pool.take()
        given.append(one)
    assert pool.wants_block
    pool = pool.asking().received(500, 20)
    for _ in range(3):
        pool, one = pool.take()
        given.append(one)
    assert given == [*range(100, 120), 500]


def test_a_pool_leaves_alone_what_it_did_not_ask_for() -> None:
    pool = ProducerIdPool().asking().received(100, 10)
    assert pool.received(200, 10) is pool
    assert pool.asking().refused().asked is False
    assert pool.asking().received(200, 0).following == (100, 10)


@given(st.lists(st.sampled_from(["take", "answer", "lose", "again"]), max_size=60))
def test_a_pool_gives_no_id_twice_whatever_becomes_of_its_requests(story: list[str]) -> None:
    pool, given, next_block = ProducerIdPool(), [], 0
    for step in story:
        if step == "take":
            pool, one = pool.take()
            given += [one] if one is not None else []
        elif step == "answer" and pool.wants_block:
            pool, next_block = pool.asking().received(next_block, 10), next_block + 10
        elif step == "lose" and pool.wants_block:
            pool, next_block = pool.asking().refused(), next_block + 10
        elif step == "again":
            pool, next_block = pool.received(next_block, 10), next_block + 10
    assert len(given) == len(set(given))
