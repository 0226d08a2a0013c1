"""The image follows from the records alone, also from records that make no sense."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from protocol.controller import (
    BrokerConfigRecord,
    BrokerRecord,
    ConfigRecord,
    Image,
    Partition,
    PartitionRecord,
    Record,
    Registration,
    RemoveTopicRecord,
    Topic,
    TopicConfig,
    TopicRecord,
    UnregisterBrokerRecord,
    apply,
    replay,
)

TOPIC = TopicRecord("t", "id", TopicConfig())
NAMES = st.sampled_from(["t", "u"])
NODES = st.integers(1, 4)


def partition(index: int, *replicas: int, topic: str = "t", version: int = 1) -> PartitionRecord:
    return PartitionRecord(
        Partition(topic, index, replicas, frozenset(replicas), version=version, leader=replicas[0])
    )


@st.composite
def partitions(draw: st.DrawFn) -> Record:
    replicas = draw(st.lists(NODES, min_size=1, unique=True))
    version = draw(st.integers(1, 5))
    return partition(draw(st.integers(-1, 2)), *replicas, topic=draw(NAMES), version=version)


RECORDS: st.SearchStrategy[Record] = st.one_of(
    # The most of them, since a partition has to be there to be changed.
    *[partitions()] * 5,
    st.builds(TopicRecord, NAMES, st.just(""), st.just(TopicConfig())),
    st.builds(ConfigRecord, NAMES, st.builds(TopicConfig, min_isr=st.integers(1, 3))),
    st.builds(RemoveTopicRecord, NAMES),
    st.builds(
        BrokerRecord, st.builds(Registration, NODES, st.integers(1, 5), st.just("x"), st.booleans())
    ),
    st.builds(UnregisterBrokerRecord, NODES),
    st.builds(BrokerConfigRecord, NODES, st.sampled_from([Map(), Map(a="1")])),
)


def scan(image: Image) -> dict[int, set[tuple[str, int]]]:
    """What the index should be, found without it."""
    found: dict[int, set[tuple[str, int]]] = {}
    for key, each in image.partitions.items():
        for node in each.replicas:
            found.setdefault(node, set()).add(key)
    return found


@given(st.lists(RECORDS, max_size=40))
def test_any_records_lead_to_an_image_whose_parts_agree(records: list[Record]) -> None:
    image = replay([TOPIC, *records])
    assert {node: set(keys) for node, keys in image.assigned.items()} == scan(image)
    keys = {
        (topic.name, index) for topic in image.topics.values() for index in range(topic.partitions)
    }
    assert keys == set(image.partitions)
    assert all(image.broker_configs.values())
    assert all(key == each.key for key, each in image.partitions.items())


@given(st.lists(RECORDS, max_size=20), st.integers(0, 20))
def test_an_image_and_the_rest_of_the_records_are_as_good_as_all_of_them(
    records: list[Record], cut: int
) -> None:
    assert replay(records[cut:], replay(records[:cut])) == replay(records)


def test_a_topic_counts_its_partitions() -> None:
    image = replay([TOPIC, partition(0, 1, 2), partition(1, 2, 3), partition(0, 3, version=2)])
    assert image.topics["t"] == Topic("t", "id", TopicConfig(), partitions=2)
    assert [each.key for each in image.assigned_to(3)] == [("t", 0), ("t", 1)]
    assert [each.key for each in image.assigned_to(2)] == [("t", 1)]
    assert image.assigned_to(1) == []


def test_a_record_that_makes_no_sense_changes_nothing() -> None:
    image = replay([TOPIC, partition(0, 1)])
    for record in (
        partition(2, 1),
        partition(-1, 1),
        partition(0, 1, topic="u"),
        ConfigRecord("u", TopicConfig()),
        RemoveTopicRecord("u"),
        UnregisterBrokerRecord(1),
        TOPIC,
    ):
        assert apply(image, record) is image


def test_what_is_removed_leaves_its_largest_numbers() -> None:
    image = replay(
        [
            BrokerRecord(Registration(1, 5, "x")),
            BrokerRecord(Registration(2, 3, "y")),
            UnregisterBrokerRecord(1),
            UnregisterBrokerRecord(2),
            TOPIC,
            partition(0, 1, version=4),
            partition(1, 1, version=9),
            partition(2, 1, version=2),
            RemoveTopicRecord("t"),
            TOPIC,
            partition(0, 1),
            RemoveTopicRecord("t"),
        ]
    )
    assert image.floor.broker_epoch == 5
    assert image.floor.version == 9
    assert image.floor.leader_epoch == 1
    assert not image.brokers
    assert not image.topics
    assert not image.partitions
    assert not image.assigned
