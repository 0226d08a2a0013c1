"""Brokers register, are heard of or not, stop in good order, and are fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest

from protocol.controller import (
    ControllerConfig,
    Heartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
    SessionExpired,
)
from protocol.errors import ErrorCode
from protocol.types import NO_LEADER

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster

NOBODY: frozenset[int] = frozenset()


def test_a_new_broker_is_fenced_until_its_first_heartbeat(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(0)
    assert one.register(1) == Registered(1, 1)
    assert one.image.brokers[1].fenced
    assert one.heartbeat(1) == HeartbeatAnswer(fenced=False)
    assert not one.image.brokers[1].fenced


def test_a_broker_that_has_not_caught_up_stays_fenced(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(0)
    one.register(1)
    assert one.do(Heartbeat("h", 1, 1, caught_up=False)) == HeartbeatAnswer(fenced=True)
    assert one.image.brokers[1].fenced
    assert one.machine.next_deadline() is None


def test_a_registration_that_is_repeated_gives_the_same_epoch(
    cluster: Callable[..., Cluster],
) -> None:
    one: Cluster = cluster(1)
    again = RegisterBroker("again", 1, one.image.brokers[1].incarnation)
    before = one.image
    assert one.do(again) == Registered(1, 1)
    assert one.image is before


def test_a_restarted_broker_gets_the_next_epoch_and_leaves_the_isr(
    cluster: Callable[..., Cluster],
) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2, 3), min_isr=2)
    assert three.register(1) == Registered(1, 2)
    after = three.partition()
    assert (after.leader, after.leader_epoch, after.version) == (2, 2, 2)
    assert after.isr == {2, 3}
    assert three.image.brokers[1].fenced


@pytest.mark.parametrize(("clean", "eligible"), [(True, {1}), (False, set())])
def test_kip_966_a_broker_stays_eligible_after_a_clean_shutdown_only(
    cluster: Callable[..., Cluster], clean: bool, eligible: set[int]
) -> None:
    one: Cluster = cluster(1)
    one.topic((1,))
    one.register(1, clean=clean)
    after = one.partition()
    assert (after.leader, after.isr) == (NO_LEADER, NOBODY)
    assert after.elr == eligible


def test_a_shutdown_is_clean_only_if_it_was_the_latest_incarnations(
    cluster: Callable[..., Cluster],
) -> None:
    one: Cluster = cluster(1)
    one.topic((1,))
    one.register(1)
    # A disk from before that one: its shutdown was clean, but it lacks what came after.
    one.do(RegisterBroker("old", 1, "old disk", previous_broker_epoch=1, clean_shutdown=True))
    assert one.partition().elr == NOBODY


def test_a_stranger_waits_for_the_session_under_its_id_to_end(
    cluster: Callable[..., Cluster],
) -> None:
    one: Cluster = cluster(1)
    stranger = RegisterBroker("r", 1, "stranger")
    one.later(one.machine.state.config.session_timeout_ms - 1)
    assert one.refused(stranger) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    one.later(1)
    assert one.do(stranger) == Registered(1, 2)


def test_a_fenced_broker_has_no_session_to_wait_for(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.fence(1)
    assert two.do(RegisterBroker("r", 1, "wiped")) == Registered(1, 2)


@pytest.mark.parametrize(("node", "incarnation"), [(-1, "x"), (1, "")])
def test_a_registration_has_to_say_who_it_is(
    cluster: Callable[..., Cluster], node: int, incarnation: str
) -> None:
    command = RegisterBroker("r", node, incarnation)
    assert cluster(0).refused(command) == ErrorCode.INVALID_REQUEST


def test_there_is_room_for_so_many_brokers(cluster: Callable[..., Cluster]) -> None:
    full: Cluster = cluster(2, ControllerConfig(max_brokers=2))
    assert full.refused(RegisterBroker("r", 3, "x")) == ErrorCode.POLICY_VIOLATION
    assert full.register(2) == Registered(2, 2)


def test_a_heartbeat_of_another_incarnation_is_stale(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    assert one.refused(Heartbeat("h", 1, 2)) == ErrorCode.STALE_BROKER_EPOCH
    one.register(1)
    assert one.refused(Heartbeat("h", 1, 1)) == ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_of_nobody_is_told_to_register(cluster: Callable[..., Cluster]) -> None:
    assert cluster(1).refused(Heartbeat("h", 2, 1)) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_silent_broker_is_due_to_be_fenced_when_its_session_ends(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    timeout_ms = two.machine.state.config.session_timeout_ms
    two.later(100)
    two.heartbeat(2)
    assert two.machine.next_deadline() == two.now_ms - 100 + timeout_ms
    assert two.machine.due(two.now_ms - 101 + timeout_ms) == ()
    assert two.machine.due(two.now_ms - 100 + timeout_ms) == (SessionExpired(1),)
    assert two.machine.due(two.now_ms + timeout_ms) == (SessionExpired(1), SessionExpired(2))


def test_a_fenced_broker_departs_from_every_partition(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2), (2, 1), (3,))
    three.fence(1)
    assert three.image.brokers[1].fenced
    assert [three.partition(index=index).isr for index in range(3)] == [{2}, {2}, {3}]
    assert [three.partition(index=index).leader for index in range(3)] == [2, 2, 3]
    assert 1 not in three.machine.state.heard_ms


def test_a_session_that_went_on_meanwhile_does_not_expire(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    one.later(one.machine.state.config.session_timeout_ms)
    (due,) = one.machine.due(one.now_ms)
    one.heartbeat(1)
    before = one.machine.state
    assert one.handle(due) == ()
    assert one.machine.state is before


@pytest.mark.parametrize("node", [1, 9])
def test_the_session_of_a_broker_that_has_none_does_not_expire(
    cluster: Callable[..., Cluster], node: int
) -> None:
    two: Cluster = cluster(2)
    two.fence(1)
    before = two.machine.state
    assert two.handle(SessionExpired(node)) == ()
    assert two.machine.state is before


def test_unfencing_alone_elects_nobody(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    before = one.topic((1,))
    one.fence(1)
    one.heartbeat(1)
    assert one.partition().leader == NO_LEADER
    assert one.partition().version == before.version + 1


def test_who_stops_in_good_order_hands_over_first(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3)
    three.topic((1, 2, 3), (2, 1, 3), min_isr=2)
    answer = three.heartbeat(1, wants_shutdown=True)
    assert answer == HeartbeatAnswer(fenced=False, may_stop=True)
    assert three.image.brokers[1].shutting_down
    assert three.partition().leader == 2
    assert [three.partition(index=index).isr for index in range(2)] == [{2, 3}, {2, 3}]


def test_who_alone_can_lead_goes_on_leading_and_is_told_so(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    alone = two.topic((1, 2))
    two.fence(2)
    alone = two.partition()
    answer = two.heartbeat(1, wants_shutdown=True)
    assert answer == HeartbeatAnswer(fenced=False, may_stop=True, stranded=1)
    assert two.partition() == alone
    # When the other has caught up, it can take over.
    two.heartbeat(2)
    two.do(two.proposal({1, 2}, joiner_epoch=1))
    assert two.heartbeat(1, wants_shutdown=True) == HeartbeatAnswer(False, may_stop=True)
    assert two.partition().leader == 2


def test_a_shutdown_takes_as_many_heartbeats_as_it_needs(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2, ControllerConfig(max_items_per_command=2))
    two.topic((1, 2), (1, 2), (1, 2))
    assert two.heartbeat(1, wants_shutdown=True) == HeartbeatAnswer(False, may_stop=False)
    assert [two.partition(index=index).leader for index in range(3)] == [2, 2, 1]
    assert two.heartbeat(1, wants_shutdown=True) == HeartbeatAnswer(False, may_stop=True)
    assert two.partition(index=2).leader == 2


def test_a_fenced_broker_may_stop_at_once(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.fence(1)
    assert two.heartbeat(1, wants_shutdown=True) == HeartbeatAnswer(True, may_stop=True)


def test_a_broker_that_comes_back_from_a_shutdown_is_like_any_other(
    cluster: Callable[..., Cluster],
) -> None:
    two: Cluster = cluster(2)
    two.heartbeat(1, wants_shutdown=True)
    two.register(1)
    two.heartbeat(1)
    assert two.image.brokers[1] == attrs.evolve(
        two.image.brokers[1], fenced=False, shutting_down=False, epoch=2
    )
