"""The server: opens listeners, lets connections in, watches over them and ends them.

It knows how requests and answers travel, and nothing about what they mean, but for ApiVersions.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Final

import trio

from net.errors import ConnectionLost
from net.server.connection import Connection
from net.server.counters import ServerCounters
from net.server.limits import Limits
from net.server.listening import Listening, OpenListener, opened
from net.server.memory import BufferPool, RequestQueue
from net.server.reasons import Complaints, Reason
from net.transport.seam import Endpoint, Network, Stream

_log = logging.getLogger(__name__)

_LONGEST_SWEEP_MS: Final = 1_000


class Server:
    """Serves listeners until it is cancelled or drained; `run` is its task, and runs once."""

    def __init__(
        self,
        network: Network,
        listeners: Sequence[Listening],
        limits: Limits | None = None,
        counters: ServerCounters | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.counters = counters or ServerCounters()
        self.endpoints: dict[str, Endpoint] = {}
        """Where each listener is, with its real port, once `run` has started."""
        self.pool = BufferPool()
        self.queue = RequestQueue(
            self.limits.queued_max_bytes, self.limits.small_request_bytes, self.counters
        )
        self.complaints = Complaints(_log, self.counters, trio.current_time)
        self._network = network
        self._listeners = tuple(listeners)
        self._open: list[OpenListener] = []
        self._connections: set[Connection] = set()
        self._by_ip: Counter[str] = Counter()
        self._nursery: trio.Nursery | None = None
        self._draining = False
        self._empty = trio.Event()

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    async def run(
        self, task_status: trio.TaskStatus[dict[str, Endpoint]] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve. What a service may not survive (`InvariantViolation`) comes out in a group."""
        with ExitStack() as after:
            for each in self._listeners:
                listener = await self._network.listen(each.endpoint, self.limits.backlog)
                after.callback(listener.close)
                self.endpoints[each.name] = listener.endpoint
                self._open.append(opened(each, listener, self.counters))
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for open_listener in self._open:
                    nursery.start_soon(self._accept, open_listener)
                nursery.start_soon(self._sweep)
                task_status.started(dict(self.endpoints))
        self.complaints.tick()

    async def drain(self, timeout_s: float) -> None:
        """Let nobody in, answer what is being worked on, and end. `run` returns then."""
        self._draining = True
        for each in self._open:
            each.listener.close()
        for connection in tuple(self._connections):
            connection.drain()
        if self._connections:
            with trio.move_on_after(timeout_s):
                await self._empty.wait()
        for connection in tuple(self._connections):
            connection.end(Reason.DRAINED, f"not answered within {timeout_s} s")
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def start_soon(self, task: Callable[[], Awaitable[None]]) -> None:
        """Let a task of a connection run."""
        if self._nursery is not None:
            self._nursery.start_soon(task)

    def ended(self, connection: Connection, reason: Reason, detail: str) -> None:
        """Hear that a connection has ended."""
        self._connections.discard(connection)
        self.counters.connections = len(self._connections)
        self.counters.closed[reason] += 1
        ip = _ip(connection.peer)
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        if reason is not Reason.INTERNAL_ERROR:
            self.complaints.ended(connection.listener.name, connection.peer, reason, detail)
        if self._draining and not self._connections:
            self._empty.set()

    async def _accept(self, listener: OpenListener) -> None:
        while not self._draining:
            try:
                stream = await listener.listener.accept()
            except ConnectionLost:
                return
            self._let_in(listener, stream)

    def _let_in(self, listener: OpenListener, stream: Stream) -> None:
        ip = _ip(stream.peer)
        refusal = self._refusal(ip)
        if refusal is not None:
            stream.close()
            self.counters.refused += 1
            self.complaints.ended(listener.name, stream.peer, Reason.REFUSED, refusal)
            return
        connection = Connection(self, listener, stream)
        self._connections.add(connection)
        self._by_ip[ip] += 1
        self.counters.opened += 1
        self.counters.connections = len(self._connections)
        self.start_soon(connection.run)

    def _refusal(self, ip: str) -> str | None:
        limits = self.limits
        if self._draining:
            return "the server stops"
        if len(self._connections) >= limits.max_connections:
            return f"there are {limits.max_connections} connections"
        if self._by_ip.get(ip, 0) >= limits.max_connections_per_ip:
            return f"there are {limits.max_connections_per_ip} connections from there"
        return None

    async def _sweep(self) -> None:
        limits = self.limits
        pause_ms = min(_LONGEST_SWEEP_MS, limits.idle_ms / 4, limits.starved_ms / 4)
        while True:
            await trio.sleep(pause_ms / 1000)
            now_s = trio.current_time()
            for connection in tuple(self._connections):
                connection.sweep(now_s)
            self.complaints.tick()


def _ip(peer: str) -> str:
    return peer.rpartition(":")[0]
