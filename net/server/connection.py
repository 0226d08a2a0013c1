"""One connection of a server: requests in, answers out in the same order.

One task reads and hands each request to the service at once, also when earlier ones are not
answered yet. Answers are sent by whoever makes them; only when the other side does not take them
fast enough, a second task waits for it. While too much is on its way, nothing more is read.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio

from net.errors import ConnectionLost, MalformedRequest
from net.server.input import Input
from net.server.output import Output
from net.server.reasons import Reason
from net.server.request import Request, release
from net.server.versions import read_header, take_api_versions
from net.transport.seam import Stream
from net.wire.apis import Api
from net.wire.frames import LENGTH_BYTES
from protocol.errors import InvariantViolation, RemoteProtocolError

if TYPE_CHECKING:
    from net.server.listening import OpenListener
    from net.server.server import Server

_READS_IN_A_ROW: Final = 16
_PAUSE_S: Final = 10.0
_SLOWEST_BYTES_A_SECOND: Final = 16 * 2**10
"""A message that comes faster than this may take as long as it needs."""


class Connection:
    """A client, as the server and its services see it."""

    __slots__ = (
        "_awaited_bytes",
        "_begun_s",
        "_corked",
        "_draining",
        "_granted_bytes",
        "_heard_s",
        "_held",
        "_input",
        "_open",
        "_open_bytes",
        "_output",
        "_sent_s",
        "_server",
        "_writing",
        "client_software_name",
        "client_software_version",
        "closed",
        "listener",
        "peer",
        "state",
        "stream",
    )

    def __init__(self, server: Server, listener: OpenListener, stream: Stream) -> None:
        self.peer = stream.peer
        self.listener = listener
        self.stream = stream
        self.closed = False
        self.state: dict[str, Any] = {}
        """Whatever a service wants to remember about this connection."""
        self.client_software_name: str | None = None
        self.client_software_version: str | None = None
        self._server = server
        self._input = Input(server.pool)
        self._output = Output(stream, server.counters, server.queue.give_back)
        self._open: deque[Request] = deque()
        """Requests in order; those behind the first may have their answers already."""
        self._open_bytes = 0
        self._granted_bytes = 0
        """Memory counted for the message that is being received."""
        self._awaited_bytes = 0
        self._held: trio.Event | None = None
        self._corked = False
        self._writing = False
        self._draining = False
        self._heard_s = self._sent_s = trio.current_time()
        self._begun_s: float | None = None
        """Since when a message is incomplete."""

    @property
    def listener_name(self) -> str:
        """The name of the listener it came to."""
        return self.listener.name

    def __repr__(self) -> str:
        return f"<Connection {self.listener.name} {self.peer}>"

    async def run(self) -> None:
        """Serve until either side ends it."""
        try:
            while not self.closed:
                if self._serve_what_came():
                    await self._receive()
                elif not self.closed:
                    await self._hold()
        except ConnectionLost as lost:
            self.end(Reason.LOST, str(lost))
        finally:
            self.end(Reason.SHUTDOWN, "the server stops")
            self._input.close()

    async def _receive(self) -> None:
        incoming = self._input
        got: int | None = await self.stream.receive_into(incoming.room())
        reads = 0
        while got:
            incoming.came(got)
            self._server.counters.bytes_in += got
            # The rest of a large message has mostly come meanwhile.
            reads += 1
            if not incoming.has_borrowed or reads == _READS_IN_A_ROW:
                break
            room = incoming.room()
            if not room:
                break
            got = self.stream.receive_now(room)
        now_s = trio.current_time()
        if now_s - self._heard_s > _PAUSE_S:
            incoming.paused()
        self._heard_s = now_s
        if got == 0:
            held = incoming.held_bytes
            self.end(Reason.PEER, f"{held} bytes into a message" if held else "between messages")

    def _serve_what_came(self) -> bool:
        """Serve every complete message; return whether more bytes are wanted, or else a pause."""
        self._corked = True
        try:
            return self._serve_messages()
        finally:
            # One system call for all the answers that were made meanwhile.
            self._corked = False
            if self._output:
                self._flush()
            self._after_progress()

    def _serve_messages(self) -> bool:
        incoming, max_bytes = self._input, self._server.limits.socket_request_max_bytes
        while not self.closed:
            size = incoming.next_size()
            if size is None:
                break
            if not 0 <= size <= max_bytes:
                self._flush()
                self.end(Reason.BAD_LENGTH, f"a message of {size} bytes, of at most {max_bytes}")
                return False
            if self._is_full():
                return False
            whole = size + LENGTH_BYTES
            complete = incoming.held_bytes >= whole
            if not complete and incoming.fits(whole):
                break
            if not self._granted_bytes and not self._get_memory(whole):
                return False
            if not complete:
                incoming.borrow(whole)
                break
            self._begun_s = None
            self._serve(incoming.take(whole))
            incoming.taken()
        if self._begun_s is None and incoming.held_bytes:
            self._begun_s = self._heard_s
        return True

    def _get_memory(self, whole_bytes: int) -> bool:
        queue = self._server.queue
        if queue.take(whole_bytes, not self._open):
            self._granted_bytes = whole_bytes
            return True
        self._awaited_bytes = whole_bytes
        queue.wait(self, whole_bytes)
        return False

    def granted(self, size_bytes: int) -> None:
        """Hear that the memory is there that was waited for."""
        self._awaited_bytes = 0
        self._granted_bytes = size_bytes
        self._after_progress()

    def _serve(self, message: memoryview) -> None:
        size_bytes, self._granted_bytes = self._granted_bytes, 0
        request = None
        try:
            header = read_header(message, self.listener.scope)
            known = self.listener.apis.get(header.api_key)
            if known is None or not (
                known.serves_from <= header.version <= known.serves_to
                or header.api_key == Api.API_VERSIONS
            ):
                self._refuse(header.api_key, header.version, size_bytes)
                return
            request = Request(
                header, message[header.end :], self, self._heard_s, size_bytes, known.counters
            )
            self._open.append(request)
            self._open_bytes += size_bytes
            known.counters.requests += 1
            if header.api_key == Api.API_VERSIONS:
                take_api_versions(request, self.listener.scope)
            else:
                self.listener.service(request)
            release_view(request.body)
        except InvariantViolation:
            raise
        except Exception as error:
            self._fail(error, request, size_bytes)

    def _refuse(self, api_key: int, version: int, size_bytes: int) -> None:
        self._flush()
        self.end(Reason.UNSUPPORTED, f"API {api_key} version {version}")
        self.forget(size_bytes)

    def _fail(self, error: Exception, request: Request | None, size_bytes: int) -> None:
        """End the connection because of a request that could not be taken."""
        counters = self._server.counters
        # Those before it are not to blame.
        self._flush()
        if isinstance(error, MalformedRequest | RemoteProtocolError):
            counters.malformed += 1
            self.end(Reason.MALFORMED, str(error))
        else:
            counters.internal_errors += 1
            at = (-1, -1) if request is None else (request.api_key, request.version)
            self._server.complaints.failed(self.listener.name, self.peer, *at, error)
            self.end(Reason.INTERNAL_ERROR, repr(error))
        if request is None:
            self.forget(size_bytes)
        else:
            request.abandon()

    def forget(self, request_bytes: int) -> None:
        """Count a request no more that gets no answer."""
        self._server.queue.give_back(request_bytes)

    def answered(self, request: Request) -> None:
        """Hear that a request has its answer; send it, if all before it have theirs."""
        waiting = self._open
        if waiting[0] is not request:
            return
        put = self._output.put
        while waiting and (answer := waiting[0].answer) is not None:
            first = waiting.popleft()
            self._open_bytes -= first.size_bytes
            put(answer, first.answer_bytes, first.size_bytes)
        if not self._corked:
            self._flush()
            self._after_progress()

    def _flush(self) -> None:
        if self._writing or self.closed:
            return
        try:
            if self._output.flush():
                return
        except ConnectionLost as lost:
            self.end(Reason.LOST, str(lost))
            return
        self._writing = True
        self._sent_s = trio.current_time()
        self._server.start_soon(self._write)

    async def _write(self) -> None:
        """Send what did not fit at once."""
        try:
            while not self.closed:
                await self.stream.wait_writable()
                before = self._output.waiting_bytes
                done = self._output.flush()
                if self._output.waiting_bytes < before:
                    self._sent_s = trio.current_time()
                self._writing = not done
                self._after_progress()
                if done:
                    return
        except ConnectionLost as lost:
            self.end(Reason.LOST, str(lost))

    def _is_full(self) -> bool:
        """Whether no further request may be taken now."""
        limits = self._server.limits
        if self._output.waiting_bytes > limits.max_output_bytes:
            self._flush()
        return (
            self._draining
            or len(self._open) >= limits.max_in_flight
            or self._open_bytes > limits.max_in_flight_bytes
            or self._output.waiting_bytes > limits.max_output_bytes
        )

    async def _hold(self) -> None:
        """Wait until requests may be taken again."""
        if (self._awaited_bytes or self._is_full()) and not self.closed:
            self._held = trio.Event()
            await self._held.wait()
            self._held = None
            if self._begun_s is not None:
                # It was not the other side that stood still.
                self._begun_s = trio.current_time()

    def _after_progress(self) -> None:
        """Go on with what waited for an answer, for room or for memory."""
        if self._draining and not self._open and not self._output:
            self.end(Reason.DRAINED, "the server stops")
        elif self._held is not None:
            queue = self._server.queue
            if self._awaited_bytes and not self._open and queue.is_small(self._awaited_bytes):
                self._awaited_bytes = 0
                queue.leave(self)
            if not self._awaited_bytes and not self._is_full():
                self._held.set()

    def drain(self) -> None:
        """Take no more requests, and end when those that are here are answered."""
        self._draining = True
        self._after_progress()

    def sweep(self, now_s: float) -> None:
        """End the connection if the other side has stood still for too long."""
        limits, queue = self._server.limits, self._server.queue
        idle_s = limits.idle_ms / 1000
        if self._output:
            if now_s - self._sent_s > idle_s:
                waiting = self._output.waiting_bytes
                self.end(Reason.SLOW_READER, f"{waiting} bytes of answers are not taken")
        elif self._held is not None:
            return
        elif self._begun_s is not None:
            held = self._input.held_bytes
            late_s = now_s - self._begun_s - held / _SLOWEST_BYTES_A_SECOND
            if late_s > idle_s:
                self.end(Reason.STALLED, f"{held} bytes into a message")
            elif self._granted_bytes and queue.starving and late_s > limits.starved_ms / 1000:
                self.end(Reason.STALLED, f"{held} bytes into a message that others wait for")
        elif not self._open and now_s - self._heard_s > idle_s:
            self.end(Reason.IDLE, f"nothing for {limits.idle_ms} ms")

    def end(self, reason: Reason, detail: str) -> None:
        """End the connection; once is enough."""
        if self.closed:
            return
        self.closed = True
        self.stream.close()
        self._output.drop()
        for request in self._open:
            # Those without an answer are counted until they get one: they are still worked on.
            if request.answer is not None:
                release(request.answer)
                self.forget(request.size_bytes)
        self._open.clear()
        self._server.queue.leave(self)
        if self._granted_bytes:
            self.forget(self._granted_bytes)
            self._granted_bytes = 0
        if self._held is not None:
            self._held.set()
        self._server.ended(self, reason, detail)


def release_view(view: memoryview) -> None:
    """Make a view unusable, so that who kept it learns that at once."""
    try:
        view.release()
    except BufferError:
        # Somebody looks at it through something else; that cannot be taken away.
        return
