"""With a leader that looks at sequences, every record is written once and in order."""

from __future__ import annotations

import random

import pytest
import trio

from net.client import BufferExhausted, DeliveryFailed, Producer, RecordTooLarge
from storage.batch.header import split
from storage.batch.records import decode
from tests.net.client.tiny_broker import Fault, Log, tiny_broker

pytestmark = pytest.mark.trio
PATIENCE_S = 60


def _values(log: Log) -> list[bytes]:
    return [
        bytes(record.value or b"")
        for data in log.batches
        for batch in split(data)
        for record in decode(batch)
    ]


@pytest.mark.parametrize("seed", range(6))
async def test_losses_and_errors_neither_lose_nor_repeat_nor_reorder(seed: int) -> None:
    chance = random.Random(seed)
    kinds: list[Fault | int | None] = ["lose the request", "lose the answer", 6, 7, 19, None, None]
    async with tiny_broker(partitions=2) as broker:
        broker.faults.extend(chance.choice(kinds) for _ in range(40))
        async with Producer(
            broker.bootstrap, batch_bytes=150, retry_backoff_ms=5, chance=random.Random(seed)
        ) as producer:
            sent = []
            for n in range(200):
                sent.append(await producer.send("topic", b"%d" % n, partition=n % 2))
                if chance.random() < 0.1:
                    await trio.lowlevel.checkpoint()
            with trio.fail_after(PATIENCE_S):
                where = [await delivery for delivery in sent]
        assert not broker.faults
        for index in range(2):
            assert _values(broker.logs[index]) == [b"%d" % n for n in range(index, 200, 2)]
            assert [each.offset for each in where[index::2]] == list(range(100))


async def test_without_idempotence_a_lost_answer_may_repeat_but_never_reorders() -> None:
    async with tiny_broker() as broker:
        broker.faults.extend(["lose the answer", None, "lose the request"])
        async with Producer(
            broker.bootstrap, enable_idempotence=False, batch_bytes=150, retry_backoff_ms=5
        ) as producer:
            for n in range(50):
                await producer.send("topic", b"%d" % n, partition=0)
        written = [int(value) for value in _values(broker.logs[0])]
        assert list(dict.fromkeys(written)) == list(range(50))
        # The control: this is what idempotence is for.
        assert len(written) > 50


async def test_a_leader_that_has_forgotten_the_producer_is_given_a_new_epoch() -> None:
    async with tiny_broker() as broker, Producer(broker.bootstrap, retry_backoff_ms=5) as producer:
        await (await producer.send("topic", b"before", partition=0))
        broker.logs[0].producers.clear()
        with trio.fail_after(PATIENCE_S):
            await (await producer.send("topic", b"after", partition=0))
        assert _values(broker.logs[0]) == [b"before", b"after"]
        assert [each.producer_epoch for each in broker.logs[0].headers] == [0, 1]


async def test_a_silent_leader_makes_the_fate_unknown() -> None:
    async with tiny_broker() as broker:
        broker.faults.extend(["say nothing"] * 3)
        async with Producer(
            broker.bootstrap, delivery_timeout_ms=400, request_timeout_ms=5000
        ) as producer:
            delivery = await producer.send("topic", b"x", partition=0)
            with trio.fail_after(PATIENCE_S), pytest.raises(DeliveryFailed) as caught:
                await delivery
            assert caught.value.unknown
            assert _values(broker.logs[0]) == [b"x"]


async def test_no_more_than_five_batches_are_in_flight() -> None:
    async with tiny_broker() as broker:
        broker.faults.extend(["say nothing"] * 100)
        async with Producer(broker.bootstrap, batch_bytes=100, delivery_timeout_ms=300) as producer:
            for n in range(50):
                await producer.send("topic", b"%d" % n, partition=0)
            while broker.produced < 5:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert broker.produced == 5


async def test_a_broker_has_a_bounded_number_of_requests_and_batches_grow_meanwhile() -> None:
    async with tiny_broker(partitions=2) as broker:
        broker.faults.extend(["say nothing"] * 100)
        async with Producer(broker.bootstrap, max_in_flight=1, delivery_timeout_ms=400) as producer:
            await producer.send("topic", b"first", partition=0)
            while broker.produced < 1:
                await trio.lowlevel.checkpoint()
            for n in range(10):
                await producer.send("topic", b"%d" % n, partition=1)
                await trio.testing.wait_all_tasks_blocked()
            assert broker.produced == 1
            assert [len(batch.records) for batch in producer._sender.unsettled] == [1, 10]


async def test_what_was_given_up_is_not_written_any_more() -> None:
    async with (
        tiny_broker() as broker,
        Producer(
            broker.bootstrap,
            enable_idempotence=False,
            delivery_timeout_ms=400,
            retry_backoff_ms=10,
        ) as producer,
    ):
        await producer.cluster.topic("topic", 1000 * PATIENCE_S)
        # It is refused, and there is nobody to send it to again until its time is over.
        broker.leader = -1
        broker.faults.extend([6] * 100)
        delivery = await producer.send("topic", b"given up", partition=0)
        with trio.fail_after(PATIENCE_S), pytest.raises(DeliveryFailed):
            await delivery
        refused = broker.produced
        broker.faults.clear()
        broker.leader = 5
        with trio.fail_after(PATIENCE_S):
            while producer.cluster.leader("topic", 0) is None:
                await producer.cluster.change(1000)
            await (await producer.send("topic", b"second", partition=0))
        assert _values(broker.logs[0]) == [b"second"]
        assert broker.produced == refused + 1


async def test_batches_of_partitions_share_a_request_and_linger_fills_them() -> None:
    async with tiny_broker(partitions=4) as broker:
        async with Producer(broker.bootstrap, linger_ms=60_000) as producer:
            for n in range(40):
                await producer.send("topic", b"%d" % n, partition=n % 4)
            await trio.testing.wait_all_tasks_blocked()
            assert broker.produced == 0
            await producer.flush()
        assert broker.produced == 1
        assert [len(log.batches) for log in broker.logs] == [1, 1, 1, 1]


async def test_a_full_buffer_makes_senders_wait_in_turn_and_then_fails_them() -> None:
    async with tiny_broker() as broker:
        broker.faults.extend(["say nothing"] * 100)
        async with Producer(
            broker.bootstrap,
            buffer_bytes=3000,
            batch_bytes=500,
            max_block_ms=100,
            delivery_timeout_ms=400,
        ) as producer:

            async def fill() -> None:
                while True:
                    await producer.send("topic", bytes(100), partition=0)

            with trio.fail_after(PATIENCE_S), pytest.raises(BufferExhausted):
                await fill()
            with pytest.raises(RecordTooLarge):
                await producer.send("topic", bytes(3000), partition=0)
            await producer.flush()
            # All memory came back.
            assert producer._memory.free_bytes == 3000
