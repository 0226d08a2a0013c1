"""Offsets that leaders know: by time, the first, the last, and where an epoch ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import trio

from net.channel import Channel
from net.client.cluster import Cluster
from net.client.errors import ClientTimedOut, KafkaError, UnsupportedApi, error_name
from net.client.versions import call
from net.clock import now_ms
from net.errors import NetError
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode
from protocol.idempotence.rules import RETRIABLE

Place: TypeAlias = tuple[str, int]
"""A topic and a partition of it."""
LATEST: Final = -1
EARLIEST: Final = -2
_AGAIN: Final = RETRIABLE | {ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}


class ListedOffset(NamedTuple):
    """An offset, and the time and leader epoch of the record there; -1 for what is not known."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The largest epoch up to the one asked for, and where it ends; -1 if there is none."""

    epoch: int
    end_offset: int


async def list_offsets(
    cluster: Cluster, times_ms: Mapping[Place, int], timeout_ms: int, *, committed: bool = False
) -> dict[Place, ListedOffset]:
    """Find the first record at or after each time, or one of the two ends; try until it is over."""
    deadline_ms = now_ms() + timeout_ms
    found: dict[Place, ListedOffset] = {}
    failures = 0
    for topic in {topic for topic, _ in times_ms}:
        await cluster.topic(topic, timeout_ms)
    while True:
        left = {place: time for place, time in times_ms.items() if place not in found}
        wait_ms = max(1, deadline_ms - now_ms())
        answers = await ask_offsets(cluster, left, wait_ms, committed)
        found |= {place: each for place, each in answers.items() if isinstance(each, ListedOffset)}
        failed = {place: each for place, each in answers.items() if isinstance(each, int)}
        if not failed:
            return found
        place, code = next(iter(failed.items()))
        for place, code in failed.items():
            if code not in _AGAIN:
                raise KafkaError(code, f"{place[0]}-{place[1]}")
        failures += 1
        pause_ms = cluster.pause_ms(failures)
        if now_ms() + pause_ms >= deadline_ms:
            raise ClientTimedOut(f"offsets of {place[0]}-{place[1]}: {error_name(code)}")
        cluster.expire()
        await trio.sleep(pause_ms / 1000)


async def ask_offsets(
    cluster: Cluster, times_ms: Mapping[Place, int], timeout_ms: int, committed: bool
) -> dict[Place, ListedOffset | int]:
    """Ask each leader once; a number is the error for that partition."""
    answers: dict[Place, ListedOffset | int] = {}

    async def ask(channel: Channel, places: list[Place]) -> None:
        message = {
            "replica_id": -1,
            "isolation_level": int(committed),
            "topics": _by_topic(
                "name",
                {
                    (topic, partition): {
                        "partition_index": partition,
                        "current_leader_epoch": _epoch(cluster, (topic, partition)),
                        "timestamp": times_ms[topic, partition],
                    }
                    for topic, partition in places
                },
            ),
        }
        answer = await call(channel, Api.LIST_OFFSETS, message, timeout_ms)
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                listed = ListedOffset(
                    each["offset"], each["timestamp"], each.get("leader_epoch", -1)
                )
                answers[topic["name"], each["partition_index"]] = each["error_code"] or listed

    await _ask_leaders(cluster, list(times_ms), ask)
    return {place: answers.get(place, ErrorCode.NETWORK_EXCEPTION) for place in times_ms}


async def ask_epochs(
    cluster: Cluster, epochs: Mapping[Place, int], timeout_ms: int
) -> dict[Place, EpochEnd | int]:
    """Ask each leader once where an epoch ends; a number is the error for that partition."""
    answers: dict[Place, EpochEnd | int] = {}

    async def ask(channel: Channel, places: list[Place]) -> None:
        message = {
            "replica_id": -1,
            "topics": _by_topic(
                "topic",
                {
                    (topic, partition): {
                        "partition": partition,
                        "current_leader_epoch": _epoch(cluster, (topic, partition)),
                        "leader_epoch": epochs[topic, partition],
                    }
                    for topic, partition in places
                },
            ),
        }
        answer = await call(channel, Api.OFFSET_FOR_LEADER_EPOCH, message, timeout_ms)
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                end = EpochEnd(each["leader_epoch"], each["end_offset"])
                answers[topic["topic"], each["partition"]] = each["error_code"] or end

    await _ask_leaders(cluster, list(epochs), ask)
    return {place: answers.get(place, ErrorCode.NETWORK_EXCEPTION) for place in epochs}


def _epoch(cluster: Cluster, place: Place) -> int:
    leader = cluster.leader(*place)
    return -1 if leader is None else leader.leader_epoch


def _by_topic(name: str, partitions: Mapping[Place, Message]) -> list[Message]:
    topics: dict[str, list[Message]] = {}
    for (topic, _), each in partitions.items():
        topics.setdefault(topic, []).append(each)
    return [{name: topic, "partitions": each} for topic, each in topics.items()]


async def _ask_leaders(
    cluster: Cluster,
    places: list[Place],
    ask: Callable[[Channel, list[Place]], Awaitable[None]],
) -> None:
    """Ask the leaders of these partitions, all at once; who does not answer is left out."""
    by_leader: dict[int, list[Place]] = {}
    for place in places:
        leader = cluster.leader(*place)
        if leader is not None:
            by_leader.setdefault(leader.leader, []).append(place)

    async def ask_one(broker_id: int, own: list[Place]) -> None:
        channel = cluster.channel(broker_id)
        try:
            if channel is not None:
                await ask(channel, own)
        except UnsupportedApi:
            unsupported.append(broker_id)
        except NetError:
            cluster.expire()

    unsupported: list[int] = []
    async with trio.open_nursery() as nursery:
        for broker_id, own in by_leader.items():
            nursery.start_soon(ask_one, broker_id, own)
    if unsupported:
        raise UnsupportedApi(f"broker {unsupported[0]} cannot answer this")
