"""The quorum's APIs, request by request, as a server would hand them over."""

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from net.errors import MalformedRequest
from net.metadata.describe import HANDLERS
from net.metadata.fetch_apis import METADATA_ID
from net.metadata.log import TOPIC
from net.wire.apis import Scope, served_on
from net.wire.fetch import (
    FetchAnswer,
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch_answer,
)
from net.wire.library import Message, decode_response, encode_request
from tests.net.metadata.world import CLUSTER, FakeRequest, Running, World, run

VOTE, BEGIN, END, DESCRIBE, SNAPSHOT = 52, 53, 54, 55, 59


async def asked(node: Running, api: int, version: int, body: bytes) -> bytes:
    """Ask a node and wait for its answer."""
    answers: list[bytes] = []
    is_answered = trio.Event()

    def answer(found: bytes) -> None:
        answers.append(found)
        is_answered.set()

    HANDLERS[api](node.node, FakeRequest(api, version, body, "x:1", answer))
    with trio.fail_after(5):
        await is_answered.wait()
    return answers[0]


async def ask(node: Running, api: int, version: int, message: Message) -> Message:
    body = encode_request(api, version, message)
    return decode_response(api, version, await asked(node, api, version, body))


async def fetch(node: Running, request: FetchRequest, version: int = 17) -> FetchAnswer:
    return parse_fetch_answer(
        version, await asked(node, 1, version, encode_fetch(version, request))
    )


def about(partition: Message, **more: Any) -> Message:
    topics = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}]
    return {"topics": topics, **more}


def vote(candidate: int, epoch: int, **more: Any) -> Message:
    asked_for = {"replica_id": candidate, "replica_epoch": epoch, "last_offset_epoch": 0}
    return about({**asked_for, "last_offset": 0}, **more)


def only(message: Message) -> Message:
    assert message["error_code"] == 0
    ((partition,),) = (topic["partitions"] for topic in message["topics"])
    found: Message = partition
    return found


def settled(tmp_path: Path, body: Callable[[World, Running, Running], Awaitable[None]]) -> None:
    """Run a test with three voters, a leader and a follower of which are given."""

    async def main(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        await world.all_have(await world.commit(leader, 3))
        await body(world, leader, next(e for e in world.running.values() if e is not leader))

    run(main, tmp_path)


def test_every_version_that_is_served_is_answered(tmp_path: Path) -> None:
    async def body(_world: World, leader: Running, follower: Running) -> None:
        number, epoch = leader.node.leader
        messages = {
            VOTE: vote(number, epoch),
            BEGIN: about({"leader_id": number, "leader_epoch": epoch}),
            END: about({"leader_id": number, "leader_epoch": epoch - 1}),
            DESCRIBE: about({}),
            SNAPSHOT: {
                "replica_id": 9,
                "topics": [
                    {
                        "name": TOPIC,
                        "partitions": [
                            {
                                "partition": 0,
                                "current_leader_epoch": epoch,
                                "snapshot_id": {"end_offset": 1, "epoch": 1},
                            }
                        ],
                    }
                ],
            },
        }
        for api, message in messages.items():
            served = served_on(Scope.CONTROLLER, api)
            assert served is not None
            for version in range(served.serves_from, served.serves_to + 1):
                found = only(await ask(follower, api, version, message))
                if api != SNAPSHOT:
                    assert (found["leader_id"], found["leader_epoch"]) == (number, epoch)
        served = served_on(Scope.CONTROLLER, 1)
        assert served is not None
        for version in range(served.serves_from, served.serves_to + 1):
            topic = METADATA_ID if version >= 13 else TOPIC
            request = FetchRequest(0, 0, [(topic, [FetchPartition(0, 0, 100, epoch, 0)])], 9)
            ((_, (partition,)),) = (await fetch(leader, request, version)).topics
            assert partition.error_code == 0
            assert partition.records_bytes > 0

    settled(tmp_path, body)


def test_another_cluster_is_refused_by_every_api(tmp_path: Path) -> None:
    async def body(_world: World, leader: Running, follower: Running) -> None:
        number, epoch = leader.node.leader
        wrong = {"cluster_id": "another"}
        heard = follower.node.state
        for api, version, message in [
            (VOTE, 2, vote(number, epoch + 5, **wrong)),
            (BEGIN, 1, about({"leader_id": number, "leader_epoch": epoch + 5}, **wrong)),
            (END, 1, about({"leader_id": number, "leader_epoch": epoch + 5}, **wrong)),
            (SNAPSHOT, 1, {"topics": [], **wrong}),
        ]:
            assert (await ask(follower, api, version, message))["error_code"] == 104
        assert follower.node.state.epoch == heard.epoch
        partitions = [FetchPartition(0, 0, 100, epoch, 0)]
        request = FetchRequest(0, 0, [(METADATA_ID, partitions)], 9, cluster_id="another")
        assert (await fetch(leader, request)).error_code == 104
        for cluster in (None, CLUSTER):
            assert only(await ask(follower, VOTE, 2, vote(number, epoch, cluster_id=cluster)))

    settled(tmp_path, body)


def test_only_the_metadata_partition_is_served(tmp_path: Path) -> None:
    async def body(_world: World, leader: Running, _follower: Running) -> None:
        right = vote(2, 1)["topics"][0]
        for topics in (
            [],
            [right, right],
            [{**right, "topic_name": "t"}],
            [{**right, "partitions": []}],
            [{**right, "partitions": [{**right["partitions"][0], "partition_index": 1}]}],
        ):
            assert (await ask(leader, VOTE, 2, {"topics": topics}))["error_code"] == 42
        epoch = leader.node.state.epoch
        one = FetchPartition(0, 0, 100, epoch, 0)
        wrong: list[list[tuple[uuid.UUID, list[FetchPartition]]]] = [
            [],
            [(METADATA_ID, [])],
            [(METADATA_ID, [one, one])],
            [(METADATA_ID, [one._replace(partition=1)])],
            [(uuid.UUID(int=2), [one])],
        ]
        for found in wrong:
            assert (await fetch(leader, FetchRequest(0, 0, found, 9))).error_code == 42
        # Consumers do not read the metadata log here.
        consumer = FetchRequest(0, 0, [(METADATA_ID, [one])])
        assert (await fetch(leader, consumer)).error_code == 42

    settled(tmp_path, body)


def test_a_request_for_another_voter_is_refused(tmp_path: Path) -> None:
    async def body(_world: World, leader: Running, follower: Running) -> None:
        number, epoch = leader.node.leader
        message = vote(number, epoch + 1, voter_id=77)
        assert only(await ask(follower, VOTE, 2, message))["error_code"] == 125
        message = about({"leader_id": number, "leader_epoch": epoch + 1}, voter_id=77)
        assert only(await ask(follower, BEGIN, 1, message))["error_code"] == 125
        assert follower.node.state.epoch == epoch

    settled(tmp_path, body)


def test_who_does_not_lead_names_the_leader_and_where_it_is(tmp_path: Path) -> None:
    async def body(_world: World, leader: Running, follower: Running) -> None:
        number, epoch = leader.node.leader
        request = FetchRequest(0, 0, [(METADATA_ID, [FetchPartition(0, 0, 1, epoch, 0)])], 9)
        answer = await fetch(follower, request)
        ((_, (partition,)),) = answer.topics
        assert partition.error_code == 6
        assert partition.current_leader == (number, epoch)
        assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(number, number)]
        # A leader that is asked with an older epoch names itself.
        request = FetchRequest(0, 0, [(METADATA_ID, [FetchPartition(0, 0, 1, 0, 0)])], 9)
        ((_, (partition,)),) = (await fetch(leader, request)).topics
        assert partition.error_code == 74
        assert partition.current_leader == (number, epoch)

    settled(tmp_path, body)


