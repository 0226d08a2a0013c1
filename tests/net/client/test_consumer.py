"""A consumer finds out that a log was cut, reads committed records, and stops when it should."""

from __future__ import annotations

import pytest
import trio

from net.client import Consumer, ConsumerRecord, KafkaError, LogTruncated, NoOffset
from net.wire.fetch import AbortedTransaction
from storage.batch.build import build
from storage.batch.control import MarkerKind, marker
from storage.batch.records import Record
from tests.net.client.tiny_broker import TinyBroker, tiny_broker

pytestmark = pytest.mark.trio
PATIENCE_S = 30


def _write(broker: TinyBroker, *values: bytes) -> None:
    for value in values:
        batch = build([Record(0, 0, None, value)], leader_epoch=broker.leader_epoch)
        broker.logs[0].append(bytes(batch), broker.leader_epoch)


async def _read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    with trio.fail_after(PATIENCE_S):
        while len(found) < count:
            found += await consumer.poll()
    return found


def _cut(broker: TinyBroker, end_offset: int) -> None:
    """Let a new leader have a shorter log, and write something else there."""
    log = broker.logs[0]
    del log.batches[end_offset:]
    log.end_offset = end_offset
    broker.epoch_ends[broker.leader_epoch] = end_offset
    broker.leader_epoch += 1
    _write(broker, b"new")


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_a_log_that_was_cut_is_noticed(policy: str) -> None:
    async with tiny_broker() as broker:
        _write(broker, b"0", b"1", b"2")
        async with Consumer(
            broker.bootstrap,
            auto_offset_reset=policy,  # type: ignore[arg-type]
            fetch_max_wait_ms=20,
        ) as consumer:
            consumer.assign([("topic", 0)])
            consumer.seek("topic", 0, 0)
            assert [each.value for each in await _read(consumer, 3)] == [b"0", b"1", b"2"]
            _cut(broker, 2)
            if policy == "none":
                for _ in range(2):
                    with trio.fail_after(PATIENCE_S), pytest.raises(LogTruncated) as caught:
                        await _read(consumer, 1)
                    assert (caught.value.position, caught.value.offset) == (3, 2)
                consumer.seek("topic", 0, 2)
            assert [each.value for each in await _read(consumer, 1)] == [b"new"]


async def test_a_new_leader_with_the_same_log_changes_nothing() -> None:
    async with tiny_broker() as broker:
        _write(broker, b"0", b"1")
        async with Consumer(
            broker.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=20
        ) as consumer:
            consumer.assign([("topic", 0)])
            await _read(consumer, 2)
            broker.epoch_ends[0] = 2
            broker.leader_epoch = 1
            _write(broker, b"2")
            assert [each.value for each in await _read(consumer, 1)] == [b"2"]


async def test_read_committed_leaves_out_what_was_aborted() -> None:
    async with tiny_broker() as broker:
        log = broker.logs[0]
        records = [Record(0, 0, None, b"aborted")]
        log.append(
            bytes(
                build(records, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
            )
        )
        log.append(bytes(marker(MarkerKind.ABORT, 9, 0, 0, 0)))
        _write(broker, b"good")
        broker.aborted = [AbortedTransaction(9, 0)]
        for isolation, values in (
            ("read_committed", [b"good"]),
            ("read_uncommitted", [b"aborted", b"good"]),
        ):
            async with Consumer(
                broker.bootstrap,
                auto_offset_reset="earliest",
                isolation_level=isolation,  # type: ignore[arg-type]
            ) as consumer:
                consumer.assign([("topic", 0)])
                assert [each.value for each in await _read(consumer, len(values))] == values
                assert await consumer.position("topic", 0) == 3


async def test_a_damaged_batch_is_told_at_every_poll() -> None:
    async with tiny_broker() as broker:
        _write(broker, b"good", b"bad")
        broker.logs[0].batches[1] = broker.logs[0].batches[1][:-2] + b"xx"
        async with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("topic", 0)])
            assert [each.value for each in await _read(consumer, 1)] == [b"good"]
            for _ in range(2):
                with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
                    await _read(consumer, 1)


async def test_without_a_position_and_a_policy_there_is_an_error() -> None:
    async with (
        tiny_broker() as broker,
        Consumer(broker.bootstrap, auto_offset_reset="none") as consumer,
    ):
        consumer.assign([("topic", 0)])
        with pytest.raises(NoOffset):
            await consumer.poll()


async def test_answers_to_what_was_asked_before_a_seek_are_dropped() -> None:
    async with tiny_broker() as broker:
        _write(broker, b"0", b"1", b"2", b"3")
        async with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("topic", 0)])
            assert await consumer.position("topic", 0) == 0
            with trio.move_on_after(0):
                await consumer.poll(timeout_ms=1000)
            consumer.seek("topic", 0, 3)
            assert [each.offset for each in await _read(consumer, 1)] == [3]
