"""The driver of a controller: active with its node, answered once, bounded, and never stuck."""

from typing import Any

import pytest
from immutables import Map

from net.controller.proposals import MAX_UNDER_WAY
from protocol.controller import (
    AlterBrokerConfig,
    ControllerConfig,
    CreateTopics,
    Heartbeat,
    NewTopic,
    Refuse,
    RegisterBroker,
    Registered,
    Reply,
)
from protocol.errors import ErrorCode
from tests.net.controller.memory import Alone


def register(node: int) -> Any:
    return lambda correlation: RegisterBroker(correlation, node, f"i{node}")


def large_setting(node: int) -> Any:
    changes: Map[str, str | None] = Map({"a": "x" * 250_000})
    return lambda correlation: AlterBrokerConfig(correlation, node, changes)


def alone(config: ControllerConfig | None = None) -> Alone:
    """Make a controller that is active."""
    made = Alone(config)
    made.quorum.elect()
    assert active(made)
    return made


def active(controller: Alone) -> bool:
    """Ask anew, where mypy takes a property for a constant."""
    return controller.node.is_active


def refusal(answers: list[Reply | Refuse]) -> ErrorCode:
    (answer,) = answers
    assert isinstance(answer, Refuse)
    return answer.error


def test_a_command_is_answered_when_it_is_committed_and_not_before() -> None:
    one = alone()
    first, second = one.command(register(1)), one.command(register(2))
    assert first == second == []
    assert one.node.waiting == 2
    one.quorum.commit(1)
    (reply,) = first
    assert isinstance(reply, Reply)
    assert reply.value == Registered(1, 1)
    assert second == []
    one.quorum.commit()
    assert len(second) == 1
    assert one.node.waiting == 0


def test_who_is_not_active_says_so() -> None:
    never = Alone()
    assert not active(never)
    assert refusal(never.command(register(1))) == ErrorCode.NOT_CONTROLLER
    assert never.quorum.records == []


def test_all_who_wait_are_told_when_the_controller_is_deposed() -> None:
    one = alone()
    waiting = [one.command(register(node)) for node in range(1, 20)]
    one.quorum.depose()
    assert {refusal(each) for each in waiting} == {ErrorCode.NOT_CONTROLLER}
    assert not active(one)
    assert one.node.waiting == 0
    assert refusal(one.command(register(30))) == ErrorCode.NOT_CONTROLLER


def test_who_is_elected_goes_on_from_what_lasted() -> None:
    one = alone()
    one.command(register(1))
    one.quorum.commit()
    lost = one.command(register(2))
    one.quorum.depose(lost=1)
    one.quorum.elect()
    assert refusal(lost) == ErrorCode.NOT_CONTROLLER
    assert sorted(one.node.deciding.brokers) == [1]
    again = one.command(register(2))
    one.quorum.commit()
    assert isinstance(again[0], Reply)
    assert sorted(one.node.committed_image.brokers) == [1, 2]


