"""What each version of the APIs of clients does to data: produce, fetch, offsets, producers."""

from __future__ import annotations

import pytest

from net.clock import wall_ms
from net.errors import ConnectionLost
from net.wire.apis import Api, Scope
from net.wire.fetch import FetchPartition, FetchRequest
from net.wire.produce import ProduceRequest, encode_produce
from protocol.errors import ErrorCode
from storage.batch.records import decode
from tests.net.broker.live import TIMEOUT_MS, Live, batch_of
from tests.net.broker.observing import Asking, observes

_BROKER = Scope.BROKER
EARLIEST, LATEST, NEWEST = -2, -1, -3


async def offset(live: Live, topic: str, wanted: int) -> int:
    """Ask the newest version of ListOffsets."""
    found = await listed(Asking(live, Api.LIST_OFFSETS, 7, _BROKER), topic, wanted)
    assert found[0] == 0
    return found[1]


async def epoch_of(live: Live, topic: str) -> int:
    """The leader epoch; it begins above those of topics that were deleted."""
    found: int = (await live.partition(topic))["leader_epoch"]
    return found


async def listed(asking: Asking, topic: str, wanted: int, epoch: int = -1) -> tuple[int, int, int]:
    """Ask for an offset; return the error, the offset and the time."""
    partition = {"partition_index": 0, "timestamp": wanted, "current_leader_epoch": epoch}
    topics = [{"name": topic, "partitions": [partition]}]
    answer = await asking.ask({"replica_id": -1, "topics": topics})
    (found,) = answer["topics"][0]["partitions"]
    assert ("leader_epoch" in found) == (asking.version >= 4)
    return found["error_code"], found["offset"], found["timestamp"]


@observes(Api.PRODUCE, range(3, 12))
async def produced_records_are_in_the_log(asking: Asking) -> None:
    live, version = asking.live, asking.version
    topic = await live.topic()
    now_ms = wall_ms()
    first = await live.produce(topic, batch_of(now_ms, now_ms + 5, value=b"one"), version)
    second = await live.produce(topic, batch_of(now_ms + 9, value=b"two"), version)
    assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
    assert first.log_append_time_ms == -1
    assert first.log_start_offset == (0 if version >= 5 else -1)
    records = [each for batch in await live.read(topic) for each in decode(batch)]
    assert [(each.offset, each.timestamp_ms, bytes(each.value or b"")) for each in records] == [
        (0, now_ms, b"one"),
        (1, now_ms + 5, b"one"),
        (2, now_ms + 9, b"two"),
    ]
    late = await live.produce(topic, batch_of(now_ms + 10**9), version)
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP
    assert (late.error_message is not None) == (version >= 8)
    elsewhere = await live.topic([2])
    moved = await live.produce(elsewhere, batch_of(now_ms), version)
    assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = (2, await epoch_of(live, elsewhere)) if version >= 10 else None
    assert moved.current_leader == leader
    assert len(await live.read(topic)) == 2


