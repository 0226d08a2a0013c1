"""ISRs, elections and moves, by requests of every version."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import ControllerConfig
from tests.net.controller.world import Cluster, later, run, versions


def proposal(
    cluster: Cluster, isr: dict[int, int], version: int, topic_id: UUID | None = None, **more: Any
) -> Message:
    """What the leader of a topic's first partition proposes; with each one's broker epoch."""
    known = cluster.partition()
    partition = {
        "partition_index": 0,
        "leader_epoch": known.leader_epoch,
        "leader_recovery_state": 0,
        "partition_epoch": known.version,
        **more,
    }
    if version >= 3:
        partition["new_isr_with_epochs"] = [
            {"broker_id": node, "broker_epoch": epoch} for node, epoch in isr.items()
        ]
    else:
        partition["new_isr"] = list(isr)
    return {
        "broker_id": known.leader,
        "broker_epoch": cluster.epochs[known.leader],
        "topics": [
            {
                "topic_id": cluster.topic_id() if topic_id is None else topic_id,
                "partitions": [partition],
            }
        ],
    }


async def propose(cluster: Cluster, isr: dict[int, int], version: int = 3, **more: Any) -> Message:
    message = proposal(cluster, isr, version, **more)
    answer = await cluster.ask(Api.ALTER_PARTITION, version, message)
    assert answer["error_code"] == 0
    (topic,) = answer["topics"]
    (result,) = topic["partitions"]
    assert topic["topic_id"] == message["topics"][0]["topic_id"]
    found: Message = result
    return found


@pytest.mark.parametrize("version", versions(Api.ALTER_PARTITION))
def test_a_leader_changes_its_isr_and_is_told_the_new_record(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        await cluster.topic([1, 2, 3])
        for isr in ({1: 1}, {1: 1, 3: 1}, {1: 1, 2: 1, 3: 1}):
            before = cluster.partition()
            result = await propose(cluster, isr, version)
            after = cluster.partition()
            assert result["error_code"] == 0
            assert result["isr"] == sorted(isr) == sorted(after.isr)
            assert result["partition_epoch"] == after.version == before.version + 1
            assert (result["leader_id"], result["leader_epoch"]) == (1, after.leader_epoch)

    run(body, tmp_path)


def test_who_joins_must_be_the_incarnation_that_caught_up(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2], min_insync_replicas="1")
        await propose(cluster, {1: 1})
        assert (await propose(cluster, {1: 1, 2: 7}))["error_code"] == 107
        assert cluster.partition().isr == {1}
        # Not said: as it was before KIP-903.
        assert (await propose(cluster, {1: 1, 2: -1}))["error_code"] == 0

    run(body, tmp_path)


@pytest.mark.parametrize(
    ("isr", "more", "error"),
    [
        ({1: 1}, {"partition_epoch": 0}, 95),
        ({1: 1}, {"leader_epoch": 0, "partition_epoch": 0}, 74),
        ({}, {}, 42),
        ({9: 1}, {}, 42),
        ({1: 1}, {"partition_index": 5}, 3),
        ({1: 1}, {"topic_id": UUID(int=5)}, 100),
    ],
)
def test_a_proposal_that_is_not_current_is_refused(
    isr: dict[int, int], more: dict[str, Any], error: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2])
        before = cluster.image
        assert (await propose(cluster, isr, **more))["error_code"] == error
        assert cluster.image is before

    run(body, tmp_path)


def test_partitions_of_a_request_are_decided_each_on_its_own(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2], [1, 2], min_insync_replicas="1")
        await cluster.topic([1, 2], name="u", min_insync_replicas="1")
        one = proposal(cluster, {1: 1}, 3)
        (partition,) = one["topics"][0]["partitions"]
        stale = {**partition, "partition_index": 1, "partition_epoch": 0}
        one["topics"][0]["partitions"].append(stale)
        one["topics"].append({"topic_id": cluster.topic_id("u"), "partitions": [partition]})
        answer = await cluster.ask(Api.ALTER_PARTITION, 3, one)
        found = {
            (topic["topic_id"], each["partition_index"]): each["error_code"]
            for topic in answer["topics"]
            for each in topic["partitions"]
        }
        t, u = cluster.topic_id(), cluster.topic_id("u")
        assert found == {(t, 0): 0, (t, 1): 95, (u, 0): 0}
        assert cluster.partition("u").isr == {1}

    run(body, tmp_path)


def test_proposals_and_decisions_are_traced_by_the_names_of_the_wire(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2], min_insync_replicas="1")
        await propose(cluster, {1: 1})
        accepted = cluster.sent
        await propose(cluster, {1: 1}, partition_epoch=0)
        refused = cluster.sent
        created, first, second = cluster.lines
        assert created["action"] == "CreateTopics"
        assert first["received"] == f"p1-1-{accepted}"
        assert [step["name"] for step in first["steps"]] == ["CommitIsr"]
        assert first["state"]["isr"] == [1]
        assert second["received"] == f"p1-1-{refused}"
        assert second["refused"] == 95
        assert [line["seq"] for line in cluster.lines] == [0, 1, 2]

    run(body, tmp_path)


async def elect(
    cluster: Cluster, kind: int, partitions: list[int] | None, version: int = 2
) -> Message:
    topics = None if partitions is None else [{"topic": "t", "partitions": partitions}]
    message = {"election_type": kind, "topic_partitions": topics, "timeout": 60_000}
    return await cluster.ask(Api.ELECT_LEADERS, version, message)


def errors(answer: Message) -> dict[int, int]:
    return {
        each["partition_id"]: each["error_code"]
        for topic in answer["replica_election_results"]
        for each in topic["partition_result"]
    }


async def hand_over(cluster: Cluster) -> None:
    """Let broker 1 restart in good order, so that all is led by the others."""
    await cluster.heartbeat(1, want_shut_down=True)
    incarnation = UUID(int=77)
    await cluster.register(1, incarnation_id=incarnation, previous_broker_epoch=1)
    await cluster.heartbeat(1)


@pytest.mark.parametrize("version", versions(Api.ELECT_LEADERS))
def test_the_preferred_leader_is_elected_where_it_can_be(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2], [1, 2], [2, 1], min_insync_replicas="1")
        await hand_over(cluster)
        await propose(cluster, {2: 1, 1: 2})
        assert cluster.partition().leader == 2
        answer = await elect(cluster, 0, [0, 1, 2, 9], version)
        assert errors(answer) == {0: 0, 1: 80, 2: 84, 9: 3}
        assert cluster.partition().leader == 1
        if version >= 1:
            assert answer["error_code"] == 0

    run(body, tmp_path)


def test_elections_happen_wherever_they_are_needed(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic(*[[1, 2]] * 5, [2, 1], min_insync_replicas="1")
        await hand_over(cluster)
        for index in range(5):
            known = cluster.partition(index=index)
            await propose(
                cluster, {2: 1, 1: 2}, partition_index=index, partition_epoch=known.version
            )
        # More than one command may do.
        answer = await elect(cluster, 0, None)
        assert errors(answer) == dict.fromkeys(range(5), 0)
        assert {cluster.partition(index=index).leader for index in range(5)} == {1}

    run(body, tmp_path, ControllerConfig(max_items_per_command=2))


def test_an_unclean_election_is_one_that_the_topic_allows(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2], min_insync_replicas="1")
        await propose(cluster, {1: 1})
        # The only one in sync is gone, and came back without its data.
        await later(30)
        await cluster.heartbeat(2)
        assert cluster.partition().leader == -1
        assert errors(await elect(cluster, 1, [0])) == {0: 83}

    run(body, tmp_path)


def test_an_election_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(1)
        await cluster.topic([1], min_insync_replicas="1")
        answer = await elect(cluster, 9, [0])
        assert answer["error_code"] == 42
        assert errors(answer) == {0: 42}

    run(body, tmp_path)


async def move(cluster: Cluster, moves: dict[int, list[int] | None], version: int = 1) -> Message:
    partitions = [
        {"partition_index": index, "replicas": replicas} for index, replicas in moves.items()
    ]
    message = {"timeout": 60_000, "topics": [{"name": "t", "partitions": partitions}]}
    return await cluster.ask(Api.ALTER_PARTITION_REASSIGNMENTS, version, message)


def moved(answer: Message) -> dict[int, int]:
    (topic,) = answer["responses"]
    return {each["partition_index"]: each["error_code"] for each in topic["partitions"]}


@pytest.mark.parametrize("version", versions(Api.ALTER_PARTITION_REASSIGNMENTS))
def test_partitions_are_moved_and_the_move_is_listed_and_given_up(
    version: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        await cluster.topic([1, 2], [1, 2], min_insync_replicas="1")
        answer = await move(cluster, {0: [3, 1], 1: [9], 7: [1], 5: None}, version)
        assert answer["error_code"] == 0
        assert moved(answer) == {0: 0, 1: 39, 7: 3, 5: 3}
        assert cluster.partition().adding == {3}
        for topics in (None, [{"name": "t", "partition_indexes": [0, 1, 4]}]):
            message = {"timeout": 60_000, "topics": topics}
            listed = await cluster.ask(Api.LIST_PARTITION_REASSIGNMENTS, 0, message)
            (topic,) = listed["topics"]
            assert topic["name"] == "t"
            assert topic["partitions"] == [
                {
                    "partition_index": 0,
                    "replicas": [3, 1, 2],
                    "adding_replicas": [3],
                    "removing_replicas": [2],
                }
            ]
        assert moved(await move(cluster, {0: None, 1: None}, version)) == {0: 0, 1: 85}
        assert cluster.partition().replicas == (1, 2)
        message = {"timeout": 60_000, "topics": None}
        listed = await cluster.ask(Api.LIST_PARTITION_REASSIGNMENTS, 0, message)
        assert (listed["error_code"], listed["topics"]) == (0, [])

    run(body, tmp_path)


def test_a_move_is_over_when_the_target_is_in_sync(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        await cluster.topic([1, 2], min_insync_replicas="1")
        await move(cluster, {0: [3, 1]})
        result = await propose(cluster, {1: 1, 2: 1, 3: 1})
        assert result["isr"] == [1, 3]
        assert cluster.partition().replicas == (3, 1)

    run(body, tmp_path)


@pytest.mark.parametrize(("allowed", "error"), [(True, 0), (False, 38)])
def test_the_number_of_replicas_changes_only_where_that_is_meant(
    allowed: bool, error: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        await cluster.topic([1, 2], min_insync_replicas="1")
        message = {
            "timeout": 60_000,
            "allow_replication_factor_change": allowed,
            "topics": [
                {"name": "t", "partitions": [{"partition_index": 0, "replicas": [1, 2, 3]}]}
            ],
        }
        answer = await cluster.ask(Api.ALTER_PARTITION_REASSIGNMENTS, 1, message)
        assert moved(answer) == {0: error}
        assert answer["allow_replication_factor_change"] is allowed

    run(body, tmp_path)
