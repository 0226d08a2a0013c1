"""Producer and consumer against brokers that strangers wrote: librdkafka's in-memory cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
import trio

from net.client import (
    Admin,
    ClientError,
    Consumer,
    ConsumerRecord,
    DeliveryFailed,
    KafkaError,
    Producer,
    RoundRobinPartitioner,
    UnsupportedApi,
)
from net.client.murmur2 import partition_of
from net.client.producer import Compression
from net.errors import BadSetting
from tests.net.client.mock_cluster import MockCluster, mock_cluster

pytestmark = pytest.mark.trio
PATIENCE_S = 30
_NOT_LEADER, _TIMED_OUT, _TOO_LARGE, _NOT_ENOUGH_AFTER = 6, 7, 10, 20
_PRODUCE, _FETCH, _METADATA, _LIST_OFFSETS = 0, 1, 3, 2


@pytest.fixture(scope="module")
def brokers() -> Iterator[MockCluster]:
    with mock_cluster(3) as found:
        yield found


@pytest.fixture
def cluster(brokers: MockCluster) -> Iterator[MockCluster]:
    """Give a cluster whose one topic is new."""
    brokers.create_topic("topic", 4, 3)
    yield brokers
    brokers.delete_topic("topic")
    brokers.set_up(1)


async def _read(cluster: MockCluster, count: int, partitions: int = 4) -> list[ConsumerRecord]:
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("topic", index) for index in range(partitions)])
        found: list[ConsumerRecord] = []
        with trio.fail_after(PATIENCE_S):
            while len(found) < count:
                found += await consumer.poll()
        found += await consumer.poll(timeout_ms=0)
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_written_is_read_in_order_with_every_codec(
    cluster: MockCluster, compression: Compression
) -> None:
    async with Producer(cluster.bootstrap, compression=compression, linger_ms=5) as producer:
        sent = {}
        for n in range(300):
            delivery = await producer.send(
                "topic",
                b"value %d" % n * 10,
                key=b"%d" % (n % 7),
                headers=[(b"n", b"%d" % n), (b"none", None)],
            )
            sent[n] = delivery
        where = {n: await delivery for n, delivery in sent.items()}
    found = await _read(cluster, 300)
    by_place = {(each.partition, each.offset): each for each in found}
    assert len(found) == 300
    for n, each in where.items():
        record = by_place[each.partition, each.offset]
        assert record.value == b"value %d" % n * 10
        assert record.key == b"%d" % (n % 7)
        assert record.headers == (("n", b"%d" % n), ("none", None))
        assert each.partition == partition_of(b"%d" % (n % 7), 4)
    for index in range(4):
        offsets = [each.offset for each in found if each.partition == index]
        assert offsets == list(range(len(offsets)))


async def test_another_client_reads_what_we_wrote_and_we_read_what_it_wrote(
    cluster: MockCluster,
) -> None:
    async with Producer(cluster.bootstrap, compression="zstd") as producer:
        await producer.send("topic", b"ours", key=b"key", partition=1)
    theirs = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    theirs.produce("topic", b"theirs", partition=1, headers=[("name", b"x")])
    assert await trio.to_thread.run_sync(theirs.flush, PATIENCE_S) == 0
    found = await _read(cluster, 2)
    assert [each.value for each in found] == [b"ours", b"theirs"]
    reader = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    reader.assign([confluent_kafka.TopicPartition("topic", 1, 0)])
    got = [await trio.to_thread.run_sync(reader.poll, PATIENCE_S) for _ in range(2)]
    await trio.to_thread.run_sync(reader.close)
    assert [(each.value(), each.key()) for each in got if each is not None] == [
        (b"ours", b"key"),
        (b"theirs", None),
    ]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_errors_of_a_moment_are_retried_and_the_order_is_kept(
    cluster: MockCluster, idempotent: bool
) -> None:
    cluster.push_errors(_PRODUCE, [_NOT_LEADER, _TIMED_OUT, _NOT_ENOUGH_AFTER])
    async with Producer(
        cluster.bootstrap,
        enable_idempotence=idempotent,
        # These brokers do not look at sequences, so they would let a batch overtake another.
        max_in_flight=1,
        batch_bytes=200,
        retry_backoff_ms=10,
    ) as producer:
        sent = [await producer.send("topic", b"%d" % n, partition=0) for n in range(100)]
        offsets = [(await delivery).offset for delivery in sent]
    assert offsets == list(range(100))
    assert [each.value for each in await _read(cluster, 100)] == [b"%d" % n for n in range(100)]


async def test_a_final_error_fails_the_delivery_and_names_it(cluster: MockCluster) -> None:
    cluster.push_errors(_PRODUCE, [_TOO_LARGE])
    async with Producer(cluster.bootstrap) as producer:
        delivery = await producer.send("topic", b"x", partition=0)
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE") as caught:
            await delivery
        assert (caught.value.code, caught.value.unknown) == (_TOO_LARGE, False)
        assert (await (await producer.send("topic", b"y", partition=0))).offset == 0


async def test_a_new_leader_is_found_by_producer_and_consumer(cluster: MockCluster) -> None:
    async with (
        Producer(cluster.bootstrap, retry_backoff_ms=20) as producer,
        Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([("topic", 0)])
        values: list[bytes | None] = []
        with trio.fail_after(PATIENCE_S):
            for turn, broker in enumerate((1, 2, 3, 1)):
                cluster.set_leader("topic", 0, broker)
                await (await producer.send("topic", b"%d" % turn, partition=0))
                while len(values) <= turn:
                    values += [each.value for each in await consumer.poll()]
        assert values == [b"0", b"1", b"2", b"3"]


async def test_a_broker_that_is_down_is_survived(cluster: MockCluster) -> None:
    cluster.set_leader("topic", 0, 1)
    async with Producer(cluster.bootstrap, retry_backoff_ms=20) as producer:
        await (await producer.send("topic", b"before", partition=0))
        cluster.set_down(1)
        delivery = await producer.send("topic", b"during", partition=0)
        # The lost connection makes the client ask who leads now; it is still the one that is down.
        await producer.cluster.change(1000 * PATIENCE_S)
        assert not delivery.done
        cluster.set_leader("topic", 0, 2)
        with trio.fail_after(PATIENCE_S):
            await delivery
        cluster.set_up(1)
    assert [each.value for each in await _read(cluster, 2)][-1] == b"during"


async def test_a_delivery_ends_when_its_time_is_over(cluster: MockCluster) -> None:
    cluster.set_leader("topic", 0, -1)
    async with Producer(cluster.bootstrap, delivery_timeout_ms=300) as producer:
        delivery = await producer.send("topic", b"x", partition=0)
        with trio.fail_after(PATIENCE_S), pytest.raises(DeliveryFailed) as caught:
            await delivery
        assert (caught.value.code, caught.value.unknown) == (_TIMED_OUT, False)


@pytest.mark.parametrize("acks", [1, 0])
async def test_fewer_acks_need_no_idempotence(cluster: MockCluster, acks: int) -> None:
    async with Producer(
        cluster.bootstrap,
        acks=acks,  # type: ignore[arg-type]
        enable_idempotence=False,
        partitioner=RoundRobinPartitioner(),
    ) as producer:
        sent = [await producer.send("topic", b"%d" % n) for n in range(40)]
        offsets = [(await delivery).offset for delivery in sent]
    assert (set(offsets) == {-1}) == (acks == 0)
    found = await _read(cluster, 40)
    assert [sum(each.partition == index for each in found) for index in range(4)] == [10] * 4


async def test_seek_pause_resume_and_position(cluster: MockCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for n in range(20):
            await producer.send("topic", b"%d" % n, partition=n % 2)
    async with Consumer(cluster.bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([("topic", 0), ("topic", 1)])
        assert await consumer.position("topic", 0) == 10
        assert await consumer.poll(timeout_ms=50) == []
        consumer.seek("topic", 0, 7)
        consumer.seek_to_beginning(("topic", 1))
        consumer.pause(("topic", 1))
        assert [each.offset for each in await consumer.poll()] == [7, 8, 9]
        assert await consumer.poll(timeout_ms=50) == []
        consumer.resume(("topic", 1))
        found: list[ConsumerRecord] = []
        with trio.fail_after(PATIENCE_S):
            while len(found) < 10:
                found += await consumer.poll(max_records=3)
                assert len(found) <= 3 or len(found) % 3 == 0 or len(found) == 10
        assert [each.offset for each in found] == list(range(10))
        assert await consumer.position("topic", 1) == 10


async def test_an_offset_beyond_the_end_is_reset_or_told(cluster: MockCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await (await producer.send("topic", b"x", partition=0))
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("topic", 0)])
        consumer.seek("topic", 0, 99)
        with trio.fail_after(PATIENCE_S):
            assert [each.offset for each in await consumer.poll(timeout_ms=20_000)] == [0]
    async with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([("topic", 0)])
        consumer.seek("topic", 0, 99)
        with trio.fail_after(PATIENCE_S), pytest.raises(Exception, match="no offset 99"):
            await consumer.poll(timeout_ms=20_000)


async def test_a_replica_that_the_leader_names_is_read_from(cluster: MockCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await (await producer.send("topic", b"x", partition=0))
    cluster.set_leader("topic", 0, 1)
    cluster.set_follower("topic", 0, 2)
    async with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", client_rack="rack"
    ) as consumer:
        consumer.assign([("topic", 0)])
        with trio.fail_after(PATIENCE_S):
            assert [each.value for each in await consumer.poll(timeout_ms=20_000)] == [b"x"]
        assert consumer._positions["topic", 0].preferred == 2


async def test_an_unknown_topic_and_an_unknown_partition_are_errors(cluster: MockCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: topic-99"):
            await producer.send("topic", b"x", partition=99)
    async with Admin(cluster.bootstrap) as admin:
        assert set(await admin.describe_topics()) == {"topic"}
        with pytest.raises(UnsupportedApi, match="CREATE_TOPICS"):
            await admin.create_topic("new")


async def test_an_error_of_the_block_comes_out_as_it_is(cluster: MockCluster) -> None:
    deliveries = []

    async def send_and_fail() -> None:
        async with Producer(cluster.bootstrap) as producer:
            deliveries.append(await producer.send("topic", b"x", partition=0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await send_and_fail()
    with pytest.raises(DeliveryFailed):
        await deliveries[0]


async def test_outside_of_its_block_a_client_refuses_to_work(cluster: MockCluster) -> None:
    async with Producer(cluster.bootstrap) as producer, Consumer(cluster.bootstrap) as consumer:
        pass
    with pytest.raises(ClientError, match="outside"):
        await producer.send("topic", b"x")
    with pytest.raises(ClientError, match="outside"):
        await consumer.poll()


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 1},
        {"acks": "2", "enable_idempotence": False},
        {"compression": "zip"},
        {"max_in_flight": 6},
        {"max_in_flight": 0},
        {"batch_bytes": 0},
    ],
)
async def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadSetting):
        Producer("localhost:9092", **settings)
