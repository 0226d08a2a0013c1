"""Topics are created, grown, configured and deleted, or left exactly as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest
from immutables import Map

from protocol.controller import (
    AlterReassignment,
    AlterTopicConfig,
    ControllerConfig,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicConfig,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster


def create(*topics: NewTopic) -> CreateTopics:
    return CreateTopics("create", topics)


def test_a_new_partition_is_led_by_its_first_replica_that_is_alive(
    cluster: Callable[..., Cluster],
) -> None:
    three: Cluster = cluster(3)
    three.fence(1)
    partition = three.topic((1, 3, 2))
    assert partition.leader == 3
    assert partition.isr == {2, 3}
    assert (partition.leader_epoch, partition.version) == (1, 1)


def test_replicas_are_placed_where_nobody_says(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    (result,) = three.results(create(NewTopic("t", partitions=3, replication_factor=2)))
    assignment = tuple(three.partition(index=index).replicas for index in range(3))
    assert result.value == assignment
    assert sorted(node for replicas in assignment for node in replicas) == [1, 1, 2, 2, 3, 3]
    assert sorted(replicas[0] for replicas in assignment) == [1, 2, 3]


def test_what_is_not_said_is_the_default(cluster: Callable[..., Cluster]) -> None:
    config = ControllerConfig(default_partitions=2, default_replication_factor=3, default_min_isr=2)
    three: Cluster = cluster(3, config)
    assert three.errors(create(NewTopic("t"), NewTopic("u", replication_factor=1))) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert three.image.topics["t"].partitions == 2
    assert len(three.partition().replicas) == 3
    assert three.image.topics["t"].config.min_isr == 2
    # The default is no reason to refuse a topic that has fewer replicas.
    assert three.image.topics["u"].config.min_isr == 1


def test_each_topic_is_created_or_refused_on_its_own(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    command = create(NewTopic("t"), NewTopic("t"), NewTopic("not/one"), NewTopic("u"))
    assert one.errors(command) == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert sorted(one.image.topics) == ["t", "u"]


REFUSED = [
    (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("line\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
    (NewTopic("u", partitions=0), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("u", partitions=-2), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("u", partitions=9), ErrorCode.POLICY_VIOLATION),
    (NewTopic("u", partitions=20), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("u", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("u", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("u", assignment=()), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("u", assignment=((),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("u", assignment=((1, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("u", assignment=((1, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("u", assignment=((3,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("u", partitions=1, assignment=((1,),)), ErrorCode.INVALID_REQUEST),
    (NewTopic("u", replication_factor=1, assignment=((1,),)), ErrorCode.INVALID_REQUEST),
    (NewTopic("u", min_isr=0), ErrorCode.INVALID_CONFIG),
    (NewTopic("u", min_isr=2), ErrorCode.INVALID_CONFIG),
    (NewTopic("u", assignment=((1, 2), (1,)), min_isr=2), ErrorCode.INVALID_CONFIG),
]


@pytest.mark.parametrize(("new", "error"), REFUSED)
def test_a_topic_that_cannot_be_is_refused(
    cluster: Callable[..., Cluster], new: NewTopic, error: ErrorCode
) -> None:
    config = ControllerConfig(max_new_partitions_per_command=8, max_partitions=12)
    three: Cluster = cluster(3, config)
    three.fence(3)
    three.topic((1,), name="taken")
    before = three.machine.state
    assert three.errors(create(new)) == [error]
    assert three.machine.state is before


def test_a_topic_can_be_tried_without_being_created(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    before = one.machine.state
    command = attrs.evolve(create(NewTopic("t"), NewTopic("t")), validate_only=True)
    assert one.errors(command) == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert one.machine.state is before


def test_a_command_names_only_so_many_topics(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1, ControllerConfig(max_items_per_command=1))
    assert one.refused(create(NewTopic("t"), NewTopic("u"))) == ErrorCode.INVALID_REQUEST
    assert one.refused(DeleteTopics("delete", ("t", "u"))) == ErrorCode.INVALID_REQUEST


def test_a_topic_grows(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2))
    old = three.partition()
    assignment = three.do(CreatePartitions("grow", "t", 3))
    assert three.image.topics["t"].partitions == 3
    assert three.partition() == old
    assert assignment == (three.partition(index=1).replicas, three.partition(index=2).replicas)
    assert [len(three.partition(index=index).replicas) for index in range(3)] == [2, 2, 2]
    three.do(CreatePartitions("grow", "t", 4, assignment=((3, 1),)))
    assert three.partition(index=3).replicas == (3, 1)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (CreatePartitions("grow", "u", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CreatePartitions("grow", "t", 2), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitions("grow", "t", 1), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitions("grow", "t", 20_000), ErrorCode.POLICY_VIOLATION),
        (CreatePartitions("grow", "t", 3, ((1, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatePartitions("grow", "t", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatePartitions("grow", "t", 4, ((1, 2),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_that_cannot_grow_so_is_refused(
    cluster: Callable[..., Cluster], command: CreatePartitions, error: ErrorCode
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2), (2, 1), min_isr=2)
    assert two.refused(command) == error


def test_a_topic_does_not_grow_onto_brokers_that_are_not_there(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.fence(2)
    assert two.refused(CreatePartitions("grow", "t", 2)) == ErrorCode.INVALID_REPLICATION_FACTOR
    manual = CreatePartitions("grow", "t", 2, ((2,),))
    assert two.refused(manual) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_does_not_grow_while_it_moves(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1,))
    two.do(AlterReassignment("move", "t", 0, (2,)))
    assert two.refused(CreatePartitions("grow", "t", 2)) == ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_a_deleted_topic_leaves_nothing_behind(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2), (2, 1))
    two.topic((1,), name="u")
    errors = two.errors(DeleteTopics("delete", ("t", "t")))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert list(two.image.partitions) == [("u", 0)]
    assert list(two.image.assigned) == [1]


def test_a_topic_of_a_deleted_ones_name_starts_above_all_that_was(
    cluster: Callable[..., Cluster],
) -> None:
    # So nobody takes a message about the old one for one about the new one.
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.do(two.proposal({1}))
    stale = two.proposal({1, 2}, joiner_epoch=1)
    last = two.partition()
    two.do(DeleteTopics("delete", ("t",)))
    again = two.topic((1, 2))
    assert again.leader_epoch > last.leader_epoch
    assert again.version > last.version
    assert two.refused(stale) == ErrorCode.FENCED_LEADER_EPOCH


def test_settings_change_one_by_one(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    one.topic((1,))
    first = AlterTopicConfig("config", "t", other=Map({"a": "1", "b": "2"}))
    assert one.do(first) == TopicConfig(other=Map({"a": "1", "b": "2"}))
    second = AlterTopicConfig(
        "config", "t", unclean_election=True, other=Map({"a": None, "c": None})
    )
    assert one.do(second) == TopicConfig(unclean_election=True, other=Map({"b": "2"}))
    assert one.image.topics["t"].config == TopicConfig(unclean_election=True, other=Map({"b": "2"}))
    before = one.image
    one.do(AlterTopicConfig("config", "t", unclean_election=True))
    assert one.image is before


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (AlterTopicConfig("config", "u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (AlterTopicConfig("config", "t", min_isr=0), ErrorCode.INVALID_CONFIG),
        (AlterTopicConfig("config", "t", min_isr=3), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(
    cluster: Callable[..., Cluster], command: AlterTopicConfig, error: ErrorCode
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    assert two.refused(command) == error


def test_a_min_isr_is_one_that_every_partition_can_reach(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2), (1,))
    command = AlterTopicConfig("config", "t", min_isr=2)
    assert two.refused(command) == ErrorCode.INVALID_CONFIG


def test_a_smaller_min_isr_takes_eligibility_away(cluster: Callable[..., Cluster]) -> None:
    # From then on the ISR commits without the others, who soon lack something.
    two: Cluster = cluster(2)
    two.topic((1, 2), min_isr=2)
    two.do(two.proposal({1}))
    assert two.partition().elr == {2}
    two.do(AlterTopicConfig("config", "t", min_isr=1))
    assert two.partition().elr == frozenset()


def test_a_proposal_made_under_another_min_isr_is_not_current(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2), min_isr=1)
    proposal = two.proposal({1})
    two.do(AlterTopicConfig("config", "t", min_isr=2))
    assert two.refused(proposal) == ErrorCode.INVALID_UPDATE_VERSION
