"""Settings of topics and brokers change by requests of every version, or are refused by name."""

from pathlib import Path
from typing import Any

import pytest

from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import EVERY_BROKER, ControllerConfig
from tests.net.controller.world import Cluster, run, versions

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Message:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": setting, "config_operation": operation, "value": value}
            for setting, operation, value in changes
        ],
    }


async def alter(
    cluster: Cluster, *resources: Message, version: int = 1, validate_only: bool = False
) -> list[Message]:
    message = {"resources": list(resources), "validate_only": validate_only}
    answer = await cluster.ask(Api.INCREMENTAL_ALTER_CONFIGS, version, message)
    found: list[Message] = answer["responses"]
    names = [(each["resource_type"], each["resource_name"]) for each in resources]
    assert [(each["resource_type"], each["resource_name"]) for each in found] == names
    return found


async def replace(
    cluster: Cluster, kind: int, name: str, version: int = 2, **settings: str
) -> Message:
    configs = [
        {"name": setting.replace("_", "."), "value": value} for setting, value in settings.items()
    ]
    asked = {"resource_type": kind, "resource_name": name, "configs": configs}
    message = {"resources": [asked], "validate_only": False}
    (response,) = (await cluster.ask(Api.ALTER_CONFIGS, version, message))["responses"]
    found: Message = response
    return found


def leaves(cluster: Cluster, node: int) -> bool:
    return cluster.image.brokers[node].decommissioning


def said(cluster: Cluster, name: str = "t") -> dict[str, str]:
    return dict(cluster.image.topics[name].config.other)