@observes(Api.PRODUCE, range(3))
async def an_old_producer_loses_its_connection_and_nothing_is_written(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic()
    request = ProduceRequest(None, 1, 1_000, [(topic, [(0, memoryview(batch_of(1)))])])
    with pytest.raises(ConnectionLost):
        await live.to().ask(
            Api.PRODUCE, asking.version, encode_produce(3, request), bytes, TIMEOUT_MS
        )
    assert await offset(live, topic, LATEST) == 0


@observes(Api.FETCH, range(4, 18))
async def a_consumer_gets_what_is_in_the_log(asking: Asking) -> None:
    live, version = asking.live, asking.version
    topic = await live.topic()
    for at in range(3):
        await live.produce(topic, batch_of(100 + at, value=b"%d" % at))
    await delete_before(live, topic, 1)
    found = await live.read(topic, 1, version)
    assert [batch.header.base_offset for batch in found] == [1, 2]
    assert [batch.header.max_timestamp_ms for batch in found] == [101, 102]
    named = await live.topic_id(topic) if version >= 13 else topic
    unknown = await epoch_of(live, topic) + 5
    partition = FetchPartition(0, 0, 1 << 20, current_leader_epoch=unknown)
    answer = await live.fetch(version, FetchRequest(0, 0, [(named, [partition])]))
    ((_, (told,)),) = answer.topics
    if version >= 9:
        assert told.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    else:
        assert told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    partition = FetchPartition(0, 3, 1 << 20)
    answer = await live.fetch(version, FetchRequest(0, 0, [(named, [partition])]))
    ((_, (told,)),) = answer.topics
    assert (told.error_code, told.high_watermark) == (0, 3)
    assert told.log_start_offset == (1 if version >= 5 else -1)


async def delete_before(live: Live, topic: str, before: int) -> None:
    partitions = [{"partition_index": 0, "offset": before}]
    message = {"topics": [{"name": topic, "partitions": partitions}], "timeout": 10_000}
    answer = await live.ask(Api.DELETE_RECORDS, 2, message)
    assert answer["topics"][0]["partitions"][0]["low_watermark"] == before


@observes(Api.LIST_OFFSETS, range(1, 8))
async def offsets_are_found_by_place_and_time(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic()
    for times in ((1_000, 1_010), (3_000, 2_000), (1_500,)):
        await live.produce(topic, batch_of(*times))
    await delete_before(live, topic, 1)
    assert await listed(asking, topic, EARLIEST) == (0, 1, -1)
    assert await listed(asking, topic, LATEST) == (0, 5, -1)
    assert await listed(asking, topic, 1_005) == (0, 1, 1_010)
    assert await listed(asking, topic, 1_011) == (0, 2, 3_000)
    assert await listed(asking, topic, 3_001) == (0, -1, -1)
    if asking.version >= 7:
        assert await listed(asking, topic, NEWEST) == (0, 2, 3_000)
    epoch = await epoch_of(live, topic)
    wrong_epoch = (await listed(asking, topic, LATEST, epoch=epoch + 1))[0]
    assert wrong_epoch == (ErrorCode.UNKNOWN_LEADER_EPOCH if asking.version >= 4 else 0)
    assert (await listed(asking, "nobody's", LATEST))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@observes(Api.DELETE_RECORDS, range(3))
async def the_log_begins_later(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic()
    for at in range(4):
        await live.produce(topic, batch_of(at))
    for wanted, start in ((2, 2), (-1, 4)):
        partitions = [{"partition_index": 0, "offset": wanted}]
        answer = await asking.ask({"topics": [{"name": topic, "partitions": partitions}]})
        (found,) = answer["topics"][0]["partitions"]
        assert (found["error_code"], found["low_watermark"]) == (0, start)
        assert await offset(live, topic, EARLIEST) == start
    partitions = [{"partition_index": 0, "offset": 5}]
    answer = await asking.ask({"topics": [{"name": topic, "partitions": partitions}]})
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


@observes(Api.OFFSET_FOR_LEADER_EPOCH, range(2, 5))
async def an_epoch_ends_where_the_next_one_begins(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic([1, 2])
    epoch = await epoch_of(live, topic)
    for at in range(3):
        await live.produce(topic, batch_of(at))
    await live.hand_over(topic, 1, 2)
    await live.produce(topic, batch_of(9), number=2)

    async def end_of(asked: int, current: int = -1, number: int = 2) -> tuple[int, int, int]:
        partition = {"partition": 0, "leader_epoch": asked, "current_leader_epoch": current}
        message = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition]}]}
        answer = await live.ask(asking.api, asking.version, message, channel=live.to(number))
        (found,) = answer["topics"][0]["partitions"]
        return found["error_code"], found["leader_epoch"], found["end_offset"]

    assert await end_of(epoch) == (0, epoch, 3)
    assert await end_of(epoch + 1) == (0, epoch + 1, 4)
    assert await end_of(epoch - 1) == (0, -1, -1)
    assert (await end_of(epoch, current=epoch + 9))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await end_of(epoch, current=epoch))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert (await end_of(epoch, number=1))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@observes(Api.INIT_PRODUCER_ID, range(5))
async def producers_get_ids_of_their_own_and_write_with_them(asking: Asking) -> None:
    live = asking.live
    message = {"transactional_id": None, "transaction_timeout": 1_000}
    answers = [await asking.ask(message) for _ in range(3)]
    ids = {each["producer_id"] for each in answers}
    assert len(ids) == 3
    assert min(ids) >= 0
    assert all((each["error_code"], each["producer_epoch"]) == (0, 0) for each in answers)
    topic = await live.topic()
    batch = batch_of(1, producer_id=min(ids), producer_epoch=0, base_sequence=0)
    again = bytearray(batch)
    assert [(await live.produce(topic, each)).base_offset for each in (batch, again)] == [0, 0]
    assert await offset(live, topic, LATEST) == 1
    refused = await asking.ask({"transactional_id": "t", "transaction_timeout": 1_000})
    assert refused["error_code"] == ErrorCode.INVALID_REQUEST


@observes(Api.DESCRIBE_PRODUCERS, range(1))
async def who_wrote_is_described(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic()
    batch = batch_of(77, 78, producer_id=4_000_000, producer_epoch=3, base_sequence=0)
    await live.produce(topic, batch)
    topics = [{"name": topic, "partition_indexes": [0]}]
    (found,) = (await asking.ask({"topics": topics}))["topics"][0]["partitions"]
    (producer,) = found["active_producers"]
    assert (producer["producer_id"], producer["producer_epoch"]) == (4_000_000, 3)
    assert (producer["last_sequence"], producer["last_timestamp"]) == (1, 78)


@observes(Api.DESCRIBE_LOG_DIRS, range(1, 5))
async def the_size_of_a_log_is_that_of_its_batches(asking: Asking) -> None:
    live = asking.live
    topic, other = await live.topic(), await live.topic()
    batch = batch_of(1, value=b"x" * 5_000)
    await live.produce(topic, batch)
    answer = await asking.ask({"topics": [{"topic": topic, "partitions": [0]}]})
    (folder,) = answer["results"]
    assert folder["log_dir"] == live.settings(1).log_dirs[0]
    ((name, (found,)),) = ((each["name"], each["partitions"]) for each in folder["topics"])
    assert (name, found["partition_size"], found["offset_lag"]) == (topic, len(batch), 0)
    if asking.version >= 4:
        assert folder["usable_bytes"] > 0
    everything = (await asking.ask({"topics": None}))["results"][0]["topics"]
    assert {topic, other} <= {each["name"] for each in everything}
