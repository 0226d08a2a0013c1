"""The admin client's questions say what they should, and errors come with Kafka's codes."""

from __future__ import annotations

import pytest

from net.client import Admin, ClientTimedOut, KafkaError
from net.client.admin import ConfigEntry, ConfigKind, LogDirReplica, QuorumReplica, Reassignment
from net.wire.apis import Api
from net.wire.library import Message
from tests.net.client.tiny_broker import TinyBroker, tiny_broker

pytestmark = pytest.mark.trio
_EXISTS, _NOT_CONTROLLER = 36, 41


def _asked(broker: TinyBroker, api: Api) -> Message:
    """Return the one question of an API."""
    (found,) = [message for kind, message in broker.asked if kind is api]
    return found


async def test_topics_are_created_grown_and_deleted() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        broker.answers[Api.CREATE_TOPICS] = {"topics": [{"name": "new"}]}
        await admin.create_topic("new", 3, 2, configs={"retention.ms": "5"})
        (topic,) = _asked(broker, Api.CREATE_TOPICS)["topics"]
        assert (topic["name"], topic["num_partitions"], topic["replication_factor"]) == (
            "new",
            3,
            2,
        )
        assert topic["configs"] == [{"name": "retention.ms", "value": "5"}]
        broker.answers[Api.CREATE_PARTITIONS] = {"results": [{"name": "new"}]}
        await admin.create_partitions("new", 6)
        assert _asked(broker, Api.CREATE_PARTITIONS)["topics"][0]["count"] == 6
        broker.answers[Api.DELETE_TOPICS] = {"responses": [{"name": "new"}]}
        await admin.delete_topic("new")
        assert _asked(broker, Api.DELETE_TOPICS)["topics"][0]["name"] == "new"


async def test_an_assignment_replaces_the_numbers() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        broker.answers[Api.CREATE_TOPICS] = {"topics": [{"name": "new"}]}
        await admin.create_topic("new", assignment={0: [1, 2], 1: [2, 3]})
        (topic,) = _asked(broker, Api.CREATE_TOPICS)["topics"]
        assert (topic["num_partitions"], topic["replication_factor"]) == (-1, -1)
        assert topic["assignments"][1] == {"partition_index": 1, "broker_ids": [2, 3]}


async def test_an_error_has_kafkas_code_and_the_brokers_words() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        error = {"name": "new", "error_code": _EXISTS, "error_message": "it is here"}
        broker.answers[Api.CREATE_TOPICS] = {"topics": [error]}
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS: it is here") as caught:
            await admin.create_topic("new")
        assert caught.value.code == _EXISTS


async def test_who_is_not_the_controller_is_asked_again_until_the_time_is_over() -> None:
    async with (
        tiny_broker() as broker,
        Admin(broker.bootstrap, request_timeout_ms=300, retry_backoff_ms=20) as admin,
    ):
        error = {"name": "new", "error_code": _NOT_CONTROLLER}
        broker.answers[Api.CREATE_TOPICS] = {"topics": [error]}
        with pytest.raises(ClientTimedOut, match="NOT_CONTROLLER"):
            await admin.create_topic("new")
        assert sum(api is Api.CREATE_TOPICS for api, _ in broker.asked) > 1


async def test_configurations() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        config = {"name": "retention.ms", "value": "5", "config_source": 1}
        broker.answers[Api.DESCRIBE_CONFIGS] = {"results": [{"configs": [config]}]}
        found = await admin.describe_configs(ConfigKind.TOPIC, "topic")
        assert found == {"retention.ms": ConfigEntry("retention.ms", "5", 1, False, False)}
        broker.answers[Api.INCREMENTAL_ALTER_CONFIGS] = {"responses": [{}]}
        await admin.alter_configs(ConfigKind.TOPIC, "topic", {"a": "1", "b": None})
        (resource,) = _asked(broker, Api.INCREMENTAL_ALTER_CONFIGS)["resources"]
        assert resource["configs"] == [
            {"name": "a", "config_operation": 0, "value": "1"},
            {"name": "b", "config_operation": 1, "value": None},
        ]


async def test_the_cluster_its_topics_and_offsets() -> None:
    async with tiny_broker(partitions=2) as broker, Admin(broker.bootstrap) as admin:
        node = {"broker_id": 5, "host": "there", "port": 9092, "rack": "r"}
        broker.answers[Api.DESCRIBE_CLUSTER] = {
            "cluster_id": "tiny",
            "controller_id": 5,
            "brokers": [node],
        }
        cluster = await admin.describe_cluster()
        assert (cluster.cluster_id, cluster.controller_id) == ("tiny", 5)
        assert (str(cluster.brokers[5].endpoint), cluster.brokers[5].rack) == ("there:9092", "r")
        topics = await admin.describe_topics()
        assert [each.leader for each in topics["topic"].partitions] == [5, 5]
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: other"):
            await admin.describe_topics(["other"])
        broker.logs[1].end_offset = 7
        found = await admin.list_offsets({("topic", 0): "earliest", ("topic", 1): "latest"})
        assert {place: each.offset for place, each in found.items()} == {
            ("topic", 0): 0,
            ("topic", 1): 7,
        }


