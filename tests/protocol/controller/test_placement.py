"""Replicas are placed evenly, on different racks, and the same way every time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protocol.controller import (
    BrokerRecord,
    Image,
    Partition,
    PartitionRecord,
    Registration,
    TopicConfig,
    TopicRecord,
    replay,
)
from protocol.controller.placement import Placer


def brokers(*racks: str) -> Image:
    """Brokers 1, 2, 3, ... on these racks."""
    return replay(
        BrokerRecord(Registration(node, 1, "x", fenced=False, rack=rack))
        for node, rack in enumerate(racks, 1)
    )


@given(st.integers(1, 6), st.data())
def test_nobody_has_two_more_than_another(count: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, count))
    partitions = data.draw(st.integers(1, 20))
    placer = Placer(brokers(*[""] * count))
    placed = [placer.place(factor) for _ in range(partitions)]
    assert all(len(set(replicas)) == factor for replicas in placed)
    replicas = Counter(node for each in placed for node in each)
    assert max(replicas.values()) - min(replicas[node] for node in range(1, count + 1)) <= 1


def test_everybody_leads_in_turn() -> None:
    placer = Placer(brokers("", "", "", ""))
    leaders = Counter(placer.place(2)[0] for _ in range(8))
    assert leaders == {1: 2, 2: 2, 3: 2, 4: 2}


def test_topics_of_one_partition_do_not_all_begin_with_the_same_broker() -> None:
    image = brokers("", "", "")
    leaders = []
    for name in ("a", "b", "c"):
        replicas = Placer(image).place(3)
        leaders.append(replicas[0])
        image = replay(
            [
                TopicRecord(name, "", TopicConfig()),
                PartitionRecord(Partition(name, 0, replicas, frozenset(replicas))),
            ],
            image,
        )
    assert sorted(leaders) == [1, 2, 3]


def test_a_broker_does_not_share_everything_with_the_same_others() -> None:
    # Else those alone would have to take over all that it leads.
    placer = Placer(brokers(*[""] * 6))
    assert len({frozenset(placer.place(3)) for _ in range(20)}) > 2


def test_replicas_are_on_different_racks_while_there_are_any() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    placer = Placer(brokers(*racks.values()))
    for factor in (2, 2, 2, 3, 3, 3):
        assert {racks[node] for node in placer.place(factor)} == {"a", "b"}
    assert sorted(placer.place(4)) == [1, 2, 3, 4]


def test_who_has_less_is_given_more() -> None:
    image = brokers("", "", "")
    record = PartitionRecord(Partition("t", 0, (1, 2), frozenset({1, 2})))
    image = replay([TopicRecord("t", "", TopicConfig()), record], image)
    assert Placer(image).place(1) == (3,)
    assert Placer(image).another([3]) in (1, 2)
