"""A topic's settings, what they make of logs and machines, and how they are told and changed."""

import pytest

from net.settings import (
    BadSetting,
    Operation,
    Source,
    altered_broker,
    altered_topic,
    check_topic_settings,
    controller_config,
    describe_broker,
    describe_cluster_wide,
    describe_topic,
    flush_policy,
    log_config,
    protocol_config,
    quorum_config,
    replica_config,
    said_by,
    sequences_config,
    topic_settings,
    topic_table,
)
from net.settings.topic import broker_default
from storage.flusher import FLUSH_ALWAYS, FLUSH_NEVER
from storage.log.config import LogConfig
from tests.net.settings.nodes import node

HOUR_MS = 3_600_000


def test_a_topic_that_says_nothing_has_its_brokers_values() -> None:
    assert topic_settings({}, node()) == topic_settings({})
    settings = node(log_retention_hours="2", log_roll_ms="5", message_max_bytes="1000")
    topic = topic_settings({}, settings)
    assert (topic.retention_ms, topic.segment_ms) == (2 * HOUR_MS, 5)
    assert topic.max_message_bytes == 1000


def test_the_smaller_unit_goes_before_the_larger() -> None:
    settings = node(log_retention_hours="2", log_retention_minutes="3")
    assert topic_settings({}, settings).retention_ms == 180_000
    settings = node(log_retention_hours="2", log_retention_minutes="3", log_retention_ms="4")
    assert topic_settings({}, settings).retention_ms == 4


def test_for_ever_is_for_ever_in_any_unit() -> None:
    assert topic_settings({}, node(log_retention_hours="-1")).retention_ms == -1


def test_a_topics_own_value_goes_before_its_brokers() -> None:
    topic = topic_settings({"retention.ms": "7"}, node(log_retention_ms="4"))
    assert topic.retention_ms == 7


def test_every_broker_setting_that_a_topic_falls_back_on_exists() -> None:
    settings = node()
    for known in topic_table().values():
        assert broker_default(known, settings) == known.default, known.name


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"retention.msx": "1"}, "did you mean retention.ms?"),
        ({"retention.ms": "-2"}, "retention.ms=-2: out of range"),
        ({"cleanup.policy": "shred"}, "one of delete, compact"),
        ({"cleanup.policy": ""}, "nothing is named"),
        ({"segment.bytes": "1"}, "segment.bytes=1: out of range"),
        ({"compression.type": "zstd"}, "compression.type=zstd"),
        ({"flush.messages": "1"}, "flush.messages is no setting of a topic"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "above max.compaction"),
        ({"leader.replication.throttled.replicas": "0:1,x"}, "'x' is no replica"),
    ],
)
def test_a_bad_topic_setting_is_named(said: dict[str, str], told: str) -> None:
    with pytest.raises(BadSetting) as refused:
        check_topic_settings(said, node())
    assert told in str(refused.value)


def test_defaults_make_storages_own_defaults() -> None:
    assert log_config(topic_settings({}, node()), node()) == LogConfig()


def test_every_setting_reaches_the_log_or_the_machine() -> None:
    said = {
        "segment.bytes": "2048",
        "segment.ms": "1",
        "index.interval.bytes": "2",
        "segment.index.bytes": "160",
        "max.message.bytes": "300",
        "retention.bytes": "4",
        "retention.ms": "5",
        "cleanup.policy": "compact",
        "delete.retention.ms": "6",
        "min.compaction.lag.ms": "7",
        "max.compaction.lag.ms": "8",
        "min.cleanable.dirty.ratio": "0.25",
    }
    settings = node(producer_id_expiration_ms="9")
    assert log_config(topic_settings(said, settings), settings) == LogConfig(
        2048, 1, 2, 160, 300, 4, 5, False, True, 6, 7, 8, 0.25, 9
    )
    replica = replica_config(
        topic_settings({"min.insync.replicas": "2"}, settings),
        node(replica_lag_time_max_ms="4000", replica_fetch_max_bytes="77"),
    )
    assert (replica.min_isr, replica.replica_lag_max_ms, replica.fetch_max_bytes) == (2, 4000, 77)
    assert sequences_config(settings).expiry_ms == 9


