"""TCP: what the seam promises, over real loopback sockets."""

import os
import random
import resource
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from net.errors import ConnectionLost
from net.transport.seam import Endpoint
from net.transport.tcp import MOST_BUFFERS, TcpListener, TcpNetwork, TcpOptions, TcpStream
from storage.disk.posix import PosixDisk

OPEN = Path("/proc/self/fd")

pytestmark = pytest.mark.trio


@asynccontextmanager
async def pair(
    host: str = "127.0.0.1", options: TcpOptions | None = None
) -> AsyncIterator[tuple[TcpStream, TcpStream]]:
    """Provide both ends of a connection."""
    network = TcpNetwork(options)
    listener = await network.listen(Endpoint(host, 0), 5)
    near = await network.connect(listener.endpoint)
    far = await listener.accept()
    try:
        yield near, far
    finally:
        for each in (near, far, listener):
            each.close()


async def receive(stream: TcpStream, count: int) -> bytes:
    found = bytearray(count)
    got = 0
    with trio.fail_after(30):
        while got < count:
            more = await stream.receive_into(memoryview(found)[got:])
            assert more
            got += more
    return bytes(found)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "::"])
async def test_bytes_go_both_ways_over_either_family(host: str) -> None:
    async with pair(host) as (near, far):
        assert near.send_some([b"to ", b"there"]) == 8
        assert await receive(far, 8) == b"to there"
        assert far.send_some([b"back"]) == 4
        assert await receive(near, 4) == b"back"


async def test_who_listens_everywhere_sees_plain_addresses() -> None:
    network = TcpNetwork()
    listener = await network.listen(Endpoint("", 0), 5)
    for host, seen in (("127.0.0.1", "127.0.0.1:"), ("::1", "[::1]:")):
        near = await network.connect(Endpoint(host, listener.endpoint.port))
        far = await listener.accept()
        assert far.peer.startswith(seen)
        assert near.peer == f"{seen}{listener.endpoint.port}"
        near.close()
        far.close()
    listener.close()


async def test_sockets_do_not_delay_and_probe_a_silent_peer() -> None:
    options = TcpOptions(keepalive_idle_s=7, keepalive_interval_s=3, keepalive_probes=2)
    async with pair(options=options) as ends:
        for each in ends:
            sock = each._socket
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 3
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 2


async def test_nothing_is_taken_without_waiting_if_nothing_is_there() -> None:
    async with pair() as (near, far):
        view = memoryview(bytearray(10))
        assert far.receive_now(view) is None
        near.send_some([b"12345"])
        assert await far.receive_into(view[:2]) == 2
        assert far.receive_now(view[2:]) == 3
        assert bytes(view[:5]) == b"12345"
        assert far.receive_now(view) is None
        near.close()
        assert await far.receive_into(view) == 0
        assert far.receive_now(view) == 0


async def test_more_buffers_than_the_system_takes_at_once_are_sent_in_part() -> None:
    async with pair() as (near, far):
        sent = near.send_some([b"x"] * (3 * MOST_BUFFERS))
        assert 0 < sent <= MOST_BUFFERS
        assert await receive(far, sent) == b"x" * sent


async def test_a_full_stream_takes_nothing_until_the_other_side_reads() -> None:
    data = random.Random(5).randbytes(30_000_000)
    async with pair() as (near, far):
        sent = near.send_some([data])
        while more := near.send_some([memoryview(data)[sent:]]):
            sent += more
        assert sent < len(data)

        async def send_the_rest() -> None:
            at = sent
            while at < len(data):
                await near.wait_writable()
                at += near.send_some([memoryview(data)[at:]])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_the_rest)
            assert await receive(far, len(data)) == data


async def test_files_are_sent_from_any_position(tmp_path: Path) -> None:
    disk = PosixDisk()
    path = f"{tmp_path}/log"
    disk.create(path)
    content = random.Random(2).randbytes(20_000_000)
    disk.write(path, [content], 0)
    async with pair() as (near, far):
        with disk.pin(path) as file:
            at = 1_000
            blocked = False

            async def send() -> None:
                nonlocal at, blocked
                while at < len(content):
                    sent = near.send_file_some(file, at, len(content) - at)
                    if not sent:
                        blocked = True
                        await near.wait_writable()
                    at += sent

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                assert await receive(far, len(content) - 1_000) == content[1_000:]
            assert blocked
            with pytest.raises(ConnectionLost, match="too early"):
                near.send_file_some(file, len(content), 5)
            near.close()
            with pytest.raises(ConnectionLost):
                near.send_file_some(file, 0, 5)
        with pytest.raises(ConnectionLost):
            far.send_file_some(file, 0, 5)
    disk.close()