async def test_records_are_deleted_at_the_leader() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        partition = {"partition_index": 0, "low_watermark": 4}
        broker.answers[Api.DELETE_RECORDS] = {
            "topics": [{"name": "topic", "partitions": [partition]}]
        }
        assert await admin.delete_records("topic", 0, 4) == 4
        (topic,) = _asked(broker, Api.DELETE_RECORDS)["topics"]
        assert topic["partitions"] == [{"partition_index": 0, "offset": 4}]


async def test_elections_and_reassignments() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        results = [
            {"partition_id": 0, "error_code": 84},
            {"partition_id": 1, "error_code": 80, "error_message": "no"},
        ]
        broker.answers[Api.ELECT_LEADERS] = {
            "replica_election_results": [{"topic": "topic", "partition_result": results}]
        }
        elected = await admin.elect_leaders([("topic", 0), ("topic", 1)])
        assert elected["topic", 0] is None
        failed = elected["topic", 1]
        assert failed is not None
        assert failed.name == "PREFERRED_LEADER_NOT_AVAILABLE"
        broker.answers[Api.ALTER_PARTITION_REASSIGNMENTS] = {"responses": []}
        await admin.reassign({("topic", 0): [1, 2], ("topic", 1): None})
        (topic,) = _asked(broker, Api.ALTER_PARTITION_REASSIGNMENTS)["topics"]
        assert [each["replicas"] for each in topic["partitions"]] == [[1, 2], None]
        moving = {
            "partition_index": 0,
            "replicas": [1, 2, 3],
            "adding_replicas": [1],
            "removing_replicas": [3],
        }
        broker.answers[Api.LIST_PARTITION_REASSIGNMENTS] = {
            "topics": [{"name": "topic", "partitions": [moving]}]
        }
        found = await admin.list_reassignments()
        assert found == (Reassignment("topic", 0, (1, 2, 3), (1,), (3,)),)
        broker.answers[Api.ALTER_PARTITION_REASSIGNMENTS] = {
            "responses": [
                {"name": "topic", "partitions": [{"partition_index": 1, "error_code": 85}]}
            ]
        }
        with pytest.raises(KafkaError, match="NO_REASSIGNMENT_IN_PROGRESS: topic-1"):
            await admin.reassign({("topic", 1): None})


async def test_the_quorum_brokers_that_are_gone_and_folders() -> None:
    async with tiny_broker() as broker, Admin(broker.bootstrap) as admin:
        voter = {"replica_id": 1, "log_end_offset": 9, "last_fetch_timestamp": 3}
        quorum = {
            "partition_index": 0,
            "leader_id": 1,
            "leader_epoch": 2,
            "high_watermark": 8,
            "current_voters": [voter],
            "observers": [],
        }
        broker.answers[Api.DESCRIBE_QUORUM] = {
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [quorum]}]
        }
        found = await admin.describe_quorum()
        assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 2, 8)
        assert found.voters == (QuorumReplica(1, 9, 3, -1),)
        broker.answers[Api.UNREGISTER_BROKER] = {}
        await admin.unregister_broker(3)
        assert _asked(broker, Api.UNREGISTER_BROKER)["broker_id"] == 3
        replica = {"partition_index": 0, "partition_size": 100, "offset_lag": 2}
        folder = {
            "log_dir": "data",
            "topics": [{"name": "topic", "partitions": [replica]}],
            "total_bytes": 1000,
            "usable_bytes": 500,
        }
        broker.answers[Api.DESCRIBE_LOG_DIRS] = {"results": [folder]}
        (one,) = await admin.describe_log_dirs(5)
        assert (one.path, one.total_bytes, one.usable_bytes) == ("data", 1000, 500)
        assert one.replicas == (LogDirReplica("topic", 0, 100, 2, False),)


async def test_a_broker_that_nobody_knows_is_looked_for_until_the_time_is_over() -> None:
    async with (
        tiny_broker() as broker,
        Admin(broker.bootstrap, request_timeout_ms=200) as admin,
    ):
        with pytest.raises(ClientTimedOut, match="broker 77 is not known"):
            await admin.describe_log_dirs(77)
