"""Producer ids: never one twice, and nobody waits for ever."""

from net.broker.producer_ids import ProducerIds
from net.wire.apis import Api
from protocol.errors import ErrorCode
from tests.net.broker.desk import Desk

Taken = list[tuple[ErrorCode, int]]


def world() -> tuple[Desk, ProducerIds, Taken]:
    desk = Desk()
    return desk, ProducerIds(3, desk, lambda: 12), []


def take(ids: ProducerIds, taken: Taken, count: int) -> None:
    for _ in range(count):
        ids.take(lambda error, producer_id: taken.append((error, producer_id)))


def test_the_first_to_ask_wait_for_one_block() -> None:
    desk, ids, taken = world()
    take(ids, taken, 3)
    asked = desk.only()
    assert asked.api == Api.ALLOCATE_PRODUCER_IDS
    assert asked.message == {"broker_id": 3, "broker_epoch": 12}
    assert taken == []
    asked.answer(error_code=0, producer_id_start=1000, producer_id_len=10)
    assert taken == [(0, 1000), (0, 1001), (0, 1002)]


def test_the_next_block_is_asked_for_in_time_and_ids_are_distinct() -> None:
    desk, ids, taken = world()
    take(ids, taken, 1)
    desk.only().answer(error_code=0, producer_id_start=100, producer_id_len=10)
    take(ids, taken, 9)
    assert len(taken) == 10
    desk.only().answer(error_code=0, producer_id_start=500, producer_id_len=10)
    take(ids, taken, 5)
    assert len({number for _, number in taken}) == len(taken) == 15


def test_who_waits_in_vain_is_told_to_try_again_and_may() -> None:
    for answered in (True, False):
        desk, ids, taken = world()
        take(ids, taken, 2)
        if answered:
            desk.only().answer(error_code=ErrorCode.STALE_BROKER_EPOCH)
        else:
            desk.only().fail()
        assert taken == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)] * 2
        take(ids, taken, 1)
        desk.only().answer(error_code=0, producer_id_start=7, producer_id_len=1)
        assert taken[-1] == (0, 7)


def test_without_a_controller_everybody_is_told_at_once() -> None:
    desk, ids, taken = world()
    desk.is_gone = True
    take(ids, taken, 2)
    assert taken == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)] * 2


def test_only_so_many_wait() -> None:
    desk, ids, taken = world()
    take(ids, taken, 1_001)
    assert taken == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)]
    desk.only().answer(error_code=0, producer_id_start=0, producer_id_len=5_000)
    assert len(taken) == 1_001
