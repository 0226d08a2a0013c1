"""The other side of a channel: a listener whose connections a test answers by hand."""

from __future__ import annotations

import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from net.channel import Channel, ChannelConfig, Channels
from net.errors import ConnectionLost
from net.transport.seam import Endpoint, Listener, Stream
from net.transport.tcp import TcpNetwork

API = 3
VERSION = 1
"""A request with the old header: four bytes in front of the answer."""


class Connection:
    """One connection, as the peer sees it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._came = bytearray()

    async def _read(self, count: int) -> bytes:
        piece = bytearray(65536)
        while len(self._came) < count:
            size = await self.stream.receive_into(memoryview(piece))
            if not size:
                raise EOFError
            self._came += piece[:size]
        taken = bytes(self._came[:count])
        del self._came[:count]
        return taken

    async def request(self) -> tuple[int, int, int, bytes]:
        """Wait for a request: API, version, correlation id, and what is behind the header."""
        (size,) = struct.unpack(">i", await self._read(4))
        message = await self._read(size)
        api, version, correlation_id, client = struct.unpack_from(">hhih", message)
        return api, version, correlation_id, message[10 + max(client, 0) :]

    async def answer(self, correlation_id: int, body: bytes) -> None:
        """Send an answer with the old header."""
        await self.send(struct.pack(">ii", 4 + len(body), correlation_id) + body)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        view = memoryview(data)
        while view:
            view = view[self.stream.send_some([view]) :]
            if view:
                await self.stream.wait_writable()

    async def ended(self) -> bool:
        """Wait until the channel has ended the connection."""
        try:
            while True:
                await self._read(1)
        except (EOFError, ConnectionLost):
            return True


class Peer:
    """A listener, and a channel to it."""

    def __init__(self, channels: Channels, listener: Listener) -> None:
        self.channels = channels
        self.listener = listener
        self.accepted: list[Connection] = []

    @property
    def endpoint(self) -> Endpoint:
        return self.listener.endpoint

    @property
    def channel(self) -> Channel:
        return self.channels.channel_to(self.endpoint)

    async def accept(self) -> Connection:
        self.accepted.append(Connection(await self.listener.accept()))
        return self.accepted[-1]


@asynccontextmanager
async def peer(config: ChannelConfig | None = None) -> AsyncIterator[Peer]:
    """Listen, and give a channel that asks for no versions."""
    network = TcpNetwork()
    listener = await network.listen(Endpoint("127.0.0.1", 0), 16)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            config = config or ChannelConfig(negotiate=False)
            channels = Channels(network, nursery, config, chance=random.Random(1))
            other = Peer(channels, listener)
            try:
                yield other
            finally:
                channels.close()
                listener.close()
                for connection in other.accepted:
                    connection.stream.close()


class Outcomes:
    """Callbacks that note what they are called with, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, object]] = []
        self._changed = trio.Event()

    def of(self, name: object) -> tuple[Callable[[memoryview], None], Callable[[Exception], None]]:
        def on_answer(body: memoryview) -> None:
            self._note((name, bytes(body)))

        def on_failure(error: Exception) -> None:
            self._note((name, type(error)))

        return on_answer, on_failure

    def _note(self, outcome: tuple[object, object]) -> None:
        self.seen.append(outcome)
        self._changed.set()

    async def count(self, wanted: int) -> list[tuple[object, object]]:
        """Wait until so many callbacks were called."""
        while len(self.seen) < wanted:
            self._changed = trio.Event()
            await self._changed.wait()
        return self.seen
