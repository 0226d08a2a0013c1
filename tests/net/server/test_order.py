"""Answers leave in the order of the requests, whenever and wherever they are made."""

import random

import pytest
import trio
import trio.testing

from net.server import Limits, Request
from tests.net.server.wire import Desk, frame, serving, until

pytestmark = pytest.mark.trio


@pytest.mark.parametrize("seed", range(20))
async def test_answers_made_in_any_order_are_sent_in_the_order_of_requests(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 60)
    bodies = [chance.randbytes(chance.choice([0, 5, 900, 20_000])) for _ in range(count)]
    silent = {index for index in range(count) if chance.random() < 0.2}
    desk = Desk()
    async with serving(desk) as running, running.client() as client:

        async def send() -> None:
            for index, body in enumerate(bodies):
                await client.send(frame(body, index))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await until(lambda: len(desk.requests) == count)
        assert desk.bodies == bodies
        for index in chance.sample(range(count), count):
            if index in silent:
                desk.requests[index].no_reply()
            else:
                desk.answer(index)
            if chance.random() < 0.3:
                await trio.lowlevel.checkpoint()
        for index in range(count):
            if index not in silent:
                assert await client.answer() == (index, bodies[index])
        await until(lambda: running.server.counters.queued_bytes == 0)


async def test_some_answered_at_once_and_some_later_keep_the_order() -> None:
    later: list[Request] = []

    def service(request: Request) -> None:
        if request.correlation_id % 2:
            request.reply((bytes(request.body),))
        else:
            later.append(request)

    async with serving(service) as running, running.client() as client:
        await client.send(b"".join(frame(b"%d" % index, index) for index in range(6)))
        await until(lambda: len(later) == 3)
        for request in reversed(later):
            request.reply((b"later",))
        answers = [await client.answer() for _ in range(6)]
    expected = [b"later", b"1", b"later", b"3", b"later", b"5"]
    assert answers == list(enumerate(expected))


async def test_no_more_requests_are_taken_than_may_be_in_flight() -> None:
    desk = Desk()
    async with serving(desk, Limits(max_in_flight=3)) as running, running.client() as client:
        await client.send(b"".join(frame(b"", index) for index in range(10)))
        await until(lambda: len(desk.requests) == 3)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(desk.requests) == 3
        # The second is ready, but the first keeps its place.
        desk.answer(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(desk.requests) == 3
        desk.answer(0)
        await until(lambda: len(desk.requests) == 5)
        for index in range(2, 10):
            await desk.has(index + 1)
            desk.answer(index)
        assert [(await client.answer())[0] for _ in range(10)] == list(range(10))


async def test_no_more_bytes_are_taken_than_one_connection_may_have_in_flight() -> None:
    desk = Desk()
    limits = Limits(max_in_flight_bytes=25_000)
    async with serving(desk, limits) as running, running.client() as client:
        await client.send(frame(bytes(10_000), 5) * 6)
        # The third goes beyond the bound, and nothing after it is taken.
        await desk.has(3)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(desk.requests) == 3
        for index in range(6):
            await desk.has(index + 1)
            desk.answer(index)
            await client.answer()


async def test_an_answer_leaves_from_the_call_that_makes_it() -> None:
    desk = Desk()
    async with serving(desk) as running, running.client() as client:
        await client.send(frame(b"now", 4))
        await until(lambda: bool(desk.requests))
        sent = running.server.counters.bytes_out
        desk.answer(0)
        assert running.server.counters.bytes_out == sent + 4 + 4 + 3
        assert await client.answer() == (4, b"now")


async def test_a_second_answer_is_refused_and_the_first_one_sent() -> None:
    desk = Desk()
    async with serving(desk) as running, running.client() as client:
        await client.send(frame(b"once", 1) + frame(b"first", 2))
        await until(lambda: len(desk.requests) == 2)
        desk.answer(1)
        with pytest.raises(RuntimeError, match="twice"):
            desk.answer(1)
        with pytest.raises(RuntimeError, match="twice"):
            desk.requests[1].no_reply()
        desk.answer(0)
        assert [await client.answer(), await client.answer()] == [(1, b"once"), (2, b"first")]


async def test_the_body_cannot_be_read_after_the_service_returned() -> None:
    desk = Desk()
    async with serving(desk) as running, running.client() as client:
        await client.send(frame(b"gone", 1))
        await until(lambda: bool(desk.requests))
        with pytest.raises(ValueError, match="released"):
            bytes(desk.requests[0].body)
