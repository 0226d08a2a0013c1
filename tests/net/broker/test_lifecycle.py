"""A broker's standing with the controller, with a clock that the test moves."""

from typing import Any
from uuid import UUID

import pytest

from net.broker.lifecycle import Introduction, Lifecycle, Phase
from net.driving import Timers
from net.wire.apis import Api
from protocol.errors import ErrorCode
from tests.net.broker.desk import Asked, Desk
from tests.net.broker.fetching.worlds import Clock, settle
from tests.net.settings.nodes import BROKER_ONLY, node

SETTINGS = node(BROKER_ONLY)
SESSION_MS = SETTINGS.broker_session_timeout_ms
BEAT_MS = SETTINGS.broker_heartbeat_interval_ms
LISTENERS = (("PLAINTEXT", "here", 9092, 0),)


class World:
    """A broker that has just started."""

    def __init__(self, previous_epoch: int = 0, rack: str = "r") -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.desk = Desk()
        self.registered: list[int] = []
        self.unfenced = 0
        self.taken: list[str] = []
        self.stopped: list[bool] = []
        me = Introduction(4, "a cluster", UUID(int=5), LISTENERS, rack, previous_epoch)
        self.lifecycle = Lifecycle(
            me,
            self.desk,
            SETTINGS,
            self.timers,
            applied=lambda: 77,
            registered=self.registered.append,
            unfenced=self.has_unfenced,
            taken=self.taken.append,
        )
        self.pass_ms(0)

    def has_unfenced(self) -> None:
        self.unfenced += 1

    def pass_ms(self, time_ms: int) -> None:
        self.clock.now_ms += time_ms
        settle(self.clock, self.timers)

    def register(self, epoch: int = 12) -> None:
        self.desk.only().answer(error_code=0, broker_epoch=epoch)
        self.pass_ms(0)

    def beat(self, **answer: Any) -> Asked:
        """Answer the heartbeat that is under way; return it."""
        asked = self.desk.only()
        assert asked.api == Api.BROKER_HEARTBEAT
        known = {"is_caught_up": True, "is_fenced": False, "should_shut_down": False}
        asked.answer(**{"error_code": 0, **known, **answer})
        self.pass_ms(0)
        return asked

    def run(self) -> None:
        self.register()
        self.beat()
        assert self.lifecycle.phase is Phase.RUNNING

    def stop(self) -> None:
        self.lifecycle.wants_to_stop(lambda: self.stopped.append(self.lifecycle.may_stop))
        self.pass_ms(0)


def test_a_broker_introduces_itself_at_once() -> None:
    world = World(previous_epoch=9)
    asked = world.desk.only()
    assert asked.api == Api.BROKER_REGISTRATION
    message = asked.message
    assert (message["broker_id"], message["cluster_id"]) == (4, "a cluster")
    assert (message["incarnation_id"], message["rack"]) == (UUID(int=5), "r")
    assert message["previous_broker_epoch"] == 9
    (listener,) = message["listeners"]
    assert (listener["name"], listener["host"], listener["port"]) == ("PLAINTEXT", "here", 9092)


def test_who_cannot_say_that_it_lost_nothing_says_so() -> None:
    message = World(previous_epoch=0, rack="").desk.only().message
    assert message["previous_broker_epoch"] == -1
    assert message["rack"] is None


@pytest.mark.parametrize("answered", [True, False])
def test_registration_is_tried_until_it_succeeds_but_not_without_a_pause(answered: bool) -> None:
    world = World()
    for _ in range(3):
        asked = world.desk.only()
        if answered:
            asked.answer(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker_epoch=-1)
        else:
            asked.fail()
        world.pass_ms(50)
        assert world.desk.asked == []
        world.pass_ms(50)
    assert world.registered == []
    world.register(12)
    assert world.registered == [12]
    assert world.lifecycle.epoch == 12
    assert world.lifecycle.is_fenced


def test_a_broker_of_another_cluster_stops() -> None:
    world = World()
    world.desk.only().answer(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, broker_epoch=-1)
    world.pass_ms(60_000)
    assert world.taken == ["the controller belongs to another cluster"]
    assert world.desk.asked == []


def test_heartbeats_tell_how_far_the_broker_is_and_hurry_until_it_takes_part() -> None:
    world = World()
    world.register()
    asked = world.beat(is_fenced=True)
    assert (asked.message["broker_epoch"], asked.message["current_metadata_offset"]) == (12, 77)
    assert not asked.message["want_shut_down"]
    assert (world.unfenced, world.lifecycle.is_fenced) == (0, True)
    world.pass_ms(100)
    world.beat()
    assert (world.unfenced, world.lifecycle.is_fenced) == (1, False)
    assert world.lifecycle.phase is Phase.RUNNING
    world.pass_ms(BEAT_MS - 1)
    assert world.desk.asked == []
    world.pass_ms(1)
    world.beat()


def test_there_is_one_heartbeat_at_a_time() -> None:
    world = World()
    world.register()
    for _ in range(3):
        world.lifecycle.beat_soon()
        world.pass_ms(10)
        assert len(world.desk.asked) == 1
    world.beat(is_fenced=True)
    assert world.desk.asked == []
    world.lifecycle.beat_soon()
    world.pass_ms(0)
    assert len(world.desk.asked) == 1


def test_a_broker_that_was_fenced_says_so_until_it_takes_part_again() -> None:
    world = World()
    world.run()
    world.pass_ms(BEAT_MS)
    world.beat(is_fenced=True)
    assert world.lifecycle.is_fenced
    world.pass_ms(100)
    world.beat()
    assert not world.lifecycle.is_fenced


@pytest.mark.parametrize(
    "error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED]
)
def test_a_broker_whose_id_another_has_taken_stops(error: ErrorCode) -> None:
    world = World()
    world.run()
    world.pass_ms(BEAT_MS)
    world.beat(error_code=error)
    world.pass_ms(60_000)
    assert len(world.taken) == 1
    assert world.desk.asked == []


def test_heartbeats_go_on_when_they_are_not_answered() -> None:
    world = World()
    world.run()
    world.pass_ms(BEAT_MS)
    world.desk.only().fail()
    world.pass_ms(100)
    world.beat(error_code=ErrorCode.NOT_CONTROLLER)
    world.pass_ms(100)
    world.beat()
    assert world.taken == []


def test_a_broker_that_stops_hands_over_first() -> None:
    world = World()
    world.run()
    world.stop()
    assert world.beat().message["want_shut_down"]
    assert world.stopped == []
    world.pass_ms(100)
    world.beat(should_shut_down=True)
    assert world.stopped == [True]
    world.pass_ms(60_000)
    assert world.desk.asked == []


def test_a_broker_that_stops_gives_up_when_no_controller_answers() -> None:
    world = World()
    world.run()
    world.stop()
    world.desk.only().fail()
    world.desk.is_gone = True
    for _ in range(SESSION_MS // 100):
        assert world.stopped == []
        world.pass_ms(100)
    assert world.stopped == [False]
    world.pass_ms(60_000)
    assert world.stopped == [False]


def test_who_is_closed_says_nothing_any_more() -> None:
    world = World()
    world.run()
    world.lifecycle.close()
    world.lifecycle.beat_soon()
    world.pass_ms(60_000)
    assert world.desk.asked == []
