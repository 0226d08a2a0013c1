"""How connections and servers end: refused, failed, drained, cancelled."""

import logging
import struct
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from net.errors import MalformedRequest
from net.server import Limits, Listening, Request, Server
from net.server.counters import ServerCounters
from net.server.reasons import Complaints, Reason
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork
from net.wire.apis import Scope
from protocol.errors import InvariantViolation, RemoteProtocolError
from tests.net.server.wire import LOCAL, PATIENCE_S, Client, Desk, echo, frame, serving, until

pytestmark = pytest.mark.trio


@pytest.mark.parametrize(
    ("error", "reason", "internal"),
    [
        (MalformedRequest("no such thing"), Reason.MALFORMED, 0),
        (RemoteProtocolError("no such thing"), Reason.MALFORMED, 0),
        (ValueError("no such thing"), Reason.INTERNAL_ERROR, 1),
    ],
)
async def test_a_service_that_fails_ends_that_connection_alone(
    error: Exception, reason: Reason, internal: int, caplog: pytest.LogCaptureFixture
) -> None:
    def service(request: Request) -> None:
        if bytes(request.body) == b"bad":
            raise error
        echo(request)

    async with serving(service) as running, running.client() as other:
        await other.ask(b"fine")
        async with running.client() as client:
            await client.send(frame(b"before", 1) + frame(b"bad", 2) + frame(b"after", 3))
            assert await client.answer() == (1, b"before")
            assert await client.ended()
        counters = running.server.counters
        await until(lambda: counters.closed[reason] == 1)
        assert counters.internal_errors == internal
        assert counters.malformed == 1 - internal
        assert counters.queued_bytes == 0
        assert await other.ask(b"still fine") == b"still fine"
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "no such thing" in caplog.text
    assert bool(record.exc_info) == bool(internal)


async def test_a_broken_invariant_stops_the_server() -> None:
    def service(request: Request) -> None:
        raise InvariantViolation("LogIsWhole", request, "it is not")

    with pytest.RaisesGroup(InvariantViolation, flatten_subgroups=True):
        async with serving(service) as running, running.client() as client:
            await client.send(frame(b""))
            with trio.fail_after(PATIENCE_S):
                await trio.Event().wait()
    assert running.server.connections == 0


async def test_a_service_may_end_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    async with serving(desk) as running, running.client() as client:
        await client.send(frame(b"", 1) + frame(b"", 2))
        await until(lambda: len(desk.requests) == 2)
        desk.requests[0].close("not\nwelcome")
        assert await client.ended()
        desk.answer(1)
        assert running.server.counters.queued_bytes == 0
        assert running.server.counters.closed[Reason.SERVICE] == 1
    assert "not\\nwelcome" in caplog.text