async def test_closing_wakes_who_waits_on_this_side() -> None:
    async with pair() as (near, _):
        while near.send_some([bytes(1_000_000)]):
            pass
        lost = 0

        async def read() -> None:
            nonlocal lost
            with pytest.raises(ConnectionLost):
                await near.receive_into(memoryview(bytearray(1)))
            lost += 1

        async def write() -> None:
            nonlocal lost
            with pytest.raises(ConnectionLost):
                await near.wait_writable()
            lost += 1

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                nursery.start_soon(write)
                await trio.testing.wait_all_tasks_blocked()
                near.close()
        assert lost == 2
        near.close()


async def test_everything_on_a_closed_stream_is_connection_lost() -> None:
    async with pair() as (near, _):
        near.close()
        view = memoryview(bytearray(1))
        with pytest.raises(ConnectionLost):
            near.send_some([b"x"])
        with pytest.raises(ConnectionLost):
            near.receive_now(view)
        with pytest.raises(ConnectionLost):
            await near.receive_into(view)
        with pytest.raises(ConnectionLost):
            await near.wait_writable()


async def test_a_reset_is_connection_lost() -> None:
    async with pair() as (near, far):
        far._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        with pytest.raises(ConnectionLost):
            await near.receive_into(memoryview(bytearray(1)))
        with pytest.raises(ConnectionLost):
            near.send_some([b"x"])


@pytest.mark.parametrize(
    "endpoint",
    [Endpoint("127.0.0.1", 1), Endpoint("no-such-host.invalid", 1), Endpoint("a" * 70, 1)],
)
async def test_who_cannot_be_reached_is_connection_lost(endpoint: Endpoint) -> None:
    with pytest.raises(ConnectionLost, match="cannot"):
        await TcpNetwork().connect(endpoint)


async def test_a_cancelled_connect_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        port = full.getsockname()[1]
        for _ in range(3):
            filler = waiting.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        descriptors = len(list(OPEN.iterdir()))
        scope = trio.CancelScope()

        async def connect() -> None:
            with scope:
                await TcpNetwork().connect(Endpoint("127.0.0.1", port))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(list(OPEN.iterdir())) == descriptors + 1
            scope.cancel()
        assert scope.cancelled_caught
        assert len(list(OPEN.iterdir())) == descriptors


async def test_an_address_can_be_had_again_while_old_connections_linger() -> None:
    network = TcpNetwork()
    listener = await network.listen(Endpoint("127.0.0.1", 0), 5)
    near = await network.connect(listener.endpoint)
    far = await listener.accept()
    # The side that ends it first keeps the address busy for a minute.
    far.close()
    assert await near.receive_into(memoryview(bytearray(1))) == 0
    near.close()
    listener.close()
    again = await network.listen(listener.endpoint, 5)
    again.close()


async def test_an_address_that_is_taken_is_an_os_error() -> None:
    network = TcpNetwork()
    listener = await network.listen(Endpoint("127.0.0.1", 0), 5)
    with pytest.raises(OSError, match="in use"):
        await network.listen(listener.endpoint, 5)
    listener.close()
    again = await network.listen(listener.endpoint, 5)
    again.close()


async def test_a_closed_listener_tells_who_waits() -> None:
    listener = await TcpNetwork().listen(Endpoint("127.0.0.1", 0), 5)

    async def accept() -> None:
        with pytest.raises(ConnectionLost):
            await listener.accept()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            await trio.testing.wait_all_tasks_blocked()
            listener.close()
    with pytest.raises(ConnectionLost):
        await listener.accept()


async def test_a_listener_survives_having_no_descriptors_left() -> None:
    listener = await TcpNetwork().listen(Endpoint("127.0.0.1", 0), 5)
    near = trio.socket.socket()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    accepted: list[TcpStream] = []

    async def accept() -> None:
        accepted.append(await listener.accept())

    with near, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            try:
                await near.connect(("127.0.0.1", listener.endpoint.port))
                while listener.starved < 2:
                    await trio.lowlevel.checkpoint()
                assert accepted == []
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await near.send(b"hello")
        assert await receive(accepted[0], 5) == b"hello"
    accepted[0].close()
    listener.close()


class AbortedFirst:
    """A listening socket whose first connection is gone when it is accepted."""

    def __init__(self, sock: socket.socket, error: OSError) -> None:
        self._socket = sock
        self._error: OSError | None = error

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> tuple[socket.socket, object]:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._socket.accept()


@pytest.mark.parametrize("error", [ConnectionAbortedError(), OSError(71, "EPROTO")])
async def test_a_connection_that_is_gone_when_it_is_accepted_is_no_matter(error: OSError) -> None:
    listener = await TcpNetwork().listen(Endpoint("127.0.0.1", 0), 5)
    real = listener._socket
    listener._socket = AbortedFirst(real, error)  # type: ignore[assignment]
    near = await TcpNetwork().connect(listener.endpoint)
    with trio.fail_after(30):
        far = await TcpListener.accept(listener)
    assert listener.starved == 0
    for each in (near, far):
        each.close()
    real.close()
