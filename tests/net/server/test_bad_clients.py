"""Nothing that one client sends, or does not send, keeps the server from serving the others."""

import random
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from net.server import Limits, Request
from net.server.reasons import Reason
from tests.net.server.wire import Client, frame, serving, until

pytestmark = pytest.mark.trio


@pytest.fixture
def clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """A clock that runs, so that a test cannot hang, and can be moved ahead."""
    mock_clock.rate = 1.0
    return mock_clock


@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), 100 * 2**20 + 1])
async def test_an_impossible_length_ends_the_connection_and_allocates_nothing(length: int) -> None:
    async with serving() as running, running.client() as client:
        await running.is_serving()
        tracemalloc.start()
        try:
            await client.send(struct.pack(">i", length) + b"whatever")
            assert await client.ended()
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()
        assert running.server.counters.closed[Reason.BAD_LENGTH] == 1
        assert await running.is_serving()


async def test_the_largest_length_that_is_allowed_is_served() -> None:
    async with serving(limits=Limits(socket_request_max_bytes=1000)) as running:
        async with running.client() as client:
            assert await client.ask(bytes(990)) == bytes(990)
            await client.send(frame(bytes(991)))
            assert await client.ended()
        assert running.server.counters.closed[Reason.BAD_LENGTH] == 1


async def test_a_thousand_connections_that_say_nothing_disturb_nobody() -> None:
    async with serving() as running, AsyncExitStack() as silent:
        for _ in range(1000):
            await silent.enter_async_context(running.client())
        await until(lambda: running.server.connections == 1000)
        async with running.client() as client:
            for index in range(100):
                assert await client.ask(b"served", index) == b"served"
    assert running.server.connections == 0
    assert running.server.counters.opened == 1001


@pytest.mark.parametrize("claimed", [500, 500_000])
async def test_a_message_that_never_ends_is_not_waited_for(
    clock: trio.testing.MockClock, claimed: int
) -> None:
    async with serving(limits=Limits(idle_ms=60_000)) as running, running.client() as slow:
        begun = frame(bytes(claimed))
        await slow.send(begun[:5])
        await until(lambda: running.server.counters.bytes_in == 5)
        # A byte every eleven seconds is activity, but no way to send a message.
        for at in range(5, 10):
            clock.jump(11)
            await trio.testing.wait_all_tasks_blocked(0.001)
            assert running.server.connections == 1
            await slow.send(begun[at : at + 1])
        clock.jump(11)
        await until(lambda: running.server.counters.closed[Reason.STALLED] == 1)
        assert await running.is_serving()
        assert running.server.counters.queued_bytes == 0


async def test_who_hoards_memory_and_stands_still_is_ended_when_others_need_it(
    clock: trio.testing.MockClock,
) -> None:
    limits = Limits(queued_max_bytes=1_000_000, small_request_bytes=0, starved_ms=5_000)
    async with serving(limits=limits) as running, running.client() as hoarder:
        await hoarder.send(frame(bytes(900_000))[:100])
        await until(lambda: running.server.counters.queued_bytes > 900_000)
        clock.jump(30)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert running.server.connections == 1
        async with running.client() as other, trio.open_nursery() as nursery:
            nursery.start_soon(other.send, frame(bytes(200_000), 1))
            await until(lambda: running.server.queue.starving)
            clock.jump(2)
            assert await other.answer() == (1, bytes(200_000))
        assert running.server.counters.closed[Reason.STALLED] == 1


async def test_a_slow_message_that_makes_progress_is_waited_for(
    clock: trio.testing.MockClock,
) -> None:
    async with serving(limits=Limits(idle_ms=1_000)) as running, running.client() as client:
        message = frame(bytes(400_000), 1)
        for at in range(0, len(message), 20_000):
            await client.send(message[at : at + 20_000])
            await running.has_read(min(at + 20_000, len(message)))
            clock.jump(0.9)
        assert await client.answer() == (1, bytes(400_000))


async def test_a_connection_that_does_nothing_is_ended(clock: trio.testing.MockClock) -> None:
    async with serving(limits=Limits(idle_ms=60_000)) as running:
        async with running.client() as idle, running.client() as busy:
            await idle.ask(b"once")
            for _ in range(4):
                await busy.ask(b"again")
                clock.jump(25)
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert await idle.ended()
            assert await busy.ask(b"still here") == b"still here"
        assert running.server.counters.closed[Reason.IDLE] == 1


async def test_a_connection_whose_request_is_worked_on_is_not_idle(
    clock: trio.testing.MockClock,
) -> None:
    waiting: list[Request] = []
    limits = Limits(idle_ms=60_000)
    async with serving(waiting.append, limits) as running, running.client() as client:
        await client.send(frame(b"", 9))
        await until(lambda: bool(waiting))
        clock.jump(600)
        await trio.testing.wait_all_tasks_blocked(0.01)
        waiting[0].reply((b"at last",))
        assert await client.answer() == (9, b"at last")


async def test_who_never_takes_its_answers_is_ended(clock: trio.testing.MockClock) -> None:
    answer = bytes(10_000_000)
    async with serving(lambda request: request.reply((answer,)), Limits(idle_ms=60_000)) as running:
        async with running.client() as client:
            await client.send(frame(b"", 1))
            await until(lambda: running.server.counters.bytes_out > 0)
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(45)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert running.server.connections == 1
            clock.jump(45)
            await until(lambda: running.server.counters.closed[Reason.SLOW_READER] == 1)
        assert running.server.counters.queued_bytes == 0


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 400))


def framed_noise(chance: random.Random) -> bytes:
    body = noise(chance)
    return struct.pack(">i", len(body)) + body


def damaged(chance: random.Random) -> bytes:
    api_key, version = chance.choice([0, 1, 3, 18, 60]), chance.randrange(-1, 18)
    message = bytearray(frame(noise(chance), 1, api_key, version) * chance.randrange(1, 4))
    for _ in range(chance.randrange(4)):
        message[chance.randrange(len(message))] = chance.randrange(256)
    return bytes(message[: chance.randrange(1, len(message) + 1)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [noise, framed_noise, damaged])
async def test_random_bytes_disturb_nobody(
    make: Callable[[random.Random], bytes], seed: int
) -> None:
    chance = random.Random(seed)

    async def attack() -> None:
        for _ in range(60):
            async with running.client() as client:
                try:
                    await client.send(make(chance))
                    await client.stream.send_eof()
                except trio.BrokenResourceError:
                    continue
                await client.ended()

    async with serving() as running, running.client() as good:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attack)
            nursery.start_soon(attack)
            await serve_meanwhile(good)
        await until(lambda: running.server.connections == 1)
        counters = running.server.counters
        assert counters.queued_bytes == 0
        assert counters.internal_errors == 0
        assert sum(counters.closed.values()) == counters.opened - 1 == 120


async def serve_meanwhile(good: Client) -> None:
    for index in range(200):
        assert await good.ask(b"good", index) == b"good"
