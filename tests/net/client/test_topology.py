"""A picture that lags behind does not bring back a leader that is deposed."""

from __future__ import annotations

import uuid

import pytest

from net.client.config import parse_bootstrap
from net.client.topology import NO_ID, ClusterInfo, PartitionInfo, TopicInfo, keep_newer
from net.errors import BadSetting
from net.transport.seam import Endpoint

_ONE, _OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def _cluster(topic_id: uuid.UUID, *partitions: tuple[int, int]) -> ClusterInfo:
    infos = tuple(
        PartitionInfo(index, leader, epoch, (1, 2), (1, 2))
        for index, (leader, epoch) in enumerate(partitions)
    )
    return ClusterInfo("id", 1, {}, {"topic": TopicInfo("topic", topic_id, infos)})


def _leaders(info: ClusterInfo) -> list[tuple[int, int]]:
    return [(each.leader, each.leader_epoch) for each in info.topics["topic"].partitions]


def test_an_older_epoch_is_kept_out_partition_by_partition() -> None:
    old, new = _cluster(_ONE, (1, 5), (1, 5), (1, 5)), _cluster(_ONE, (2, 4), (2, 6), (-1, 5))
    assert _leaders(keep_newer(old, new)) == [(1, 5), (2, 6), (-1, 5)]


@pytest.mark.parametrize(("before", "after"), [(_ONE, _OTHER), (NO_ID, NO_ID), (NO_ID, _ONE)])
def test_a_topic_that_may_be_another_one_is_believed(before: uuid.UUID, after: uuid.UUID) -> None:
    old, new = _cluster(before, (1, 5)), _cluster(after, (2, 0), (2, 0))
    assert _leaders(keep_newer(old, new)) == [(2, 0), (2, 0)]


def test_bootstrap_servers_are_read() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == (Endpoint("a", 1), Endpoint("::1", 2))
    assert parse_bootstrap(["a:1"]) == (Endpoint("a", 1),)


@pytest.mark.parametrize("servers", ["", "a", "a:", ":1", "a:70000", "a:1,", "a:-1", []])
def test_bad_bootstrap_servers_are_named(servers: str | list[str]) -> None:
    with pytest.raises(BadSetting, match="bootstrap servers"):
        parse_bootstrap(servers)
