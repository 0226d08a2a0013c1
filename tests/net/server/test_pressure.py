"""Whoever asks faster than is answered, or does not take the answers, is read more slowly."""

from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from net.server import Limits, Request
from net.transport.tcp import TcpOptions
from tests.net.server.wire import Client, Desk, frame, serving, until

pytestmark = pytest.mark.trio

KIB = 1024


async def send_all(client: Client, data: bytes) -> None:
    await client.send(data)


async def test_the_bytes_of_requests_in_flight_are_bounded_over_all_connections() -> None:
    limits = Limits(queued_max_bytes=1000 * KIB, small_request_bytes=0)
    desk = Desk()
    peak = 0

    def service(request: Request) -> None:
        nonlocal peak
        peak = max(peak, running.server.counters.queued_bytes)
        desk(request)

    async with (
        serving(service, limits) as running,
        AsyncExitStack() as stack,
        trio.open_nursery() as nursery,
    ):
        clients = [await stack.enter_async_context(running.client()) for _ in range(8)]
        for client in clients:
            nursery.start_soon(send_all, client, frame(bytes(240 * KIB), 5) * 5)
        await until(lambda: len(desk.requests) == 4)
        await trio.testing.wait_all_tasks_blocked(0.05)
        # Four of them fit; the others are not even read, let alone kept.
        assert len(desk.requests) == 4
        assert running.server.counters.queued_bytes <= limits.queued_max_bytes
        assert running.server.counters.bytes_in < 4 * 241 * KIB + 8 * 80 * KIB
        for client in clients:
            nursery.start_soon(take_answers, client, 5)
        for index in range(8 * 5):
            await desk.has(index + 1)
            desk.answer(index)
        await until(lambda: running.server.counters.queued_bytes == 0)
        assert peak <= limits.queued_max_bytes
        assert running.server.counters.queue_waits > 0


async def take_answers(client: Client, count: int) -> None:
    for _ in range(count):
        await client.answer()


async def test_a_request_larger_than_the_queue_is_served_when_it_is_the_only_one() -> None:
    limits = Limits(queued_max_bytes=KIB, small_request_bytes=0)
    async with serving(limits=limits) as running, running.client() as client:
        body = bytes(500 * KIB)
        for _ in range(3):
            assert await client.ask(body) == body


async def test_a_small_request_is_served_while_large_ones_fill_the_queue() -> None:
    # A follower's fetch must not wait behind the very produce requests that wait for it.
    limits = Limits(queued_max_bytes=300 * KIB, small_request_bytes=4 * KIB)
    desk = Desk()
    async with (
        serving(desk, limits) as running,
        running.client() as producer,
        running.client() as other,
        running.client() as follower,
    ):
        await producer.send(frame(bytes(290 * KIB), 1))
        await until(lambda: len(desk.requests) == 1)
        await other.send(frame(bytes(20 * KIB), 2)[: 9 * KIB])
        await until(lambda: running.server.queue.starving)
        await follower.send(frame(b"fetch", 3) + frame(b"fetch", 4))
        await until(lambda: len(desk.requests) == 2)
        assert desk.requests[1].correlation_id == 3
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(desk.requests) == 2
        desk.answer(1)
        await until(lambda: len(desk.requests) == 3)
        desk.answer(2)
        assert [(await follower.answer())[0] for _ in range(2)] == [3, 4]


async def test_who_does_not_take_answers_is_not_read_further() -> None:
    limits = Limits(max_output_bytes=128 * KIB)
    answer = bytes(64 * KIB)
    served = 0

    def service(request: Request) -> None:
        nonlocal served
        served += 1
        request.reply((answer,))

    count = 2_000
    options = TcpOptions(send_buffer_bytes=64 * KIB)
    async with (
        serving(service, limits, options) as running,
        running.client(receive_buffer_bytes=64 * KIB) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(
            send_all, client, b"".join(frame(bytes(100), index) for index in range(count))
        )
        await until(lambda: served > 0)
        await trio.testing.wait_all_tasks_blocked(0.05)
        (connection,) = running.server._connections
        assert connection._output.waiting_bytes <= limits.max_output_bytes + len(answer) + 8
        assert served < 100
        for index in range(count):
            assert (await client.answer())[0] == index
        assert served == count


async def test_a_slow_reader_does_not_slow_the_others() -> None:
    answer = bytes(1000 * KIB)

    def service(request: Request) -> None:
        request.reply((bytes(request.body) or answer,))

    async with serving(service) as running, running.client() as slow:
        await slow.send(b"".join(frame(b"", index) for index in range(50)))
        await trio.testing.wait_all_tasks_blocked(0.01)
        for _ in range(20):
            assert await running.is_serving()


async def test_what_a_dead_connection_asked_counts_until_it_is_answered() -> None:
    limits = Limits(queued_max_bytes=100 * KIB, small_request_bytes=0)
    desk = Desk()
    async with serving(desk, limits) as running:
        async with running.client() as client:
            await client.send(frame(bytes(90 * KIB), 1))
            await until(lambda: len(desk.requests) == 1)
        await until(lambda: running.server.connections == 0)
        assert running.server.counters.queued_bytes > 90 * KIB
        async with running.client() as client:
            await client.send(frame(bytes(90 * KIB), 2))
            await until(lambda: running.server.queue.starving)
            desk.answer(0)
            await until(lambda: len(desk.requests) == 2)
            desk.answer(1)
            assert (await client.answer())[0] == 2
        assert running.server.counters.queued_bytes == 0