async def test_the_task_of_a_connection_that_was_held_ends_with_it() -> None:
    desk = Desk()
    async with serving(desk, Limits(max_in_flight=1)) as running, running.client() as client:
        nursery = running.server._nursery
        assert nursery is not None
        tasks = len(nursery.child_tasks)
        await client.send(frame(b"", 1) + frame(b"", 2))
        await desk.has(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        desk.requests[0].close("enough")
        assert await client.ended()
        await until(lambda: len(nursery.child_tasks) <= tasks)


async def test_an_answer_to_one_who_is_gone_is_dropped() -> None:
    desk = Desk()
    async with serving(desk) as running:
        async with running.client() as client:
            await client.send(frame(b"", 1) + frame(b"", 2) + frame(b"", 3))
            await until(lambda: len(desk.requests) == 3)
            desk.answer(2)
        await until(lambda: running.server.connections == 0)
        desk.answer(0)
        desk.requests[1].close("too late to matter")
        assert running.server.counters.queued_bytes == 0
        assert running.server.counters.closed[Reason.PEER] == 1


async def test_the_newest_connection_is_refused_when_there_are_too_many() -> None:
    async with serving(limits=Limits(max_connections=2)) as running:
        async with running.client() as first, running.client() as second:
            assert await first.ask(b"1") == b"1"
            assert await second.ask(b"2") == b"2"
            async with running.client() as third:
                assert await third.ended()
            assert running.server.counters.refused == 1
            assert await first.ask(b"1") == b"1"
        await until(lambda: running.server.connections == 0)
        assert await running.is_serving()


async def test_connections_from_one_address_are_bounded() -> None:
    async with serving(limits=Limits(max_connections_per_ip=1)) as running:
        async with running.client() as first:
            assert await first.ask(b"1") == b"1"
            async with running.client() as second:
                assert await second.ended()
        await until(lambda: running.server.connections == 0)
        assert await running.is_serving()
        await until(lambda: running.server.connections == 0)
        assert running.server._by_ip == {}


async def test_draining_answers_what_is_worked_on_and_lets_nobody_in() -> None:
    desk = Desk()
    server = Server(TcpNetwork(), [Listening("PLAIN", LOCAL, desk, Scope.BROKER)])
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        await nursery.start(server.run)
        port = server.endpoints["PLAIN"].port
        working = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
        idle = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
        await working.send_all(frame(b"working", 1))
        await until(lambda: len(desk.requests) == 1 and server.connections == 2)
        nursery.start_soon(server.drain, 60)
        assert await idle.receive_some(1) == b""
        await working.send_all(frame(b"too late", 2))
        with pytest.raises(OSError, match="attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", port)
        desk.answer(0)
        assert await working.receive_some(100) == struct.pack(">ii", 11, 1) + b"working"
        assert await Client(working).ended()
    assert len(desk.requests) == 1
    assert server.counters.closed[Reason.DRAINED] == 2


async def test_draining_sends_what_does_not_fit_at_once() -> None:
    answer = bytes(20_000_000)
    server = Server(
        TcpNetwork(),
        [Listening("PLAIN", LOCAL, lambda request: request.reply((answer,)), Scope.BROKER)],
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        port = server.endpoints["PLAIN"].port
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(frame(b"", 1))
            await until(lambda: server.counters.bytes_out > 0)
            nursery.start_soon(server.drain, 60)
            await trio.testing.wait_all_tasks_blocked(0.01)
            got = 0
            async for data in stream:
                got += len(data)
            assert got == len(answer) + 8


async def test_draining_ends_in_time_though_a_request_is_not_answered() -> None:
    desk = Desk()
    server = Server(TcpNetwork(), [Listening("PLAIN", LOCAL, desk, Scope.BROKER)])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        async with await trio.open_tcp_stream(
            "127.0.0.1", server.endpoints["PLAIN"].port
        ) as stream:
            await stream.send_all(frame(b"", 1))
            await until(lambda: len(desk.requests) == 1)
            await server.drain(0.01)
            assert await stream.receive_some(1) == b""
        assert server.counters.closed == {Reason.DRAINED: 1}
    desk.answer(0)
    assert server.counters.queued_bytes == 0


async def test_a_server_that_cannot_have_all_its_addresses_opens_none() -> None:
    async with serving() as running:
        taken = running.endpoint
        server = Server(
            TcpNetwork(),
            [
                Listening("FREE", LOCAL, echo, Scope.BROKER),
                Listening("TAKEN", taken, echo, Scope.BROKER),
            ],
        )
        with pytest.raises(OSError, match="in use"):
            await server.run()
        with pytest.raises(OSError, match="attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", server.endpoints["FREE"].port)


async def test_listeners_have_services_of_their_own() -> None:
    def tell(name: bytes) -> "list[Listening]":
        return [
            Listening(name.decode(), LOCAL, lambda request: request.reply((name,)), Scope.BROKER)
        ]

    server = Server(TcpNetwork(), [*tell(b"ONE"), *tell(b"TWO")])
    async with trio.open_nursery() as nursery:
        endpoints: dict[str, Endpoint] = await nursery.start(server.run)
        for name, endpoint in endpoints.items():
            async with await trio.open_tcp_stream(endpoint.host, endpoint.port) as stream:
                await stream.send_all(frame(b"", 1))
                assert (await stream.receive_some(100))[8:] == name.encode()
        nursery.cancel_scope.cancel()


async def test_a_flood_of_bad_connections_does_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = ServerCounters()
    now_s = 100.5
    complaints = Complaints(logging.getLogger("flood"), counters, lambda: now_s)
    for index in range(1000):
        complaints.ended("PLAIN", f"127.0.0.1:{index}", Reason.BAD_LENGTH, "x" * 10_000)
        complaints.failed("PLAIN", f"127.0.0.1:{index}", 3, 1, ValueError("ours"))
    assert len(caplog.records) == 11
    assert all(len(record.getMessage()) < 500 for record in caplog.records)
    now_s = 101.5
    complaints.tick()
    left_out = [record.getMessage() for record in caplog.records[11:]]
    assert left_out == [
        "990 more not logged: bad length",
        "999 more not logged: internal error",
    ]
    assert counters.unlogged == 990 + 999
    complaints.ended("PLAIN", "127.0.0.1:1", Reason.BAD_LENGTH, "again")
    assert "again" in caplog.records[-1].getMessage()
