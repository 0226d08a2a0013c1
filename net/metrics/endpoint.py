"""A small HTTP server: GET /metrics, /health and /ready, and nothing else.

/health says that the loop turns, /ready that the node serves its clients. One request per
connection, a few connections at a time, each for a few seconds: whoever sends something that is
no such request is cut off. It is no web server, and is meant for a network that one trusts.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from net.errors import ConnectionLost, MalformedRequest
from net.metrics.collector import CONTENT_TYPE, exposition
from net.metrics.samples import Sources, take
from net.transport.seam import Endpoint, Network, Stream

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 16
TIMEOUT_S: Final = 10.0
_BACKLOG: Final = 16
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Not Ready"}

_log = logging.getLogger(__name__)


class MetricsServer:
    """Serves the numbers of one node until it is cancelled."""

    def __init__(self, network: Network, endpoint: Endpoint, sources: Sources) -> None:
        self._network = network
        self._endpoint = endpoint
        self._sources = sources
        self._room = trio.Semaphore(MAX_CONNECTIONS)
        # One page is made at a time, so that many who ask cost no more than one thread.
        self._thread = trio.CapacityLimiter(1)

    async def run(self, task_status: trio.TaskStatus[Endpoint] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve; `started` gets the real port."""
        listener = await self._network.listen(self._endpoint, _BACKLOG)
        try:
            task_status.started(listener.endpoint)
            async with trio.open_nursery() as nursery:
                while True:
                    await self._room.acquire()
                    stream = await listener.accept()
                    nursery.start_soon(self._serve, stream)
        finally:
            listener.close()

    async def _serve(self, stream: Stream) -> None:
        try:
            with trio.move_on_after(TIMEOUT_S):
                method, path = parse_head(await _read_head(stream))
                await _send(stream, await self._answer(method, path))
        except (ConnectionLost, MalformedRequest) as error:
            _log.debug("%s is cut off: %s", stream.peer, error)
        except Exception:
            # A sample that cannot be taken is a bug of ours, but no reason to stop a broker.
            _log.exception("a page could not be made")
        finally:
            stream.close()
            self._room.release()

    async def _answer(self, method: str, path: str) -> bytes:
        if path not in ("/metrics", "/health", "/ready"):
            return _response(404, b"try /metrics, /health or /ready\n")
        if method not in ("GET", "HEAD"):
            return _response(405, b"GET only\n")
        with_body = method == "GET"
        if path == "/metrics":
            taken = take(self._sources)
            page = await trio.to_thread.run_sync(exposition, taken, limiter=self._thread)
            return _response(200, page, CONTENT_TYPE, with_body=with_body)
        if path == "/ready" and not self._sources.is_ready():
            return _response(503, b"not ready\n", with_body=with_body)
        return _response(200, b"ok\n", with_body=with_body)


def parse_head(head: bytes) -> tuple[str, str]:
    """Read method and path of a request's head; `MalformedRequest` for anything else."""
    line, _, _ = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
    except ValueError:
        raise MalformedRequest("the first line is no request of HTTP") from None
    if version not in ("HTTP/1.0", "HTTP/1.1") or not target.startswith("/"):
        raise MalformedRequest("the first line is no request of HTTP/1")
    if not (method.isalpha() and method.isupper()):
        raise MalformedRequest("no method of HTTP")
    return method, target.partition("?")[0]


async def _read_head(stream: Stream) -> bytes:
    buffer = bytearray(MAX_HEAD_BYTES)
    view = memoryview(buffer)
    filled = 0
    while True:
        if filled == MAX_HEAD_BYTES:
            raise MalformedRequest(f"a head of more than {MAX_HEAD_BYTES} bytes")
        got = await stream.receive_into(view[filled:])
        if not got:
            raise MalformedRequest("the connection ended within a request")
        filled += got
        end = buffer.find(b"\r\n\r\n", 0, filled)
        if end >= 0:
            return bytes(view[:end])


async def _send(stream: Stream, response: bytes) -> None:
    rest = memoryview(response)
    while rest:
        sent = stream.send_some((rest,))
        rest = rest[sent:]
        if rest and not sent:
            await stream.wait_writable()


def _response(
    status: int,
    body: bytes,
    content_type: str = "text/plain; charset=utf-8",
    *,
    with_body: bool = True,
) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (body if with_body else b"")