def test_the_quorum_and_the_controller_follow_the_settings() -> None:
    settings = node(
        controller_quorum_fetch_timeout_ms="400",
        broker_session_timeout_ms="3000",
        min_insync_replicas="2",
        num_partitions="5",
    )
    quorum = quorum_config(settings, jitter_seed=3)
    # A parked fetch must be answered before its sender takes the leader for gone.
    assert quorum.fetch_wait_ms < quorum.fetch_timeout_ms == 400
    assert quorum.check_quorum_ms == 600
    assert quorum.jitter_seed == 3
    controller = controller_config(settings)
    assert (controller.session_timeout_ms, controller.default_min_isr) == (3000, 2)
    assert controller.default_partitions == 5


def test_logs_are_flushed_as_told() -> None:
    assert flush_policy(node()) == FLUSH_NEVER
    assert flush_policy(node(log_flush_interval_messages="1")) == FLUSH_ALWAYS
    assert flush_policy(node(log_flush_interval_ms="50")).every_ms == 50


def test_the_controller_keeps_what_a_topic_said_and_can_tell_it_from_a_default() -> None:
    config = protocol_config({"min.insync.replicas": "2"}, node())
    assert (config.min_isr, config.unclean_election) == (2, False)
    assert said_by(config) == {"min.insync.replicas": "2"}
    config = protocol_config({}, node(min_insync_replicas="3"))
    assert config.min_isr == 3
    assert said_by(config) == {}


def test_a_topics_value_is_told_with_everyone_who_has_set_it() -> None:
    settings = node(log_retention_hours="2").overlaid({"log.retention.ms": "30"}, {})
    (entry,) = describe_topic({"retention.ms": "9"}, settings, ["retention.ms", "unheard.of"])
    assert (entry.value, entry.source, entry.is_default) == ("9", Source.TOPIC, False)
    assert [(each.name, each.value, int(each.source)) for each in entry.synonyms] == [
        ("retention.ms", "9", 1),
        ("log.retention.ms", "30", 3),
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]
    message = entry.message(synonyms=True)
    assert message["config_type"] == 5
    assert message["synonyms"][0] == {"name": "retention.ms", "value": "9", "source": 1}
    (entry,) = describe_topic({}, settings, ["retention.ms"])
    assert (entry.value, entry.source) == ("30", Source.DYNAMIC_CLUSTER)
    (entry,) = describe_topic({}, node(), ["retention.ms"])
    assert (entry.value, entry.is_default) == (str(168 * HOUR_MS), True)


def test_a_brokers_settings_are_told_with_whether_they_can_be_changed() -> None:
    entries = {entry.name: entry for entry in describe_broker(node())}
    assert entries["node.id"].read_only
    assert entries["node.id"].source is Source.STATIC_BROKER
    assert not entries["log.retention.ms"].read_only
    assert entries["log.retention.ms"].value is None
    assert entries["num.partitions"].is_default
    (entry,) = describe_cluster_wide({"log.retention.ms": "3"})
    assert (entry.value, entry.source) == ("3", Source.DYNAMIC_CLUSTER)


def test_settings_are_set_deleted_appended_to_and_subtracted_from() -> None:
    said = altered_topic({"retention.ms": "1"}, [("cleanup.policy", Operation.APPEND, "compact")])
    assert said == {"retention.ms": "1", "cleanup.policy": "delete,compact"}
    said = altered_topic(said, [("cleanup.policy", 3, "delete"), ("retention.ms", 1, None)])
    assert said == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("retention.ms", 2, "1"), "is no list"),
        (("retention.ms", 0, None), "no value"),
        (("retention.ms", 9, "1"), "operation 9 is not known"),
        (("retention.ms", 0, "x"), "not a whole number"),
        (("cleanup.policy", 3, "delete"), "nothing is named"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(
    change: tuple[str, int, str | None], told: str
) -> None:
    with pytest.raises(BadSetting) as refused:
        altered_topic({}, [change])
    assert told in str(refused.value)


def test_a_setting_is_changed_once_in_a_request() -> None:
    with pytest.raises(BadSetting, match="changed twice"):
        altered_topic({}, [("retention.ms", 0, "1"), ("retention.ms", 0, "2")])


def test_a_brokers_dynamic_settings_are_changed_likewise() -> None:
    changes = [("hwmark.decommission", 0, "true")]
    assert altered_broker({}, changes, per_broker=True) == {"hwmark.decommission": "true"}
    with pytest.raises(BadSetting, match="one broker only"):
        altered_broker({}, changes, per_broker=False)
