"""Settings of topics and brokers: set, removed, tried, and bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from immutables import Map

from protocol.controller import (
    EVERY_BROKER,
    AlterBrokerConfig,
    AlterTopicConfig,
    BecameActive,
    Command,
    ControllerConfig,
    CreatePartitions,
    CreateTopics,
    Decommission,
    NewTopic,
    TopicConfig,
    Unregister,
    Unset,
    replay,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster

DEFAULTS = ControllerConfig(
    default_min_isr=2,
    default_unclean_election=True,
    default_replication_factor=3,
    max_settings=3,
    max_settings_chars=20,
)


def test_every_setting_of_a_topic_can_be_given_its_default_again(
    cluster: Callable[..., Cluster],
) -> None:
    three: Cluster = cluster(3, DEFAULTS)
    three.do(CreateTopics("create", (NewTopic("t"),)))
    usual = TopicConfig(min_isr=2, unclean_election=True)
    assert three.image.topics["t"].config == usual
    own = AlterTopicConfig("set", "t", 3, unclean_election=False, other=Map({"a": "1"}))
    three.do(own)
    assert three.image.topics["t"].config == TopicConfig(3, False, Map({"a": "1"}))
    back = AlterTopicConfig("unset", "t", Unset.DEFAULT, Unset.DEFAULT, Map({"a": None}))
    assert three.do(back) == usual
    assert three.image.topics["t"].config == usual


def test_the_default_min_isr_is_never_more_than_a_topic_has_replicas(
    cluster: Callable[..., Cluster],
) -> None:
    three: Cluster = cluster(3, DEFAULTS)
    three.topic((1,))
    three.do(AlterTopicConfig("unset", "t", min_isr=Unset.DEFAULT))
    assert three.image.topics["t"].config.min_isr == 1


def test_a_default_min_isr_is_a_change_like_any_other(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3, DEFAULTS)
    three.topic((1, 2, 3), min_isr=3)
    proposal = three.proposal({1, 2})
    three.do(AlterTopicConfig("unset", "t", min_isr=Unset.DEFAULT))
    assert three.refused(proposal) == ErrorCode.INVALID_UPDATE_VERSION


def test_settings_of_brokers_are_kept_by_name_for_one_or_for_all(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    one = AlterBrokerConfig("one", 1, Map({"a": "1", "b": "2"}))
    assert two.do(one) == Map({"a": "1", "b": "2"})
    assert two.do(AlterBrokerConfig("all", EVERY_BROKER, Map({"a": "9"}))) == Map({"a": "9"})
    assert two.do(AlterBrokerConfig("one", 1, Map({"a": None, "c": None}))) == Map({"b": "2"})
    assert two.image.broker_configs == Map({1: Map({"b": "2"}), EVERY_BROKER: Map({"a": "9"})})
    assert replay(two.records) == two.image


def test_who_has_no_settings_left_leaves_nothing_behind(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    one.do(AlterBrokerConfig("set", 1, Map({"a": "1"})))
    one.do(AlterBrokerConfig("unset", 1, Map({"a": None})))
    assert not one.image.broker_configs


def test_what_changes_nothing_is_no_record(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    one.do(AlterBrokerConfig("set", 1, Map({"a": "1"})))
    before = one.machine.state
    one.do(AlterBrokerConfig("set", 1, Map({"a": "1", "b": None})))
    assert one.machine.state is before


def test_settings_outlive_their_broker_and_can_be_removed_then(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.do(AlterBrokerConfig("set", 2, Map({"a": "1"})))
    two.do(Decommission("go", 2))
    two.do(Unregister("gone", 2))
    assert two.image.broker_configs[2] == Map({"a": "1"})
    two.do(AlterBrokerConfig("unset", 2, Map({"a": None})))
    assert not two.image.broker_configs
    again = AlterBrokerConfig("set", 2, Map({"a": "1"}))
    assert two.refused(again) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_only_so_many_brokers_have_settings(cluster: Callable[..., Cluster]) -> None:
    few: Cluster = cluster(2, ControllerConfig(max_brokers=2))
    for node in (EVERY_BROKER, 1, 2):
        few.do(AlterBrokerConfig("set", node, Map({"a": "1"})))
    few.do(Decommission("go", 2))
    few.do(Unregister("gone", 2))
    few.register(3)
    third = AlterBrokerConfig("set", 3, Map({"a": "1"}))
    assert few.refused(third) == ErrorCode.POLICY_VIOLATION
    few.do(AlterBrokerConfig("unset", 2, Map({"a": None})))
    few.do(third)


MANY = dict.fromkeys("abcd", "1")
LONG = {"a": "x" * 20}


@pytest.mark.parametrize("settings", [MANY, LONG])
def test_settings_are_bounded(cluster: Callable[..., Cluster], settings: dict[str, str]) -> None:
    three: Cluster = cluster(3, DEFAULTS)
    three.topic((1, 2, 3))
    before = three.machine.state
    changes: Map[str, str | None] = Map(settings)
    new = NewTopic("u", other=Map(settings))
    assert three.errors(CreateTopics("create", (new,))) == [ErrorCode.INVALID_CONFIG]
    commands: list[Command] = [
        AlterTopicConfig("set", "t", other=changes),
        AlterBrokerConfig("set", 1, changes),
        AlterBrokerConfig("set", EVERY_BROKER, changes),
    ]
    assert {three.refused(each) for each in commands} == {ErrorCode.INVALID_CONFIG}
    assert three.machine.state is before


def test_what_is_too_much_by_now_can_still_be_removed(cluster: Callable[..., Cluster]) -> None:
    wide: Cluster = cluster(1)
    wide.do(AlterBrokerConfig("set", 1, Map({**MANY, "e": "1"})))
    # Another controller, with narrower bounds, takes over.
    narrow: Cluster = cluster(0, DEFAULTS)
    for record in wide.records:
        narrow.records.append(record)
    narrow.handle(BecameActive(replay(wide.records), len(wide.records)))
    assert narrow.do(AlterBrokerConfig("unset", 1, Map({"e": None}))) == Map(MANY)


@pytest.mark.parametrize(
    ("command", "value"),
    [
        (
            AlterTopicConfig("try", "t", 1, True, Map({"a": "1"}), validate_only=True),
            TopicConfig(1, True, Map({"a": "1"})),
        ),
        (AlterBrokerConfig("try", 1, Map({"a": "1"}), validate_only=True), Map({"a": "1"})),
        (CreatePartitions("try", "t", 2, ((2, 1),), validate_only=True), ((2, 1),)),
    ],
)
def test_a_change_can_be_tried(
    cluster: Callable[..., Cluster], command: Command, value: object
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2), min_isr=2)
    before = two.machine.state
    assert two.do(command) == value
    assert two.machine.state is before


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (
            AlterTopicConfig("try", "t", min_isr=9, validate_only=True),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            AlterBrokerConfig("try", 9, Map({"a": "1"}), validate_only=True),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        (CreatePartitions("try", "t", 1, validate_only=True), ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_what_is_tried_is_refused_as_if_it_were_meant(
    cluster: Callable[..., Cluster], command: Command, error: ErrorCode
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2), min_isr=2)
    assert two.refused(command) == error