def test_a_refusal_that_comes_late_is_not_about_the_next_time() -> None:
    one = Alone()
    refuse: list[Any] = []
    one.quorum.elect()
    propose = one.quorum.propose

    def keep(*proposal: Any) -> None:
        refuse.append(proposal[-1])

    one.quorum.propose = keep  # type: ignore[method-assign,assignment]
    one.command(register(1))
    one.quorum.depose()
    one.quorum.propose = propose  # type: ignore[method-assign]
    one.quorum.elect()
    refuse[0](ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert active(one)


def test_who_is_refused_as_a_leader_resigns_until_it_is_elected() -> None:
    one = alone()
    one.quorum.leads = False
    assert refusal(one.command(register(1))) == ErrorCode.NOT_CONTROLLER
    one.timers.ring_due()
    assert not active(one)
    one.quorum.elect()
    assert active(one)


@pytest.mark.parametrize(
    "error", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
)
def test_what_the_quorum_does_not_take_is_forgotten_and_the_controller_goes_on(
    error: ErrorCode,
) -> None:
    one = alone()
    before = one.command(register(1))
    one.quorum.refusal = error
    assert refusal(one.command(register(2))) == ErrorCode.NOT_CONTROLLER
    one.quorum.refusal = None
    one.timers.ring_due()
    # What it took before is not committed yet, so nobody knows what to go on from.
    assert not active(one)
    one.quorum.commit()
    assert active(one)
    assert refusal(before) == ErrorCode.NOT_CONTROLLER
    assert sorted(one.node.deciding.brokers) == [1]
    after = one.command(register(3))
    one.quorum.commit()
    assert isinstance(after[0], Reply)
    assert one.violations == []


def test_what_the_quorum_does_not_take_when_nothing_is_under_way() -> None:
    one = alone()
    one.quorum.refusal = ErrorCode.MESSAGE_TOO_LARGE
    one.command(register(2))
    one.quorum.refusal = None
    assert not active(one)
    one.timers.ring_due()
    assert active(one)
    assert not one.node.deciding.brokers


def test_a_controller_that_decides_for_other_offsets_stops() -> None:
    one = alone()
    one.quorum.records.extend(one.quorum.records or [None])  # type: ignore[list-item]
    assert refusal(one.command(register(1))) == ErrorCode.NOT_CONTROLLER
    assert [each.name for each in one.violations] == ["ProposedAtTheEnd"]
    assert refusal(one.command(register(1))) == ErrorCode.NOT_CONTROLLER
    assert not active(one)


def test_only_so_many_proposals_are_under_way_and_the_rest_goes_out_together() -> None:
    one = alone()
    answers = [one.command(register(node)) for node in range(1, 31)]
    assert one.quorum.proposals == [1] * MAX_UNDER_WAY
    one.quorum.commit(1)
    assert one.quorum.proposals == [1] * MAX_UNDER_WAY + [30 - MAX_UNDER_WAY]
    one.quorum.commit()
    assert all(isinstance(each[0], Reply) for each in answers)
    assert sorted(one.node.committed_image.brokers) == list(range(1, 31))


def test_what_would_be_too_large_together_goes_out_apart() -> None:
    one = alone(ControllerConfig(max_settings_chars=300_000))
    for node in range(1, 21):
        one.command(register(node))
    one.quorum.commit()
    one.quorum.commit()
    one.quorum.proposals.clear()
    for node in range(1, 21):
        one.command(large_setting(node))
    while one.quorum.applied < len(one.quorum.records):
        one.quorum.commit()
    assert sum(one.quorum.proposals) == 20
    assert max(one.quorum.proposals) == 3


def test_who_does_not_want_to_wait_any_longer_is_told_once() -> None:
    one = alone()
    short = one.command(register(1), timeout_ms=100)
    long = one.command(register(2), timeout_ms=300)
    one.now_ms += 99
    one.timers.ring_due()
    assert short == []
    one.now_ms += 1
    one.timers.ring_due()
    assert refusal(short) == ErrorCode.REQUEST_TIMED_OUT
    one.quorum.commit()
    assert len(short) == 1
    assert isinstance(long[0], Reply)
    one.now_ms += 1_000
    one.timers.ring_due()
    assert len(long) == 1


def test_a_timeout_of_the_past_is_over_at_once() -> None:
    one = alone()
    answers = one.command(register(1), timeout_ms=-5)
    one.timers.ring_due()
    assert refusal(answers) == ErrorCode.REQUEST_TIMED_OUT


def test_deadlines_of_those_who_were_answered_do_not_pile_up() -> None:
    one = alone()
    # The first to be over is of one that still waits, so the others are behind it.
    waits = one.command(register(1), timeout_ms=1_000)
    for _ in range(2_000):
        one.command(lambda c: Heartbeat(c, 1, 9), timeout_ms=60_000)
    assert waits == []
    assert one.node.waiting == 1
    assert len(one.node._waiting._deadlines) < 200


def test_a_controller_that_is_closed_tells_everybody() -> None:
    one = alone()
    waiting = one.command(register(1))
    one.node.close()
    assert refusal(waiting) == ErrorCode.NOT_CONTROLLER
    assert refusal(one.command(register(2))) == ErrorCode.NOT_CONTROLLER
    one.quorum.commit()
    one.quorum.depose()


def test_a_successor_unfences_only_who_has_read_up_to_its_election() -> None:
    one = alone()
    for node in (1, 2, 3):
        one.command(register(node))
    one.quorum.commit()
    assert [one.node.registered_at(node, 1) for node in (1, 2, 3)] == [0, 1, 2]
    assert one.node.registered_at(1, 2) is None
    one.quorum.depose()
    one.quorum.elect()
    assert [one.node.registered_at(node, 1) for node in (1, 2, 3)] == [2, 2, 2]


def test_nobody_writes_a_trace_who_is_not_active() -> None:
    never = Alone()
    never.command(lambda c: CreateTopics(c, (NewTopic("t"),)))
    never.quorum.elect()
    assert never.lines == []


def test_sessions_end_by_the_timers() -> None:
    one = alone()
    one.command(register(1))
    one.command(lambda c: Heartbeat(c, 1, 1))
    one.quorum.commit()
    assert not one.node.committed_image.brokers[1].fenced
    one.now_ms += one.node.config.session_timeout_ms
    one.timers.ring_due()
    one.quorum.commit()
    assert one.node.committed_image.brokers[1].fenced
