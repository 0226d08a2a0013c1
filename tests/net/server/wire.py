"""What the tests of the server share: a client that speaks raw bytes, and a running server."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from net.server import Limits, Listening, Request, Server, Service
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork, TcpOptions
from net.wire.apis import Scope

LOCAL = Endpoint("127.0.0.1", 0)
METADATA = 3
PATIENCE_S = 30


def frame(body: bytes, correlation_id: int = 0, api_key: int = METADATA, version: int = 1) -> bytes:
    """Write a request with the old header and no client id."""
    message = struct.pack(">hhih", api_key, version, correlation_id, -1) + body
    return struct.pack(">i", len(message)) + message


class Client:
    """The other side, on a raw socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive_exactly(self, count: int) -> bytes:
        got = bytearray()
        with trio.fail_after(PATIENCE_S):
            while len(got) < count:
                more = await self.stream.receive_some(count - len(got))
                if not more:
                    raise EOFError(f"the end after {len(got)} of {count} bytes")
                got += more
        return bytes(got)

    async def answer(self) -> tuple[int, bytes]:
        """Return the next answer: its correlation id, and all behind it."""
        (length,) = struct.unpack(">i", await self.receive_exactly(4))
        message = await self.receive_exactly(length)
        return struct.unpack_from(">i", message)[0], message[4:]

    async def ask(self, body: bytes, correlation_id: int = 0) -> bytes:
        await self.send(frame(body, correlation_id))
        got, answer = await self.answer()
        assert got == correlation_id
        return answer

    async def ended(self) -> bool:
        """Wait for the end; whatever comes before it is thrown away."""
        with trio.fail_after(PATIENCE_S), suppress(trio.BrokenResourceError):
            while await self.stream.receive_some(65536):
                pass
        return True


@attrs.define
class Running:
    """A server that runs, and how to reach it."""

    server: Server

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoints["PLAIN"]

    @asynccontextmanager
    async def client(self, receive_buffer_bytes: int | None = None) -> AsyncIterator[Client]:
        sock = trio.socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer_bytes)
        await sock.connect((self.endpoint.host, self.endpoint.port))
        async with trio.SocketStream(sock) as stream:
            yield Client(stream)

    async def has_read(self, count: int) -> None:
        """Wait until the server has read so many bytes."""
        await until(lambda: self.server.counters.bytes_in >= count)

    async def is_serving(self) -> bool:
        async with self.client() as client:
            return await client.ask(b"are you there?") == b"are you there?"


def echo(request: Request) -> None:
    """Answer with what was asked."""
    request.reply((bytes(request.body),))


@asynccontextmanager
async def serving(
    service: Service = echo,
    limits: Limits | None = None,
    options: TcpOptions | None = None,
    scope: Scope = Scope.BROKER,
) -> AsyncIterator[Running]:
    """Run a server with one listener while the block runs."""
    server = Server(TcpNetwork(options), [Listening("PLAIN", LOCAL, service, scope)], limits)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Running(server)
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something is so."""
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.lowlevel.checkpoint()


class Desk:
    """A service that keeps every request until it is told to answer."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.bodies: list[bytes] = []

    def __call__(self, request: Request) -> None:
        self.requests.append(request)
        self.bodies.append(bytes(request.body))

    async def has(self, count: int) -> None:
        """Wait until so many requests are here."""
        await until(lambda: len(self.requests) >= count)

    def answer(self, index: int) -> None:
        self.requests[index].reply((self.bodies[index],))
