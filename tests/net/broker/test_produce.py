"""Produce and fetch at a running broker: what a request of a certain kind leads to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from net.broker.apis.produce import Produced
from net.errors import ConnectionLost
from net.wire.apis import Api
from net.wire.fetch import FetchPartition, FetchRequest
from net.wire.produce import (
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
    encode_produce,
    parse_produce_answer,
)
from protocol.errors import ErrorCode
from protocol.replication.effects import Refuse
from storage.batch.build import build
from storage.batch.records import Record, decode
from tests.net.broker.live import PATIENCE_S, TIMEOUT_MS, Live, batch_of, cluster, until


def run(folder: Path, body: Callable[[Live], Awaitable[None]], brokers: int = 1) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_S):
            async with cluster(folder, brokers) as live:
                await body(live)

    trio.run(main)


async def send(live: Live, request: ProduceRequest) -> ProduceAnswer:
    return await live.to().ask(
        Api.PRODUCE,
        9,
        encode_produce(9, request),
        lambda view: parse_produce_answer(9, bytes(view)),
        TIMEOUT_MS,
    )


def one(topic: str, batch: bytearray, acks: int = -1, name: str | None = None) -> ProduceRequest:
    return ProduceRequest(name, acks, 5_000, [(topic, [(0, memoryview(batch))])])


def end_of(live: Live, topic: str) -> int:
    broker = live.node().broker
    assert broker is not None
    found = broker.replicas.find_by_name(topic, 0)
    assert not isinstance(found, ErrorCode)
    return found.state.log.end_offset


def test_a_topic_may_take_the_brokers_time(tmp_path: Path) -> None:
    async def body(live: Live) -> None:
        topic = await live.topic(message_timestamp_type="LogAppendTime")
        live.node().broker.wall = lambda: 1_234_567  # type: ignore[union-attr]
        # Also for times that would be too far from the clock.
        done = await live.produce(topic, batch_of(5, 10**15))
        assert (done.error_code, done.log_append_time_ms) == (0, 1_234_567)
        (batch,) = await live.read(topic)
        assert batch.header.max_timestamp_ms == 1_234_567
        assert {each.timestamp_ms for each in decode(batch)} == {1_234_567}

    run(tmp_path, body)


def test_who_wants_no_answer_gets_none_and_loses_the_connection_when_refused(
    tmp_path: Path,
) -> None:
    async def body(live: Live) -> None:
        topic = await live.topic()
        failures: list[Exception] = []

        def send_blindly(wanted: str) -> None:
            parts = encode_produce(9, one(wanted, batch_of(1), acks=0))
            channel = live.to()
            done = lambda _view: None  # noqa: E731
            channel.request(
                Api.PRODUCE, 9, parts, done, failures.append, TIMEOUT_MS, expects_answer=False
            )

        send_blindly(topic)
        await until(lambda: end_of(live, topic) == 1)
        # Answers go on in order: there was none in between.
        assert (await live.produce(topic, batch_of(2))).base_offset == 1
        send_blindly("nobody's")
        with pytest.raises(ConnectionLost):
            await live.produce(topic, batch_of(3))
        assert (await live.produce(topic, batch_of(4))).error_code == 0

    run(tmp_path, body)


def test_requests_that_cannot_be_served_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async def body(live: Live) -> None:
        topic = await live.topic()
        compacted = await live.topic(cleanup_policy="compact")
        damaged = batch_of(1)
        damaged[-1] ^= 1
        keyless = build([Record(0, 1, None, b"v")])
        for request, error in (
            (one(topic, batch_of(1), acks=7), ErrorCode.INVALID_REQUIRED_ACKS),
            (one(topic, batch_of(1), name="t"), ErrorCode.INVALID_REQUEST),
            (one(topic, damaged), ErrorCode.CORRUPT_MESSAGE),
            (one(topic, bytearray()), ErrorCode.INVALID_RECORD),
            (one(topic, batch_of(1) + batch_of(2)), ErrorCode.INVALID_RECORD),
            (one(compacted, keyless), ErrorCode.INVALID_RECORD),
            (one("nobody's", batch_of(1)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            ((_, (found,)),) = (await send(live, request)).topics
            assert found.error_code == error, error
        assert end_of(live, topic) == end_of(live, compacted) == 0
        assert (await send(live, ProduceRequest(None, -1, 100, []))).topics == []

    run(tmp_path, body)


def test_partitions_of_a_request_are_answered_each_on_its_own(tmp_path: Path) -> None:
    async def body(live: Live) -> None:
        topic, other = await live.topic([1], [1]), await live.topic()
        good = [memoryview(batch_of(at)) for at in range(3)]
        topics = [(topic, [(1, good[0]), (9, good[1])]), (other, [(0, good[2])])]
        answer = await send(live, ProduceRequest(None, -1, 5_000, topics))
        found = {
            (name, each.partition): (each.error_code, each.base_offset)
            for name, partitions in answer.topics
            for each in partitions
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == {(topic, 1): (0, 0), (topic, 9): (unknown, -1), (other, 0): (0, 0)}

    run(tmp_path, body)


def test_a_consumer_that_waits_gets_records_when_they_come(tmp_path: Path) -> None:
    async def body(live: Live) -> None:
        topic = await live.topic()
        broker = live.node().broker
        assert broker is not None
        request = FetchRequest(20_000, 1, [(topic, [FetchPartition(0, 0, 1 << 20)])])
        sizes: list[int] = []

        async def wait() -> None:
            ((_, (found,)),) = (await live.fetch(12, request)).topics
            sizes.append(found.records_bytes)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until(lambda: broker.fetching.waiting == 1)
            done = await live.produce(topic, batch_of(1), number=1)
            assert done.error_code == 0
        assert sizes[0] > 0

    run(tmp_path, body)


def test_what_a_leader_has_its_follower_gets(tmp_path: Path) -> None:
    async def body(live: Live) -> None:
        topic = await live.topic([1, 2])
        batch = batch_of(1, 2, 3)
        assert (await live.produce(topic, bytearray(batch))).error_code == 0
        follower = live.node(2).broker
        assert follower is not None
        found = follower.replicas.find_by_name(topic, 0)
        assert not isinstance(found, ErrorCode)
        assert found.state.log.end_offset == 3
        assert found.counters.replication_bytes_in == len(batch)
        await until(lambda: found.state.high_watermark == 3)

    run(tmp_path, body, brokers=2)


def test_a_batch_for_which_too_much_waits_is_refused_so_that_clients_try_again() -> None:
    told: list[ProducedPartition] = []

    class Noted(Produced):
        def put(self, done: ProducedPartition) -> None:
            told.append(done)

    request = one("t", batch_of(1))
    Noted(request, 0).answer(Refuse(None, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    Noted(request, 0).answer(Refuse(None, ErrorCode.KAFKA_STORAGE_ERROR))
    # librdkafka gives a batch up that is refused with THROTTLING_QUOTA_EXCEEDED.
    expected = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]
    assert [each.error_code for each in told] == expected
