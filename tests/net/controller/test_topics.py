"""Topics are created, grown and deleted by requests of every version."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from net.controller.apis.exchange import MAX_MESSAGE_CHARS
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import ControllerConfig
from tests.net.controller.world import Cluster, new_topic, run, versions

NO_ID = UUID(int=0)


async def create(
    cluster: Cluster, *topics: Message, version: int = 7, validate_only: bool = False
) -> list[Message]:
    message = {"topics": list(topics), "timeout": 60_000, "validate_only": validate_only}
    answer = await cluster.ask(Api.CREATE_TOPICS, version, message)
    found: list[Message] = answer["topics"]
    assert [each["name"] for each in found] == [each["name"] for each in topics]
    return found


@pytest.mark.parametrize("version", versions(Api.CREATE_TOPICS))
def test_a_topic_is_created_and_told_of(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        topic = new_topic("t", 3, 3, retention_ms="1000", min_insync_replicas="3")
        (result,) = await create(cluster, topic, version=version)
        assert (result["error_code"], result["error_message"]) == (0, None)
        known = cluster.image.topics["t"]
        assert known.partitions == 3
        assert known.config.min_isr == 3
        assert dict(known.config.other) == {"retention.ms": "1000", "min.insync.replicas": "3"}
        assert len(cluster.partition().replicas) == 3
        if version >= 5:
            assert (result["num_partitions"], result["replication_factor"]) == (3, 3)
            told = {each["name"]: each for each in result["configs"]}
            assert told["retention.ms"]["value"] == "1000"
            assert told["retention.ms"]["config_source"] == 1
            assert told["cleanup.policy"] == {
                **told["cleanup.policy"],
                "value": "delete",
                "config_source": 5,
            }
        if version >= 7:
            assert str(result["topic_id"]) == known.id
            assert result["topic_id"].version == 4

    run(body, tmp_path)


def test_what_is_not_said_is_the_controllers_default(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        (result,) = await create(cluster, new_topic("t"))
        assert (result["num_partitions"], result["replication_factor"]) == (2, 2)
        assert cluster.image.topics["t"].config.min_isr == 2
        assert dict(cluster.image.topics["t"].config.other) == {}

    run(body, tmp_path)


def test_replicas_go_where_they_are_wanted(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        topic = new_topic("t", assignment=[[3, 1], [2, 3]])
        # In any order.
        topic["assignments"].reverse()
        (result,) = await create(cluster, topic)
        assert (result["num_partitions"], result["replication_factor"]) == (2, 2)
        assert cluster.partition(index=0).replicas == (3, 1)
        assert cluster.partition(index=1).replicas == (2, 3)

    run(body, tmp_path)


GAP = new_topic("u", assignment=[[1], [2]])
GAP["assignments"][1]["partition_index"] = 2
TWICE = new_topic("u", assignment=[[1], [2]])
TWICE["assignments"][1]["partition_index"] = 0
NULL = new_topic("u", retention_ms="1")
NULL["configs"][0]["value"] = None
SAME = new_topic("u", retention_ms="1")
SAME["configs"].append({"name": "retention.ms", "value": "2"})


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new_topic("t"), 36),
        (new_topic(""), 17),
        (new_topic("."), 17),
        (new_topic(".."), 17),
        (new_topic("a/b"), 17),
        (new_topic("x" * 250), 17),
        (new_topic("dotted.name"), 17),
        (new_topic("u", 0), 37),
        (new_topic("u", 1, 4), 38),
        (new_topic("u", assignment=[[9]]), 39),
        (new_topic("u", 1, assignment=[[1]]), 42),
        (GAP, 39),
        (TWICE, 39),
        (new_topic("u", retention_ms="soon"), 40),
        (new_topic("u", no_such="1"), 40),
        (new_topic("u", min_insync_replicas="9"), 40),
        (NULL, 40),
        (SAME, 40),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_a_reason(
    topic: Message, error: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await create(cluster, new_topic("t"), new_topic("dotted_name"))
        (bad, good) = await create(cluster, topic, new_topic("good"))
        assert bad["error_code"] == error
        assert bad["error_message"]
        assert bad["topic_id"] == NO_ID
        # It is no obstacle for the others.
        assert good["error_code"] == 0
        assert sorted(cluster.image.topics) == ["dotted_name", "good", "t"]

    run(body, tmp_path)


def test_names_that_differ_only_in_dots_collide_within_a_request_too(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        results = await create(cluster, new_topic("a.b"), new_topic("a_b"), new_topic("a-b"))
        assert [each["error_code"] for each in results] == [0, 17, 0]
        assert "a.b" in results[1]["error_message"]

    run(body, tmp_path)


def test_a_name_that_is_given_twice_is_created_for_nobody(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        results = await create(cluster, new_topic("a"), new_topic("b"), new_topic("a"))
        assert [each["error_code"] for each in results] == [42, 0, 42]
        assert list(cluster.image.topics) == ["b"]

    run(body, tmp_path)


@pytest.mark.parametrize("version", versions(Api.CREATE_TOPICS))
def test_a_topic_can_be_tried(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        results = await create(
            cluster, new_topic("a", 1, 1), new_topic("b", 1, 9), version=version, validate_only=True
        )
        assert [each["error_code"] for each in results] == [0, 38]
        assert not cluster.image.topics

    run(body, tmp_path)


def test_a_long_name_does_not_break_the_answer(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        (bad,) = await create(cluster, new_topic("x" * 32_000), version=2)
        assert bad["error_code"] == 17
        assert len(bad["error_message"]) <= MAX_MESSAGE_CHARS

    run(body, tmp_path)


def test_every_topic_has_an_id_of_its_own(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await create(cluster, new_topic("a"), new_topic("b"))
        assert cluster.topic_id("a") != cluster.topic_id("b")
        assert cluster.node.topic_of(cluster.topic_id("a")) == "a"

    run(body, tmp_path)


@pytest.mark.parametrize("version", versions(Api.DELETE_TOPICS))
def test_topics_are_deleted_by_name(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await create(cluster, new_topic("a"), new_topic("b"), new_topic("c"))
        names = ["a", "gone", "b"]
        message: Message = {"timeout": 60_000}
        if version >= 6:
            message["topics"] = [{"name": name, "topic_id": NO_ID} for name in names]
        else:
            message["topic_names"] = names
        answer = await cluster.ask(Api.DELETE_TOPICS, version, message)
        found = [(each["name"], each["error_code"]) for each in answer["responses"]]
        assert found == [("a", 0), ("gone", 3), ("b", 0)]
        assert list(cluster.image.topics) == ["c"]

    run(body, tmp_path)


def test_topics_are_deleted_by_id(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await create(cluster, new_topic("a"), new_topic("b"))
        known, unknown = cluster.topic_id("a"), UUID(int=5)
        asked = [(None, known), (None, unknown), ("b", cluster.topic_id("b")), (None, NO_ID)]
        message = {
            "topics": [{"name": name, "topic_id": topic_id} for name, topic_id in asked],
            "timeout": 60_000,
        }
        answer = await cluster.ask(Api.DELETE_TOPICS, 6, message)
        responses = answer["responses"]
        assert [each["error_code"] for each in responses] == [0, 100, 42, 42]
        assert (responses[0]["name"], responses[0]["topic_id"]) == ("a", known)
        assert list(cluster.image.topics) == ["b"]
        assert cluster.node.topic_of(known) is None

    run(body, tmp_path)


async def grow(cluster: Cluster, *topics: Message, version: int = 3, **more: Any) -> list[Message]:
    message = {"topics": list(topics), "timeout": 60_000, "validate_only": False, **more}
    answer = await cluster.ask(Api.CREATE_PARTITIONS, version, message)
    found: list[Message] = answer["results"]
    return found


def wider(name: str, count: int, assignment: list[list[int]] | None = None) -> Message:
    given = None if assignment is None else [{"broker_ids": each} for each in assignment]
    return {"name": name, "count": count, "assignments": given}


@pytest.mark.parametrize("version", versions(Api.CREATE_PARTITIONS))
def test_topics_grow(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await create(cluster, new_topic("a"), new_topic("b"))
        results = await grow(
            cluster,
            wider("a", 4),
            wider("b", 3, [[2, 1]]),
            wider("c", 3),
            version=version,
        )
        assert [(each["name"], each["error_code"]) for each in results] == [
            ("a", 0),
            ("b", 0),
            ("c", 3),
        ]
        assert cluster.image.topics["a"].partitions == 4
        assert cluster.partition("b", 2).replicas == (2, 1)

    run(body, tmp_path)


def test_growing_can_be_tried_and_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await create(cluster, new_topic("a"), new_topic("b"))
        tried = await grow(cluster, wider("a", 4), wider("b", 1), validate_only=True)
        assert [each["error_code"] for each in tried] == [0, 37]
        assert tried[1]["error_message"]
        assert cluster.image.topics["a"].partitions == 2
        twice = await grow(cluster, wider("a", 4), wider("a", 5))
        assert [each["error_code"] for each in twice] == [42, 42]

    run(body, tmp_path)


def test_a_request_names_only_so_many_topics(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        results = await create(cluster, *(new_topic(name) for name in "abc"))
        assert {each["error_code"] for each in results} == {42}
        message = {"topic_names": list("abc"), "timeout": 60_000}
        answer = await cluster.ask(Api.DELETE_TOPICS, 5, message)
        assert {each["error_code"] for each in answer["responses"]} == {42}
        grown = await grow(cluster, *(wider(name, 3) for name in "abc"))
        assert {each["error_code"] for each in grown} == {42}

    run(body, tmp_path, ControllerConfig(max_items_per_command=2, default_replication_factor=2))