@pytest.mark.parametrize("version", versions(Api.INCREMENTAL_ALTER_CONFIGS))
def test_settings_of_a_topic_are_set_removed_and_edited(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        await cluster.topic([1, 2, 3], retention_ms="5")
        (first,) = await alter(
            cluster,
            resource(
                TOPIC,
                "t",
                ("retention.bytes", SET, "7"),
                ("retention.ms", DELETE, None),
                ("cleanup.policy", APPEND, "compact"),
                ("min.insync.replicas", SET, "3"),
                ("unclean.leader.election.enable", SET, "true"),
            ),
            version=version,
        )
        assert (first["error_code"], first["error_message"]) == (0, None)
        assert said(cluster) == {
            "retention.bytes": "7",
            "cleanup.policy": "delete,compact",
            "min.insync.replicas": "3",
            "unclean.leader.election.enable": "true",
        }
        config = cluster.image.topics["t"].config
        assert (config.min_isr, config.unclean_election) == (3, True)
        (second,) = await alter(
            cluster,
            resource(
                TOPIC,
                "t",
                ("cleanup.policy", SUBTRACT, "delete"),
                ("min.insync.replicas", DELETE, None),
                ("unclean.leader.election.enable", DELETE, None),
            ),
            version=version,
        )
        assert second["error_code"] == 0
        assert said(cluster) == {"retention.bytes": "7", "cleanup.policy": "compact"}
        config = cluster.image.topics["t"].config
        assert (config.min_isr, config.unclean_election) == (2, False)

    run(body, tmp_path)


@pytest.mark.parametrize("version", versions(Api.ALTER_CONFIGS))
def test_replacing_removes_what_is_not_named(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        await cluster.topic([1, 2, 3], retention_ms="5", min_insync_replicas="3")
        answer = await replace(cluster, TOPIC, "t", version, retention_bytes="9")
        assert answer["error_code"] == 0
        assert said(cluster) == {"retention.bytes": "9"}
        assert cluster.image.topics["t"].config.min_isr == 2

    run(body, tmp_path)


@pytest.mark.parametrize(
    ("asked", "error", "named"),
    [
        (resource(TOPIC, "gone", ("retention.ms", SET, "1")), 3, "gone"),
        (resource(TOPIC, "t", ("retention.ms", SET, "soon")), 40, "retention.ms"),
        (resource(TOPIC, "t", ("no.such", SET, "1")), 40, "no.such"),
        (resource(TOPIC, "t", ("retention.ms", APPEND, "1")), 40, "retention.ms"),
        (resource(TOPIC, "t", ("retention.ms", SET, None)), 40, "retention.ms"),
        (resource(TOPIC, "t", ("retention.ms", 9, "1")), 40, "retention.ms"),
        (resource(TOPIC, "t", ("min.insync.replicas", SET, "9")), 40, "min.insync.replicas"),
        (
            resource(TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            40,
            "retention.ms",
        ),
        (resource(BROKER, "one", ("message.max.bytes", SET, "1000")), 42, "one"),
        (resource(BROKER, "9", ("message.max.bytes", SET, "1000")), 102, "9"),
        (resource(BROKER, "1", ("node.id", SET, "1")), 40, "node.id"),
        (resource(BROKER, "", ("hwmark.decommission", SET, "true")), 40, "hwmark.decommission"),
        (resource(8, "1", ("root", SET, "DEBUG")), 42, "8"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    asked: Message, error: int, named: str, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2])
        good = resource(TOPIC, "t", ("segment.bytes", SET, "4096"))
        if asked["resource_name"] == "t":
            good = resource(BROKER, "1")
        results = await alter(cluster, asked, good)
        assert [each["error_code"] for each in results] == [error, 0]
        assert named in results[0]["error_message"]
        assert "retention.ms" not in said(cluster)

    run(body, tmp_path)


def test_a_resource_that_is_named_twice_is_changed_for_nobody(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2])
        change = resource(TOPIC, "t", ("retention.ms", SET, "1"))
        results = await alter(cluster, change, change)
        assert [each["error_code"] for each in results] == [42, 42]
        assert said(cluster) == {}

    run(body, tmp_path)


def test_a_change_can_be_tried(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2])
        before = cluster.image
        results = await alter(
            cluster,
            resource(TOPIC, "t", ("retention.ms", SET, "1")),
            resource(BROKER, "1", ("message.max.bytes", SET, "1000")),
            resource(BROKER, "2", ("hwmark.decommission", SET, "true")),
            resource(BROKER, "7", ("hwmark.decommission", SET, "true")),
            validate_only=True,
        )
        assert [each["error_code"] for each in results] == [0, 0, 0, 102]
        assert cluster.image == before

    run(body, tmp_path)


def test_settings_of_one_broker_and_of_all_are_kept(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        results = await alter(
            cluster,
            resource(BROKER, "1", ("message.max.bytes", SET, "1000")),
            resource(BROKER, "", ("message.max.bytes", SET, "2000")),
        )
        assert [each["error_code"] for each in results] == [0, 0]
        configs = cluster.image.broker_configs
        assert dict(configs[1]) == {"message.max.bytes": "1000"}
        assert dict(configs[EVERY_BROKER]) == {"message.max.bytes": "2000"}
        assert (await replace(cluster, BROKER, "1"))["error_code"] == 0
        assert list(cluster.image.broker_configs) == [EVERY_BROKER]

    run(body, tmp_path)


def test_a_broker_is_decommissioned_by_a_setting_and_back(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(3)
        # More partitions than one command moves.
        await cluster.topic(*[[1, 2]] * 7, min_insync_replicas="1")
        (on,) = await alter(
            cluster,
            resource(
                BROKER,
                "1",
                ("hwmark.decommission", SET, "true"),
                ("message.max.bytes", SET, "1000"),
            ),
        )
        assert (on["error_code"], on["error_message"]) == (0, None)
        assert leaves(cluster, 1)
        assert all(each.removing == {1} for each in cluster.image.partitions.values())
        assert dict(cluster.image.broker_configs[1]) == {
            "hwmark.decommission": "true",
            "message.max.bytes": "1000",
        }
        (off,) = await alter(cluster, resource(BROKER, "1", ("hwmark.decommission", DELETE, None)))
        assert off["error_code"] == 0
        assert not leaves(cluster, 1)
        assert dict(cluster.image.broker_configs[1]) == {"message.max.bytes": "1000"}

    run(body, tmp_path, ControllerConfig(max_items_per_command=3))


def test_replacing_all_settings_stops_a_decommission_that_is_not_among_them(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        assert (await replace(cluster, BROKER, "1", hwmark_decommission="true"))["error_code"] == 0
        assert leaves(cluster, 1)
        assert (await replace(cluster, BROKER, "1"))["error_code"] == 0
        assert not leaves(cluster, 1)

    run(body, tmp_path)


def test_a_decommission_that_nobody_could_take_over_is_refused_and_not_remembered(
    tmp_path: Path,
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        await cluster.topic([1, 2])
        (result,) = await alter(
            cluster, resource(BROKER, "1", ("hwmark.decommission", SET, "true"))
        )
        assert result["error_code"] == 38
        assert not leaves(cluster, 1)
        assert not cluster.image.broker_configs

    run(body, tmp_path)


def test_a_request_changes_only_so_much(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        changes: list[Any] = [("retention.ms", SET, "1"), ("retention.bytes", SET, "1")]
        (result,) = await alter(cluster, resource(TOPIC, "t", *changes))
        assert result["error_code"] == 42
        assert "at most 2" in result["error_message"]

    run(body, tmp_path, ControllerConfig(max_items_per_command=2))
