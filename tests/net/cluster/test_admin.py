"""Admin calls of confluent-kafka and kafka-python, and a topic with a thousand partitions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition

from tests.net.cluster.harness import PATIENCE_S, QUIET, LocalCluster, admin_api, until
from tests.net.cluster.strangers import LITTERS, Confluent, KafkaPython, Sent, kafka

pytestmark = LITTERS
NewTopic = Callable[..., str]
_CLIENT = Confluent()


def test_confluent_makes_grows_and_deletes_topics(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    admin, topic = cluster.admin, new_topic(2)
    again = admin_api.NewTopic(topic, 1, 1)
    with pytest.raises(KafkaException, match="EXISTS"):
        admin.create_topics([again])[topic].result(PATIENCE_S)
    with pytest.raises(KafkaException, match=r"(?i)replication"):
        admin.create_topics([admin_api.NewTopic("too-many", 1, 9)])["too-many"].result(PATIENCE_S)
    admin.create_partitions([admin_api.NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    until("five partitions", lambda: len(cluster.partitions_of(topic)) == 5)
    with pytest.raises(KafkaException, match=r"(?i)partition"):
        admin.create_partitions([admin_api.NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    assert _CLIENT.produce(cluster.bootstrap, topic, [Sent(b"new")], partition=4) == [0]
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    until("it is gone", lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics)


def test_confluent_reads_and_changes_settings(cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1234567")
    assert cluster.describe(topic)["retention.ms"] == "1234567"
    change = admin_api.ConfigEntry(
        "max.message.bytes", "2000", incremental_operation=admin_api.AlterConfigOpType.SET
    )
    resource = admin_api.ConfigResource(
        admin_api.ConfigResource.Type.TOPIC, topic, incremental_configs=[change]
    )
    cluster.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    until("it is changed", lambda: cluster.describe(topic)["max.message.bytes"] == "2000")
    assert cluster.describe(topic)["retention.ms"] == "1234567"

    def is_refused() -> bool:
        try:
            _CLIENT.produce(cluster.bootstrap, topic, [Sent(b"x" * 5_000)])
        except AssertionError:
            return True
        return False

    until("a record that is too large now is refused", is_refused)


def test_confluent_describes_the_cluster_and_its_topics(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    found = cluster.admin.describe_cluster().result(PATIENCE_S)
    assert found.cluster_id == cluster.plan.cluster_id
    assert {node.id for node in found.nodes} == set(cluster.brokers)
    names = confluent_kafka.TopicCollection([topic])
    described = cluster.admin.describe_topics(names)[topic].result(PATIENCE_S)
    assert [each.id for each in described.partitions] == [0, 1, 2]
    assert all(len(each.isr) == 3 for each in described.partitions)


def test_confluent_finds_and_deletes_records(cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    _CLIENT.produce(cluster.bootstrap, topic, [Sent(b"%d" % number) for number in range(10)])
    where = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        return int(cluster.admin.list_offsets({where: spec})[where].result(PATIENCE_S).offset)

    assert (offset(admin_api.OffsetSpec.earliest()), offset(admin_api.OffsetSpec.latest())) == (
        0,
        10,
    )
    wanted = TopicPartition(topic, 0, 6)
    deleted = cluster.admin.delete_records([wanted])[wanted].result(PATIENCE_S)
    assert deleted.low_watermark == 6
    assert (offset(admin_api.OffsetSpec.earliest()), offset(admin_api.OffsetSpec.latest())) == (
        6,
        10,
    )
    assert [each.offset for each in _CLIENT.consume(cluster.bootstrap, topic, 6, 4)] == [6, 7, 8, 9]


def test_confluent_gives_a_partition_back_to_its_preferred_leader(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    where = TopicPartition(topic, 0)
    result = cluster.admin.elect_leaders(ElectionType.PREFERRED, [where]).result(PATIENCE_S)
    # It leads already, and is told so.
    assert "ELECTION_NOT_NEEDED" in str(result[where].name())


@pytest.fixture
def python_admin(cluster: LocalCluster) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
        yield admin
        admin.close()


def test_kafka_python_makes_describes_grows_and_deletes_topics(
    cluster: LocalCluster, python_admin: Any
) -> None:
    name = "made-by-kafka-python"
    topic = kafka.admin.NewTopic(name, 2, 3, topic_configs={"cleanup.policy": "compact"})
    python_admin.create_topics([topic])
    until("it is there", lambda: len(cluster.partitions_of(name)) == 2)
    assert name in python_admin.list_topics()
    [described] = python_admin.describe_topics([name])
    assert len(described["partitions"]) == 2
    assert cluster.describe(name)["cleanup.policy"] == "compact"
    python_admin.create_partitions({name: kafka.admin.NewPartitions(4)})
    until("four partitions", lambda: len(cluster.partitions_of(name)) == 4)
    assert KafkaPython().produce(cluster.bootstrap, name, [Sent(b"v", b"k")], partition=3) == [0]
    python_admin.delete_topics([name])
    until("it is gone", lambda: name not in python_admin.list_topics())


@pytest.mark.slow
def test_a_thousand_partitions_are_written_and_read(cluster: LocalCluster) -> None:
    topic = cluster.create_topic("thousand", 1_000)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **QUIET}
    )
    told: dict[int, int] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None
        told[message.partition()] = message.offset()

    for number in range(3_000):
        partition = number % 1_000
        producer.produce(topic, b"%d" % number, partition=partition, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert told == dict.fromkeys(range(1_000), 2)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(1_000)])
    found: dict[int, list[bytes | None]] = {partition: [] for partition in range(1_000)}

    def has_read_all() -> bool:
        for message in consumer.consume(5_000, 1.0):
            assert message.error() is None
            found[int(message.partition() or 0)].append(message.value())
        return sum(map(len, found.values())) >= 3_000

    until("all of it is read", has_read_all)
    consumer.close()
    for partition, values in found.items():
        assert values == [b"%d" % (partition + 1_000 * at) for at in range(3)]
