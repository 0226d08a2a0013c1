"""What each version of the APIs between nodes does: those that only a controller's listener has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import attrs

from net.channel import Channel
from net.metadata.fetch_apis import METADATA_ID
from net.transport.seam import Endpoint
from net.wire.apis import Api, Scope
from net.wire.fetch import FetchPartition, FetchRequest
from net.wire.library import Message
from protocol.controller import Image, Partition
from protocol.errors import ErrorCode
from tests.net.broker.live import CLUSTER_ID, HOST, Live, batches, free_port, until, until_true
from tests.net.broker.observing import Asking, observes

METADATA = "__cluster_metadata"
HERE = (Scope.CONTROLLER,)
OTHER, ANOTHER = 8, 9
"""Voters that do not run: the observation speaks for them."""


def image(live: Live) -> Image:
    """What the controller has committed."""
    controller = live.node().controller
    assert controller is not None
    return controller.committed_image


@observes(Api.FETCH, range(12, 18), HERE)
async def the_metadata_log_is_fetched(asking: Asking) -> None:
    live, version = asking.live, asking.version
    topic = await live.topic()
    quorum = live.node().broker.metadata_offset  # type: ignore[union-attr]
    topic_or_id = METADATA_ID if version >= 13 else METADATA
    epoch = (await described(live.to_controller(), live))["leader_epoch"]
    found = b""
    offset = max(0, quorum - 3)
    partition = FetchPartition(0, offset, 1 << 20, epoch, epoch)
    request = FetchRequest(0, 0, [(topic_or_id, [partition])], 77, cluster_id=CLUSTER_ID)
    answer = await live.fetch(version, request, channel=asking.channel)
    ((_, (told,)),) = answer.topics
    for batch in batches(told):
        assert batch.header.end_offset > offset
        found += bytes(batch.view)
    assert topic.encode() in found


async def described(channel: Channel, live: Live) -> Message:
    """What a controller knows of its quorum, if only who leads."""
    topics = [{"topic_name": METADATA, "partitions": [{"partition_index": 0}]}]
    answer = await live.ask(Api.DESCRIBE_QUORUM, 1, {"topics": topics}, channel=channel)
    found: Message = answer["topics"][0]["partitions"][0]
    return found


@attrs.frozen
class Lonely:
    """A voter whose two others do not run, and somebody who speaks for them."""

    asking: Asking
    channel: Channel

    async def ask(self, partition: Message, **more: Any) -> Message:
        topics = [{"topic_name": METADATA, "partitions": [{"partition_index": 0, **partition}]}]
        message = {"cluster_id": CLUSTER_ID, "topics": topics, **more}
        asking = self.asking
        answer = await asking.live.ask(asking.api, asking.version, message, channel=self.channel)
        assert answer["error_code"] == 0
        found: Message = answer["topics"][0]["partitions"][0]
        return found

    async def knows(self) -> tuple[int, int]:
        """Who leads, as this voter knows, and in which epoch."""
        found = await described(self.channel, self.asking.live)
        return found["leader_id"], found["leader_epoch"]


@asynccontextmanager
async def lonely(asking: Asking) -> AsyncIterator[Lonely]:
    """Start such a voter, which does not stand for election by itself for a long time."""
    live, port = asking.live, free_port()
    others = f"{OTHER}@{HOST}:{free_port()},{ANOTHER}@{HOST}:{free_port()}"
    number = 50
    changes = {
        "process.roles": "controller",
        "node.id": str(number),
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "controller.quorum.voters": f"{number}@{HOST}:{port},{others}",
        "controller.quorum.election.timeout.ms": "300000",
        "controller.quorum.fetch.timeout.ms": "300000",
        "log.dirs": str(live.folder / f"lonely-{asking.api}-{asking.version}"),
    }
    await live.start(number, changes)
    yield Lonely(asking, live.channel_to(Endpoint(HOST, port)))
    await live.stop(number)


def candidate(node: int, epoch: int) -> Message:
    return {
        "replica_id": node,
        "replica_epoch": epoch,
        "last_offset_epoch": 1,
        "last_offset": 10,
    }


@observes(Api.VOTE, range(3), HERE)
async def a_vote_is_given_once_in_an_epoch(asking: Asking) -> None:
    async with lonely(asking) as voter:
        assert (await voter.ask(candidate(OTHER, 5)))["vote_granted"]
        assert not (await voter.ask(candidate(ANOTHER, 5)))["vote_granted"]
        assert await voter.knows() == (-1, 5)
        if asking.version >= 2:
            # Who only asks whether it would get a vote is told, and gets none by it (KIP-996).
            assert (await voter.ask({**candidate(ANOTHER, 5), "pre_vote": True}))["vote_granted"]
            assert await voter.knows() == (-1, 5)
            assert not (await voter.ask(candidate(ANOTHER, 5)))["vote_granted"]
        assert (await voter.ask(candidate(ANOTHER, 7)))["vote_granted"]
        assert await voter.knows() == (-1, 7)


@observes(Api.BEGIN_QUORUM_EPOCH, range(2), HERE)
async def a_voter_follows_whoever_was_elected(asking: Asking) -> None:
    async with lonely(asking) as voter:
        await voter.ask({"leader_id": OTHER, "leader_epoch": 3})
        assert await voter.knows() == (OTHER, 3)
        told = await voter.ask({"leader_id": ANOTHER, "leader_epoch": 2})
        assert told["error_code"] == ErrorCode.FENCED_LEADER_EPOCH
        assert await voter.knows() == (OTHER, 3)


@observes(Api.END_QUORUM_EPOCH, range(2), HERE)
async def a_voter_follows_nobody_who_has_resigned(asking: Asking) -> None:
    begin = attrs.evolve(asking, api=Api.BEGIN_QUORUM_EPOCH, version=0)
    async with lonely(asking) as voter:
        await attrs.evolve(voter, asking=begin).ask({"leader_id": OTHER, "leader_epoch": 3})
        preferred: Message = {"preferred_successors": [50]}
        if asking.version >= 1:
            successor = {"candidate_id": 50, "candidate_directory_id": UUID(int=0)}
            preferred = {"preferred_candidates": [successor]}
        await voter.ask({"leader_id": OTHER, "leader_epoch": 3, **preferred})

        async def follows_nobody() -> bool:
            return (await voter.knows())[0] != OTHER

        await until_true(follows_nobody)


@observes(Api.FETCH_SNAPSHOT, range(2), HERE)
async def a_snapshot_is_fetched_as_it_is_on_disk(asking: Asking) -> None:
    live = asking.live
    folder = live.folder / "node-1" / "metadata"
    while not (found := sorted(folder.rglob("*.checkpoint"))):
        await live.topic(*([1] for _ in range(50)))
    snapshot = found[-1]
    end_offset, epoch = map(int, snapshot.stem.split("-"))
    content = b""
    leader_epoch = (await described(asking.channel, live))["leader_epoch"]
    while True:
        wanted = {
            "partition": 0,
            "current_leader_epoch": leader_epoch,
            "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
            "position": len(content),
        }
        topics = [{"name": METADATA, "partitions": [wanted]}]
        message = {"replica_id": 77, "max_bytes": 10_000, "topics": topics}
        answer = await asking.ask({**message, "cluster_id": CLUSTER_ID})
        told = answer["topics"][0]["partitions"][0]
        assert (told["error_code"], told["position"]) == (0, len(content))
        content += told["unaligned_records"]
        if len(content) >= told["size"]:
            break
    assert content == snapshot.read_bytes()


@observes(Api.ALTER_PARTITION, range(2, 4), HERE)
async def a_leader_changes_its_isr(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic([1, 2])
    known = image(live).partitions[topic, 0]
    broker = live.node().broker
    assert broker is not None
    partition: Message = {
        "partition_index": 0,
        "leader_epoch": known.leader_epoch,
        "leader_recovery_state": 0,
        "partition_epoch": known.version,
    }
    if asking.version >= 3:
        partition["new_isr_with_epochs"] = [{"broker_id": 1, "broker_epoch": broker.epoch}]
    else:
        partition["new_isr"] = [1]
    topics = [{"topic_id": await live.topic_id(topic), "partitions": [partition]}]
    message = {"broker_id": 1, "broker_epoch": broker.epoch, "topics": topics}
    answer = await asking.ask(message)
    (told,) = answer["topics"][0]["partitions"]
    assert (told["error_code"], told["isr"]) == (0, [1])
    assert told["partition_epoch"] == known.version + 1
    # The follower is there, so it is taken back at once.
    await until(lambda: _is_whole(image(live).partitions[topic, 0], known.version + 2))


def _is_whole(partition: Partition, version: int) -> bool:
    return partition.version == version and partition.isr == {1, 2}


@observes(Api.BROKER_REGISTRATION, range(5), HERE)
async def a_broker_is_registered_and_fenced_until_it_is_heard_of(asking: Asking) -> None:
    live, number = asking.live, 60 + asking.version
    epoch = await register(live, number, asking.version)
    await until(lambda: number in image(live).brokers)
    found = image(live).brokers[number]
    assert (found.epoch, found.fenced, found.rack) == (epoch, True, "a rack")
    again = await register(live, number, asking.version, incarnation=2)
    assert again > epoch
    await live.ask(Api.UNREGISTER_BROKER, 0, {"broker_id": number})


async def register(live: Live, number: int, version: int, incarnation: int = 1) -> int:
    message = {
        "broker_id": number,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=number * 100 + incarnation),
        "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 1, "security_protocol": 0}],
        "features": [],
        "rack": "a rack",
        "previous_broker_epoch": -1,
    }
    answer = await live.ask(Api.BROKER_REGISTRATION, version, message, channel=live.to_controller())
    assert answer["error_code"] == 0
    epoch: int = answer["broker_epoch"]
    return epoch


@observes(Api.BROKER_HEARTBEAT, range(2), HERE)
async def a_broker_that_is_heard_of_takes_part_until_it_wants_to_stop(asking: Asking) -> None:
    live, number = asking.live, 70 + asking.version
    epoch = await register(live, number, 4)
    message = {
        "broker_id": number,
        "broker_epoch": epoch,
        "current_metadata_offset": 10**9,
        "want_fence": False,
        "want_shut_down": False,
    }
    answer = await asking.ask(message)
    assert (answer["error_code"], answer["is_fenced"]) == (0, False)
    await until(lambda: image(live).is_available(number))
    answer = await asking.ask({**message, "broker_epoch": epoch - 1})
    assert answer["error_code"] == ErrorCode.STALE_BROKER_EPOCH
    answer = await asking.ask({**message, "want_shut_down": True})
    assert answer["should_shut_down"]
    await until(lambda: not image(live).is_available(number))
    await live.ask(Api.UNREGISTER_BROKER, 0, {"broker_id": number})


@observes(Api.ALLOCATE_PRODUCER_IDS, range(1), HERE)
async def blocks_of_producer_ids_do_not_overlap(asking: Asking) -> None:
    live = asking.live
    broker = live.node().broker
    assert broker is not None
    message = {"broker_id": 1, "broker_epoch": broker.epoch}
    blocks = [await asking.ask(message) for _ in range(3)]
    assert all(each["error_code"] == 0 for each in blocks)
    starts = [each["producer_id_start"] for each in blocks]
    for before, after in zip(blocks, starts[1:], strict=False):
        assert before["producer_id_start"] + before["producer_id_len"] <= after
    assert image(live).next_producer_id == starts[-1] + blocks[-1]["producer_id_len"]
    refused = await asking.ask({**message, "broker_epoch": broker.epoch + 1})
    assert refused["error_code"] == ErrorCode.STALE_BROKER_EPOCH
