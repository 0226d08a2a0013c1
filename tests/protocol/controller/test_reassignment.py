"""Partitions move to other brokers, and brokers go for good (KIP-455)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from protocol.controller import (
    AlterReassignment,
    AppendRecords,
    ControllerConfig,
    CreateTopics,
    Decommission,
    DecommissionProgress,
    NewTopic,
    Partition,
    PartitionRecord,
    Unregister,
)
from protocol.errors import ErrorCode
from protocol.types import NO_LEADER

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster


def move(*replicas: int) -> AlterReassignment:
    return AlterReassignment("move", "t", 0, replicas)


CANCEL = AlterReassignment("cancel", "t", 0, None)


@pytest.fixture
def moving(cluster: Callable[..., Cluster]) -> Cluster:
    """A partition on its way from 1, 2 to 3, 2."""
    four: Cluster = cluster(4)
    four.topic((1, 2))
    four.do(move(3, 2))
    return four


def test_a_move_adds_before_it_removes(moving: Cluster) -> None:
    partition = moving.partition()
    assert partition.replicas == (3, 2, 1)
    assert (partition.adding, partition.removing) == (frozenset({3}), frozenset({1}))
    assert partition.isr == {1, 2}
    assert (partition.leader, partition.leader_epoch, partition.version) == (1, 1, 2)
    assert sorted(moving.image.assigned) == [1, 2, 3]


def test_a_move_ends_when_all_of_the_target_is_in_sync(moving: Cluster) -> None:
    effects = moving.handle(moving.proposal({1, 2, 3}, joiner_epoch=1))
    done = Partition("t", 0, (3, 2), frozenset({2, 3}), leader=3, leader_epoch=2, version=3)
    assert moving.partition() == done
    # One decision, one record: nobody ever sees the half of it.
    (append,) = effects
    assert isinstance(append, AppendRecords)
    assert append.records == (PartitionRecord(done),)
    assert sorted(moving.image.assigned) == [2, 3]


def test_a_move_goes_on_while_one_of_the_target_is_not_in_sync(moving: Cluster) -> None:
    moving.fence(2)
    moving.do(moving.proposal({1, 3}, joiner_epoch=1))
    assert moving.partition().reassigning
    moving.heartbeat(2)
    moving.do(moving.proposal({1, 2, 3}, joiner_epoch=1))
    assert moving.partition().replicas == (3, 2)


def test_a_leader_that_stays_keeps_its_epoch(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2))
    three.do(move(1, 3))
    three.do(three.proposal({1, 2, 3}, joiner_epoch=1))
    done = three.partition()
    assert (done.replicas, done.leader, done.leader_epoch) == ((1, 3), 1, 1)
    assert done.isr == {1, 3}


def test_a_move_that_only_removes_ends_at_once(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.do(move(2))
    assert two.partition() == Partition(
        "t", 0, (2,), frozenset({2}), leader=2, leader_epoch=2, version=2
    )


def test_a_move_that_only_changes_the_order_changes_who_is_preferred(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.do(move(2, 1))
    done = two.partition()
    assert (done.replicas, done.leader, done.version) == ((2, 1), 1, 2)


def test_a_move_ends_also_with_an_election(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.fence(2, 1)
    two.do(move(1))
    assert two.partition().reassigning
    two.heartbeat(1)
    two.settle()
    assert two.partition().replicas == (1,)
    assert two.partition().leader == 1


def test_a_move_ends_also_with_an_unclean_election(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1,), unclean=True)
    two.do(move(2))
    two.fence(1)
    two.settle()
    assert two.partition().replicas == (2,)
    assert two.partition().leader == 2


def test_a_move_to_where_it_is_already_going_is_no_change(moving: Cluster) -> None:
    before = moving.image
    assert moving.do(move(3, 2)) == moving.partition()
    assert moving.image is before


def test_a_second_move_waits_for_the_first(moving: Cluster) -> None:
    assert moving.refused(move(4, 2)) == ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_a_move_that_is_cancelled_leaves_who_was_there(moving: Cluster) -> None:
    moving.do(CANCEL)
    done = moving.partition()
    assert sorted(done.replicas) == [1, 2]
    assert not done.reassigning
    assert (done.isr, done.leader, done.version) == (frozenset({1, 2}), 1, 3)
    assert moving.refused(CANCEL) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_cancelled_move_elects_if_a_newcomer_led(moving: Cluster) -> None:
    moving.fence(2)
    moving.do(moving.proposal({1, 3}, joiner_epoch=1))
    moving.fence(1)
    assert moving.partition().leader == 3
    # Without 3 nobody would be in sync.
    assert moving.refused(CANCEL) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    moving.heartbeat(1)
    moving.do(moving.proposal({1, 3}, joiner_epoch=1))
    epoch = moving.partition().leader_epoch
    moving.do(CANCEL)
    done = moving.partition()
    assert (done.leader, done.leader_epoch) == (1, epoch + 1)
    assert done.isr == {1}


def test_who_leaves_with_a_cancelled_move_is_not_eligible_either(
    cluster: Callable[..., Cluster],
) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2), min_isr=2)
    three.do(move(3, 2))
    three.fence(2)
    three.do(three.proposal({1, 3}, joiner_epoch=1))
    three.do(CANCEL)
    done = three.partition()
    assert done.isr == {1}
    assert done.elr == frozenset()


@pytest.mark.parametrize("target", [(), (1, 1), (1, 9), (3,)])
def test_a_target_that_cannot_be_is_refused(
    cluster: Callable[..., Cluster], target: tuple[int, ...]
) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2), min_isr=2)
    assert three.refused(move(*target)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_only_what_exists_is_moved(cluster: Callable[..., Cluster]) -> None:
    assert cluster(1).refused(move(1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_is_emptied_then_unregistered(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2))
    assert three.refused(Unregister("gone", 1)) == ErrorCode.INVALID_REQUEST
    assert three.do(Decommission("empty", 1)) == DecommissionProgress(1, started=1, remaining=1)
    assert three.partition().target == (3, 2)
    assert three.do(Decommission("empty", 1)) == DecommissionProgress(1, started=0, remaining=1)
    three.do(three.proposal({1, 2, 3}, joiner_epoch=1))
    assert three.do(Decommission("empty", 1)) == DecommissionProgress(1, started=0, remaining=0)
    assert three.do(Unregister("gone", 1)) is None
    assert sorted(three.image.brokers) == [2, 3]
    assert 1 not in three.machine.state.heard_ms
    assert three.refused(Unregister("gone", 1)) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_is_unregistered_and_returns_has_a_larger_epoch(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.register(1)
    two.do(Unregister("gone", 1))
    assert two.register(1).epoch == 3


def test_a_broker_that_is_to_go_is_given_nothing_new(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.do(Decommission("empty", 1))
    three.register(1)
    three.heartbeat(1)
    three.errors(CreateTopics("create", (NewTopic("t", partitions=4, replication_factor=2),)))
    assert 1 not in three.image.assigned
    three.do(Decommission("empty", 1, cancel=True))
    three.errors(CreateTopics("create", (NewTopic("u", partitions=1, replication_factor=3),)))
    assert 1 in three.image.assigned


def test_what_a_broker_has_goes_evenly_to_the_others(cluster: Callable[..., Cluster]) -> None:
    four: Cluster = cluster(4)
    four.topic(*[(1,)] * 6)
    four.do(Decommission("empty", 1))
    targets = [four.partition(index=index).target for index in range(6)]
    assert sorted(targets) == [(2,), (2,), (3,), (3,), (4,), (4,)]


def test_a_broker_is_emptied_in_bounded_steps(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2, ControllerConfig(max_items_per_command=2))
    two.topic(*[(1,)] * 3)
    first, second = (two.do(Decommission("empty", 1)) for _ in range(2))
    assert first == DecommissionProgress(1, started=2, remaining=3)
    assert second == DecommissionProgress(1, started=1, remaining=3)


def test_a_broker_is_not_emptied_when_there_is_no_room_elsewhere(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.topic((1,), (1, 2))
    assert two.refused(Decommission("empty", 1)) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert two.refused(Decommission("empty", 9)) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_dead_broker_can_be_emptied_too(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2))
    three.fence(1)
    three.do(Decommission("empty", 1))
    three.do(three.proposal({2, 3}, joiner_epoch=1))
    assert three.partition().replicas == (3, 2)
    assert three.partition().leader != NO_LEADER
    three.do(Unregister("gone", 1))
