"""A channel: requests to one endpoint over one connection, which is made again when it is needed.

`request` is a plain call. Exactly one of its callbacks is called, on the loop, perhaps before it
returns: `on_answer` with the body, which is valid until the callback returns, or `on_failure` with
`ConnectionLost`, `RequestTimedOut` or `MalformedRequest`. An `on_answer` that raises
`MalformedRequest` has not taken the answer: the connection ends, and `on_failure` hears of it.
Anything else that a callback raises is a bug, and comes out of the nursery or of `request`.

Answers come in order, so a request whose time is over takes its connection with it, as in Kafka's
clients: nobody hears a late answer. While there is no connection, requests wait for one. An attempt
that fails, fails all of them; the next one comes after a pause that grows up to a second.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs
import trio

from net.channel.asked import Asked, OnAnswer, OnFailure
from net.channel.correlations import Correlations
from net.channel.link import Link
from net.channel.negotiation import API_VERSIONS, NEWEST, Versions, ask_versions, read_versions
from net.channel.reply import Reply
from net.driving import Timers
from net.errors import ConnectionLost, RequestTimedOut, TooManyInFlight
from net.transport.seam import Buffer, Endpoint, Network
from net.wire import library
from net.wire.frames import length_of
from net.wire.headers import request_header
from net.wire.library import Message

_log = logging.getLogger(__name__)
T = TypeVar("T")


@attrs.frozen
class ChannelConfig:
    """How channels behave. `negotiate`: ask for the API versions first, on each connection."""

    client_id: str | None = "hwmark"
    negotiate: bool = True
    max_in_flight: int = 100
    max_channels: int = 200
    max_answer_bytes: int = 100 * 1024 * 1024
    connect_timeout_ms: int = 10_000
    idle_ms: int = 9 * 60_000
    backoff_ms: int = 50
    max_backoff_ms: int = 1_000


class Channel:
    """Requests to one endpoint. Its connections live in the nursery that it is given."""

    def __init__(
        self,
        network: Network,
        nursery: trio.Nursery,
        endpoint: Endpoint,
        timers: Timers,
        config: ChannelConfig,
        correlations: Correlations,
        chance: random.Random,
    ) -> None:
        self.endpoint = endpoint
        self.versions: Versions | None = None
        """What the other side serves, by the last connection; `None` before the first."""
        self.armed_ms = math.inf
        self._network = network
        self._nursery = nursery
        self._timers = timers
        self._config = config
        self._correlations = correlations
        self._chance = chance
        self._attempt: trio.CancelScope | None = None
        self._link: Link | None = None
        self._is_open = False
        self._waiting: deque[Asked] = deque()
        self._failures = 0
        self._not_before_ms = 0
        self._used_ms = 0
        self._soonest_ms = math.inf
        self._closed = False

    @property
    def outstanding(self) -> int:
        """How many requests are not done."""
        return len(self._waiting) + (0 if self._link is None else len(self._link))

    @property
    def connected(self) -> bool:
        """Whether a request would leave at once."""
        return self._is_open

    def request(
        self,
        api: int,
        version: int,
        parts: Sequence[Buffer],
        on_answer: OnAnswer,
        on_failure: OnFailure,
        timeout_ms: int,
        *,
        expects_answer: bool = True,
    ) -> int:
        """Send a request, or let it wait for a connection; return its correlation id.

        The parts are not copied, so they must not change before a callback. One that expects no
        answer gets an empty one when all of it has left. `TooManyInFlight` is raised, and no
        callback called, if the other side has too much to answer already.
        """
        deadline_ms = self._timers.clock_ms() + timeout_ms
        asked = self._asked(api, version, parts, on_answer, on_failure, deadline_ms, expects_answer)
        self._ask(asked)
        return asked.correlation_id

    def _asked(
        self,
        api: int,
        version: int,
        parts: Sequence[Buffer],
        on_answer: OnAnswer,
        on_failure: OnFailure,
        deadline_ms: int,
        expects_answer: bool,
    ) -> Asked:
        correlation_id = self._correlations.take()
        header = request_header(api, version, correlation_id, self._config.client_id)
        buffers = (length_of((header, *parts)) + header, *parts)
        return Asked(
            api,
            version,
            correlation_id,
            buffers,
            on_answer,
            on_failure,
            deadline_ms,
            expects_answer,
        )

    def _ask(self, asked: Asked) -> None:
        if self._closed:
            asked.on_failure(ConnectionLost(f"the channel to {self.endpoint} is closed"))
            return
        if self.outstanding >= self._config.max_in_flight:
            raise TooManyInFlight(f"{self.outstanding} requests to {self.endpoint} are not done")
        self._used_ms = self._timers.clock_ms()
        self._wake_by(asked.deadline_ms)
        if self._is_open and self._link is not None:
            self._link.send(asked)
            return
        self._waiting.append(asked)
        if self._attempt is None:
            self._attempt = trio.CancelScope()
            self._nursery.start_soon(self._run, self._attempt)

    async def ask(
        self,
        api: int,
        version: int,
        parts: Sequence[Buffer],
        decode: Callable[[memoryview], T],
        timeout_ms: int,
    ) -> T:
        """Send a request and wait for what `decode` makes of its answer."""
        reply: Reply[T] = Reply(decode)
        self.request(api, version, parts, reply.answered, reply.failed, timeout_ms)
        return await reply.wait()

    async def call(self, api: int, version: int, message: Message, timeout_ms: int) -> Message:
        """Send a message and wait for the answer; for everything that is not hot."""
        body = library.encode_request(api, version, message)
        return await self.ask(
            api,
            version,
            [body],
            lambda view: library.decode_response(api, version, view),
            timeout_ms,
        )

    async def negotiated(self, timeout_ms: int) -> Versions:
        """Wait for a connection; return what the other side serves, empty if nobody asked it."""
        if not self._is_open:
            reply: Reply[None] = Reply(lambda _: None)
            deadline_ms = self._timers.clock_ms() + timeout_ms
            self._ask(Asked(-1, 0, 0, (), reply.answered, reply.failed, deadline_ms, False))
            await reply.wait()
        return self.versions or {}

    async def _run(self, attempt: trio.CancelScope) -> None:
        """Make a connection and keep it until it ends."""
        with attempt:
            try:
                link = await self._connect()
            except ConnectionLost as error:
                _log.info("no connection to %s: %s", self.endpoint, error)
                self._lose(attempt, error)
                return
            try:
                self._start(link)
                await link.run()
            finally:
                self._lose(attempt, ConnectionLost(f"the connection to {self.endpoint} ended"))
        # Cancelled before there was a connection.
        self._lose(attempt, ConnectionLost(f"the channel to {self.endpoint} is closed"))

    async def _connect(self) -> Link:
        pause_ms = self._not_before_ms - self._timers.clock_ms()
        if pause_ms > 0:
            await trio.sleep(pause_ms / 1000)
        with trio.move_on_after(self._config.connect_timeout_ms / 1000):
            stream = await self._network.connect(self.endpoint)
            return Link(stream, self._config.max_answer_bytes, self._broke)
        raise ConnectionLost(
            f"{self.endpoint} did not answer in {self._config.connect_timeout_ms} ms"
        )

    def _start(self, link: Link) -> None:
        self._link = link
        if self._config.negotiate:
            self._ask_versions(link, NEWEST)
        else:
            self._open(link)

    def _ask_versions(self, link: Link, version: int) -> None:
        def on_answer(body: memoryview) -> None:
            found = read_versions(version, body)
            if isinstance(found, int):
                self._ask_versions(link, found)
            else:
                self.versions = found
                self._open(link)

        deadline_ms = self._timers.clock_ms() + self._config.connect_timeout_ms
        self._wake_by(deadline_ms)
        # A failure is the connection's, and those who wait for it are told.
        link.send(
            self._asked(
                API_VERSIONS,
                version,
                [ask_versions(version)],
                on_answer,
                _ignore,
                deadline_ms,
                True,
            )
        )

    def _open(self, link: Link) -> None:
        """Let those who waited for the connection go."""
        self._is_open = True
        self._used_ms = self._timers.clock_ms()
        self._wake_by(self._used_ms + self._config.idle_ms)
        while self._waiting and self._link is link:
            link.send(self._waiting.popleft())

    def _broke(self, link: Link, error: Exception) -> None:
        if link is self._link and self._attempt is not None:
            _log.info("the connection to %s ended: %s", self.endpoint, error)
            self._lose(self._attempt, error)

    def _lose(
        self, attempt: trio.CancelScope, error: Exception, *, blameless: bool = False
    ) -> None:
        """End this attempt with all that waits for it; later ones are left alone."""
        if attempt is not self._attempt:
            return
        link, waiting = self._link, self._waiting
        self._attempt = self._link = None
        self._is_open = False
        self._waiting = deque()
        now_ms = self._timers.clock_ms()
        if link is not None and (link.answered or blameless):
            self._failures = 0
            self._not_before_ms = now_ms
        else:
            self._not_before_ms = now_ms + self._pause_ms()
            self._failures += 1
        attempt.cancel()
        lost = [] if link is None else link.end()
        for asked in (*lost, *waiting):
            asked.on_failure(_failure(asked, error, now_ms))

    def _pause_ms(self) -> int:
        config = self._config
        grown_ms = min(config.max_backoff_ms, config.backoff_ms << min(self._failures, 16))
        # Those who lost the same broker must not all come back at the same moment.
        return round(grown_ms * self._chance.uniform(0.8, 1.2))

    def _wake_by(self, deadline_ms: int) -> None:
        if deadline_ms < self._soonest_ms:
            self._soonest_ms = deadline_ms
            self._timers.watch(self)

    def next_deadline(self) -> int | None:
        """Tell when a request's time may be over, or the connection may have been idle too long."""
        return None if self._soonest_ms == math.inf else int(self._soonest_ms)

    def ring(self) -> None:
        """End what has taken too long. The deadline was a bound: answers do not move it."""
        now_ms = self._timers.clock_ms()
        self._soonest_ms = math.inf
        overdue = [asked for asked in self._waiting if asked.deadline_ms <= now_ms]
        if overdue:
            self._waiting = deque(each for each in self._waiting if each.deadline_ms > now_ms)
        link, attempt = self._link, self._attempt
        if link is not None and attempt is not None:
            self._ring_link(link, attempt, now_ms)
        for asked in overdue:
            asked.on_failure(_failure(asked, ConnectionLost(""), now_ms))
        self._soonest_ms = min(
            self._soonest_ms, min((each.deadline_ms for each in self._waiting), default=math.inf)
        )

    def _ring_link(self, link: Link, attempt: trio.CancelScope, now_ms: int) -> None:
        soonest_ms = link.soonest_ms
        idle_ms = self._used_ms + self._config.idle_ms
        if soonest_ms <= now_ms:
            self._lose(attempt, ConnectionLost(f"{self.endpoint} let a request's time run out"))
        elif soonest_ms == math.inf and idle_ms <= now_ms and not self._waiting:
            self._lose(attempt, ConnectionLost("idle"), blameless=True)
        else:
            self._soonest_ms = min(soonest_ms, max(idle_ms, now_ms + 1))

    def close(self) -> None:
        """End the connection and fail what is under way; every later request fails at once."""
        self._closed = True
        if self._attempt is not None:
            self._lose(self._attempt, ConnectionLost(f"the channel to {self.endpoint} was closed"))


def _failure(asked: Asked, error: Exception, now_ms: int) -> Exception:
    """Tell one request why it failed: each gets an exception of its own."""
    if asked.deadline_ms <= now_ms:
        return RequestTimedOut(f"no answer to request {asked.correlation_id} in time")
    return ConnectionLost(str(error))


def _ignore(error: Exception) -> None:
    del error
