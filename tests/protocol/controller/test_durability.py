"""Replies wait for durability; a controller that is not the active one answers nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from protocol.controller import (
    AllocateProducerIds,
    AlterBrokerConfig,
    AlterPartition,
    AlterReassignment,
    AlterTopicConfig,
    AppendRecords,
    BecameActive,
    Command,
    Controller,
    ControllerConfig,
    ControllerRules,
    ControllerState,
    CreatePartitions,
    CreateTopics,
    Decommission,
    DeleteTopics,
    ElectionKind,
    ElectLeaders,
    Heartbeat,
    HeartbeatAnswer,
    LeaderlessDue,
    NewTopic,
    RecordsCommitted,
    Refuse,
    RegisterBroker,
    Registered,
    Reply,
    Resigned,
    SessionExpired,
    UncleanDue,
    Unregister,
)
from protocol.errors import ErrorCode, InvariantViolation
from protocol.machine import Event

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster

COMMANDS: list[Command] = [
    AllocateProducerIds("c", 1, 1),
    AlterBrokerConfig("c", 1),
    AlterPartition("c", 1, 1, "t", 0, 1, 1, frozenset({1})),
    AlterReassignment("c", "t", 0, None),
    AlterTopicConfig("c", "t"),
    CreatePartitions("c", "t", 2),
    CreateTopics("c", ()),
    Decommission("c", 1),
    DeleteTopics("c", ()),
    ElectLeaders("c", ElectionKind.PREFERRED),
    Heartbeat("c", 1, 1),
    RegisterBroker("c", 1, "x"),
    Unregister("c", 1),
]
DUE: list[Event] = [
    SessionExpired(1),
    LeaderlessDue("t", 0),
    UncleanDue("t", 0),
    RecordsCommitted(3),
    Resigned(),
]


def test_a_reply_is_sent_when_its_records_are_durable(cluster: Callable[..., Cluster]) -> None:
    none: Cluster = cluster(0)
    (append,) = none.handle(RegisterBroker("first", 1, "x"))
    assert isinstance(append, AppendRecords)
    none.handle(RegisterBroker("second", 2, "y"))
    assert none.handle(RecordsCommitted(1)) == (Reply("first", Registered(1, 1)),)
    assert none.handle(RecordsCommitted(1)) == ()
    assert none.handle(RecordsCommitted(2)) == (Reply("second", Registered(2, 1)),)


def test_one_commit_may_be_what_several_replies_waited_for(
    cluster: Callable[..., Cluster],
) -> None:
    none: Cluster = cluster(0)
    none.handle(RegisterBroker("first", 1, "x"))
    none.handle(RegisterBroker("second", 2, "y"))
    assert none.commit() == (
        Reply("first", Registered(1, 1)),
        Reply("second", Registered(2, 1)),
    )


def test_what_is_accepted_counts_before_it_is_durable(cluster: Callable[..., Cluster]) -> None:
    none: Cluster = cluster(0)
    none.handle(RegisterBroker("first", 1, "x"))
    none.handle(Heartbeat("second", 1, 1))
    assert not none.image.brokers[1].fenced


def test_a_reply_without_records_waits_for_what_it_is_based_on(
    cluster: Callable[..., Cluster],
) -> None:
    none: Cluster = cluster(0)
    none.handle(RegisterBroker("first", 1, "x"))
    assert none.handle(RegisterBroker("repeated", 1, "x")) == ()
    assert [effect for effect in none.commit() if isinstance(effect, Reply)] == [
        Reply("first", Registered(1, 1)),
        Reply("repeated", Registered(1, 1)),
    ]
    # Nothing is in flight any more.
    before = none.machine.state
    assert none.handle(RegisterBroker("again", 1, "x")) == (Reply("again", Registered(1, 1)),)
    assert none.machine.state is before


def test_nothing_is_durable_that_was_never_appended(cluster: Callable[..., Cluster]) -> None:
    with pytest.raises(InvariantViolation, match="CommittedWasAppended"):
        cluster(0).handle(RecordsCommitted(1))


def test_who_resigns_refuses_all_who_wait(cluster: Callable[..., Cluster]) -> None:
    none: Cluster = cluster(0)
    none.handle(RegisterBroker("first", 1, "x"))
    (refusal,) = none.handle(Resigned())
    assert isinstance(refusal, Refuse)
    assert (refusal.correlation, refusal.error) == ("first", ErrorCode.NOT_CONTROLLER)
    assert none.machine.state == ControllerState()
    assert none.machine.next_deadline() is None
    assert none.machine.due(10**9) == ()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_who_is_not_active_refuses_every_command(command: Command) -> None:
    machine = Controller(ControllerState(), ControllerRules())
    before = machine.state
    (refusal,) = machine.handle(command, 0)
    assert isinstance(refusal, Refuse)
    assert (refusal.correlation, refusal.error) == ("c", ErrorCode.NOT_CONTROLLER)
    assert machine.state is before


def test_every_command_was_tried() -> None:
    commands = {action.event for action in Controller.actions if issubclass(action.event, Command)}
    assert {type(command) for command in COMMANDS} == commands


@pytest.mark.parametrize("event", DUE, ids=lambda event: type(event).__name__)
def test_who_is_not_active_does_nothing_by_itself(event: Event) -> None:
    machine = Controller(ControllerState(), ControllerRules())
    before = machine.state
    assert machine.handle(event, 10**9) == ()
    assert machine.state is before


def test_a_new_active_controller_gives_every_broker_a_whole_session(
    cluster: Callable[..., Cluster],
) -> None:
    three: Cluster = cluster(3)
    three.fence(3)
    successor = Controller(ControllerState(), ControllerRules())
    assert successor.handle(BecameActive(three.image, 40), 5_000) == ()
    assert successor.next_deadline() == 5_000 + successor.state.config.session_timeout_ms
    assert sorted(successor.state.heard_ms) == [1, 2]
    (append,) = successor.handle(Heartbeat("h", 3, 1), 5_000)
    assert isinstance(append, AppendRecords)
    assert append.base_offset == 40
    assert successor.handle(RecordsCommitted(41), 5_000) == (
        Reply("h", HeartbeatAnswer(fenced=False)),
    )


def test_a_new_active_controller_finds_what_its_predecessor_left_undone(
    cluster: Callable[..., Cluster],
) -> None:
    one: Cluster = cluster(1)
    one.topic((1,))
    one.fence(1)
    one.heartbeat(1)
    successor = Controller(ControllerState(), ControllerRules())
    successor.handle(BecameActive(one.image, len(one.records)), 0)
    assert successor.due(0) == (LeaderlessDue("t", 0),)


def test_becoming_active_again_refuses_who_still_waits(cluster: Callable[..., Cluster]) -> None:
    none: Cluster = cluster(0)
    none.handle(RegisterBroker("first", 1, "x"))
    (refusal,) = none.machine.handle(BecameActive(none.image, 1), none.now_ms)
    assert isinstance(refusal, Refuse)
    assert refusal.error == ErrorCode.NOT_CONTROLLER


def test_only_so_many_replies_wait_but_heartbeats_have_room_of_their_own(
    cluster: Callable[..., Cluster],
) -> None:
    one: Cluster = cluster(1, ControllerConfig(max_pending_replies=1, max_brokers=2))
    one.handle(CreateTopics("create", (NewTopic("t"),)))
    assert one.refused(DeleteTopics("delete", ("t",))) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert one.handle(Heartbeat("first", 1, 1)) == ()
    assert one.handle(Heartbeat("second", 1, 1)) == ()
    assert one.refused(Heartbeat("third", 1, 1)) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    replies = [effect.correlation for effect in one.commit() if isinstance(effect, Reply)]
    assert replies == ["create", "first", "second"]
    one.do(DeleteTopics("delete", ("t",)))
