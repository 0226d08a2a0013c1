"""One live connection: requests leave in order, and answers come in that order.

It ends once, for a reason, and from then on does nothing. Making connections, and what happens to
requests when one ends, is the channel's.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

import trio

from net.channel.asked import Asked
from net.channel.inbox import Inbox
from net.errors import ConnectionLost, MalformedRequest
from net.transport.seam import Buffer, Stream
from net.wire.headers import response_body_at

_MOST_BUFFERS: Final = 64
"""How many buffers are offered to the stream at once."""
_NO_BODY: Final = memoryview(b"")


class Link:
    """A stream with the requests that are on it."""

    __slots__ = (
        "_backlog",
        "_broke",
        "_inbox",
        "_leaving",
        "_queued_bytes",
        "_scope",
        "_sent_bytes",
        "_stream",
        "_wake",
        "answered",
        "ended",
        "in_flight",
    )

    def __init__(
        self, stream: Stream, max_frame_bytes: int, broke: Callable[[Link, Exception], None]
    ) -> None:
        self.in_flight: deque[Asked] = deque()
        """Those whose answers are waited for, in the order in which they were sent."""
        self.answered = 0
        self.ended = False
        self._stream = stream
        self._broke = broke
        self._inbox = Inbox(max_frame_bytes)
        self._backlog: deque[Buffer] = deque()
        # Those that expect no answer are done when they have left, at this count of bytes.
        self._leaving: deque[tuple[int, Asked]] = deque()
        self._queued_bytes = self._sent_bytes = 0
        self._wake = trio.Event()
        self._scope = trio.CancelScope()

    def __len__(self) -> int:
        """Count the requests that are not done."""
        return len(self.in_flight) + len(self._leaving)

    @property
    def soonest_ms(self) -> float:
        """When the first of them has taken too long; infinity if there is none."""
        in_flight = (asked.deadline_ms for asked in self.in_flight)
        leaving = (asked.deadline_ms for _, asked in self._leaving)
        return min((*in_flight, *leaving), default=math.inf)

    def send(self, asked: Asked) -> None:
        """Send a request, or as much of it as fits now; the rest follows by itself."""
        self._queued_bytes += asked.size_bytes
        if asked.expects_answer:
            self.in_flight.append(asked)
        else:
            self._leaving.append((self._queued_bytes, asked))
        self._backlog.extend(asked.buffers)
        if len(self._backlog) == len(asked.buffers):
            self._send_now()
        if self._backlog:
            self._wake.set()

    def _send_now(self) -> None:
        """Hand over what the stream takes; whoever waited for just that is told."""
        backlog = self._backlog
        try:
            while backlog:
                offered = list(islice(backlog, _MOST_BUFFERS))
                sent = self._stream.send_some(offered)
                self._sent_bytes += sent
                self._drop_sent(sent)
                if sent < sum(map(len, offered)):
                    break
        except ConnectionLost as error:
            self._broke(self, error)
            return
        while self._leaving and self._leaving[0][0] <= self._sent_bytes:
            self._leaving.popleft()[1].on_answer(_NO_BODY)

    def _drop_sent(self, count: int) -> None:
        backlog = self._backlog
        while backlog and len(backlog[0]) <= count:
            count -= len(backlog.popleft())
        if count:
            backlog[0] = memoryview(backlog[0])[count:]

    async def run(self) -> None:
        """Read and write until the connection ends, or this is cancelled."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(self._write)

    async def _write(self) -> None:
        while not self.ended:
            await self._wake.wait()
            if not self._backlog:
                self._wake = trio.Event()
                continue
            try:
                await self._stream.wait_writable()
            except ConnectionLost as error:
                self._broke(self, error)
                return
            self._send_now()

    async def _read(self) -> None:
        inbox = self._inbox
        try:
            while not self.ended:
                count = await self._stream.receive_into(inbox.room())
                if not count:
                    raise ConnectionLost(f"{self._stream.peer} closed the connection")
                inbox.came(count)
                for frame in inbox.frames():
                    if not self._take_answer(frame):
                        return
        except (ConnectionLost, MalformedRequest) as error:
            self._broke(self, error)

    def _take_answer(self, frame: memoryview) -> bool:
        """Hand over an answer; return whether the connection goes on."""
        if not self.in_flight:
            raise MalformedRequest(f"{self._stream.peer} answered what nobody asked")
        asked = self.in_flight.popleft()
        try:
            correlation_id, position = response_body_at(frame, asked.api_key, asked.version)
            if correlation_id != asked.correlation_id:
                raise MalformedRequest(
                    f"{self._stream.peer} answered request {correlation_id}, where the answer to"
                    f" {asked.correlation_id} was due"
                )
            self.answered += 1
            asked.on_answer(frame[position:])
        except MalformedRequest as error:
            # First the connection: whoever asks again in the callback needs another one.
            self._broke(self, error)
            asked.on_failure(error)
        return not self.ended

    def end(self) -> list[Asked]:
        """Close the connection; return the requests whose fate is now unknown."""
        if self.ended:
            return []
        self.ended = True
        left = [*self.in_flight, *(asked for _, asked in self._leaving)]
        self.in_flight.clear()
        self._leaving.clear()
        self._backlog.clear()
        self._scope.cancel()
        self._stream.close()
        return left