def test_nonsense_ends_the_connection_and_changes_nothing(tmp_path: Path) -> None:
    async def body(_world: World, leader: Running, follower: Running) -> None:
        number, epoch = leader.node.leader
        before = leader.node.state.epoch, follower.node.state.epoch
        for node, api, version, message in [
            (follower, VOTE, 2, vote(99, epoch + 1)),
            (follower, VOTE, 2, vote(follower.node.identity.node, epoch + 1)),
            (follower, BEGIN, 1, about({"leader_id": 99, "leader_epoch": epoch + 1})),
            (leader, SNAPSHOT, 1, {"replica_id": -1, **snapshot_of(leader)}),
            (leader, SNAPSHOT, 1, {"replica_id": number, **snapshot_of(leader)}),
        ]:
            with pytest.raises(MalformedRequest):
                await ask(node, api, version, message)
        for partition in (
            FetchPartition(0, -1, 1, epoch, 1),
            FetchPartition(0, 5, 1, epoch, 0),
            FetchPartition(0, 5, 1, epoch, epoch + 1),
        ):
            with pytest.raises(MalformedRequest):
                await fetch(leader, FetchRequest(0, 0, [(METADATA_ID, [partition])], 9))
        with pytest.raises(MalformedRequest):
            await asked(leader, VOTE, 2, b"\x01\x02")
        assert (leader.node.state.epoch, follower.node.state.epoch) == before

    settled(tmp_path, body)


def snapshot_of(leader: Running) -> Message:
    epoch = leader.node.state.epoch
    wanted = {"current_leader_epoch": epoch, "snapshot_id": {"end_offset": 1, "epoch": 1}}
    return {"topics": [{"name": TOPIC, "partitions": [{"partition": 0, **wanted}]}]}


def test_the_leader_describes_the_quorum_and_nobody_else_does(tmp_path: Path) -> None:
    async def body(world: World, leader: Running, follower: Running) -> None:
        await world.start(9)
        await world.until(lambda: world.running[9].node.caught_up)
        await world.all_have(await world.commit(leader, 2))
        await world.sleep(1)
        found = only(await ask(leader, DESCRIBE, 1, about({})))
        state = leader.node.state
        assert (found["error_code"], found["leader_id"]) == (0, state.node)
        assert found["high_watermark"] == state.high_watermark
        voters, (observer,) = found["current_voters"], found["observers"]
        assert [each["replica_id"] for each in voters] == [1, 2, 3]
        assert observer["replica_id"] == 9
        for each in (*voters, observer):
            assert each["log_end_offset"] == state.log.end_offset
            assert 0 < each["last_caught_up_timestamp"] <= each["last_fetch_timestamp"]
        refused = only(await ask(follower, DESCRIBE, 0, about({})))
        assert (refused["error_code"], refused["leader_id"]) == (6, state.node)

    settled(tmp_path, body)


def test_a_fetch_gets_no_more_than_it_asks_for_but_one_batch(tmp_path: Path) -> None:
    async def body(world: World, leader: Running, _follower: Running) -> None:
        for _ in range(4):
            await world.commit(leader, 1, padding=1_000)
        epoch = leader.node.state.epoch
        sizes = []
        for max_bytes in (-5, 1, 3_000, 2**31 - 1):
            partition = FetchPartition(0, 0, max_bytes, epoch, 0)
            answer = await fetch(leader, FetchRequest(-1, 0, [(METADATA_ID, [partition])], 9))
            ((_, (found,)),) = answer.topics
            sizes.append(found.records_bytes)
        assert 0 < sizes[0] == sizes[1] < sizes[2] < sizes[3]

    settled(tmp_path, body)
