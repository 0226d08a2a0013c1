"""Brokers register, stay alive, stop, and go for good, by requests of every version."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from net.wire.apis import Api
from tests.net.controller.world import Cluster, later, run, versions


@pytest.mark.parametrize("version", versions(Api.BROKER_REGISTRATION))
def test_a_broker_registers_and_everybody_knows_where_it_is(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        answer = await cluster.register(1, version, rack="r")
        assert (answer["error_code"], answer["broker_epoch"]) == (0, 1)
        broker = cluster.image.brokers[1]
        assert broker.endpoints == (("PLAIN", "b1", 9092, 0),)
        assert (broker.rack, broker.fenced) == ("r", True)
        assert broker.incarnation == str(UUID(int=1001))

    run(body, tmp_path)


def test_a_registration_that_is_sent_twice_counts_once(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        assert (await cluster.register(1))["broker_epoch"] == 1
        assert (await cluster.register(1))["broker_epoch"] == 1
        again = await cluster.register(1, incarnation_id=UUID(int=7))
        assert again["broker_epoch"] == 2

    run(body, tmp_path)


def test_a_broker_that_is_alive_is_not_pushed_out(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(1)
        other = await cluster.register(1, incarnation_id=UUID(int=7))
        assert (other["error_code"], other["broker_epoch"]) == (101, -1)

    run(body, tmp_path)


@pytest.mark.parametrize(("previous", "eligible"), [(1, True), (0, False), (-1, False)])
def test_who_knows_its_last_epoch_has_stopped_in_good_order(
    previous: int, eligible: bool, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(1)
        await cluster.topic([1], name="t")
        # Its session ends, and it is the only one that could lead.
        await later(60)
        assert cluster.partition().leader == -1
        assert cluster.partition().elr == {1}
        await cluster.register(1, incarnation_id=UUID(int=7), previous_broker_epoch=previous)
        assert cluster.partition().leader == -1
        assert (cluster.partition().elr == {1}) == eligible

    run(body, tmp_path, min_insync_replicas="1", default_replication_factor="1")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, 104),
        ({"incarnation_id": UUID(int=0)}, 42),
        ({"broker_id": -3}, 42),
        ({"listeners": []}, 42),
        (
            {
                "listeners": [
                    {"name": f"L{n}", "host": "h", "port": 1, "security_protocol": 0}
                    for n in range(17)
                ]
            },
            42,
        ),
        ({"rack": "x" * 256}, 42),
        (
            {
                "listeners": [
                    {"name": "L", "host": "h" * 256, "port": 1, "security_protocol": 0},
                ]
            },
            42,
        ),
        ({"is_migrating_zk_broker": True}, 42),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(
    changes: dict[str, Any], error: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        answer = await cluster.register(1, **changes)
        assert (answer["error_code"], answer["broker_epoch"]) == (error, -1)
        assert not cluster.image.brokers

    run(body, tmp_path)


@pytest.mark.parametrize("version", versions(Api.BROKER_HEARTBEAT))
def test_a_broker_is_unfenced_when_it_has_read_its_own_registration(
    version: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.register(5)
        await cluster.register(1)
        at = cluster.node.registered_at(1, 1)
        assert at is not None
        early = await cluster.heartbeat(1, version, current_metadata_offset=at - 1)
        assert (early["is_caught_up"], early["is_fenced"]) == (False, True)
        shy = await cluster.heartbeat(1, version, current_metadata_offset=at, want_fence=True)
        assert (shy["is_caught_up"], shy["is_fenced"]) == (True, True)
        assert cluster.image.brokers[1].fenced
        late = await cluster.heartbeat(1, version, current_metadata_offset=at)
        assert late["error_code"] == 0
        assert (late["is_caught_up"], late["is_fenced"]) == (True, False)
        assert late["should_shut_down"] is False
        assert not cluster.image.brokers[1].fenced

    run(body, tmp_path)


def test_a_broker_that_is_not_heard_is_fenced_in_time(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        timeout_s = cluster.node.config.session_timeout_ms / 1000
        for _ in range(3):
            await later(timeout_s / 2)
            await cluster.heartbeat(2)
        assert cluster.image.brokers[1].fenced
        assert not cluster.image.brokers[2].fenced

    run(body, tmp_path)


def test_a_broker_that_wants_to_stop_hands_over_first(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2], min_insync_replicas="1")
        answer = await cluster.heartbeat(1, want_shut_down=True)
        assert answer["should_shut_down"] is True
        assert cluster.partition().leader == 2
        assert cluster.partition().isr == {2}

    run(body, tmp_path)


def test_a_heartbeat_of_somebody_else_is_refused(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(1)
        stale = await cluster.heartbeat(1, broker_epoch=9)
        assert (stale["error_code"], stale["is_fenced"]) == (77, True)
        cluster.epochs[8] = 1
        assert (await cluster.heartbeat(8))["error_code"] == 102

    run(body, tmp_path)


def test_a_broker_without_partitions_can_be_forgotten(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1], min_insync_replicas="1")
        kept = await cluster.ask(Api.UNREGISTER_BROKER, 0, {"broker_id": 1})
        assert kept["error_code"] == 42
        assert "decommission" in kept["error_message"]
        gone = await cluster.ask(Api.UNREGISTER_BROKER, 0, {"broker_id": 2})
        assert (gone["error_code"], gone["error_message"]) == (0, None)
        assert list(cluster.image.brokers) == [1]
        unknown = await cluster.ask(Api.UNREGISTER_BROKER, 0, {"broker_id": 2})
        assert unknown["error_code"] == 102

    run(body, tmp_path)


def test_producer_ids_are_given_in_blocks_that_nobody_else_gets(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        seen = []
        for node in (1, 2, 1):
            message = {"broker_id": node, "broker_epoch": 1}
            answer = await cluster.ask(Api.ALLOCATE_PRODUCER_IDS, 0, message)
            assert answer["error_code"] == 0
            seen.append((answer["producer_id_start"], answer["producer_id_len"]))
        assert seen == [(0, 1000), (1000, 1000), (2000, 1000)]
        assert cluster.image.next_producer_id == 3000
        stale = {"broker_id": 1, "broker_epoch": 9}
        refused = await cluster.ask(Api.ALLOCATE_PRODUCER_IDS, 0, stale)
        assert (refused["error_code"], refused["producer_id_len"]) == (77, 0)

    run(body, tmp_path)
