"""The page is served over real sockets, and who sends nonsense is cut off."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from net.metrics import MetricsServer, PartitionSample, Sources
from net.metrics.endpoint import MAX_CONNECTIONS, MAX_HEAD_BYTES, TIMEOUT_S
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork


@asynccontextmanager
async def serving(sources: Sources) -> AsyncIterator[Endpoint]:
    """Run an endpoint on any free port."""
    async with trio.open_nursery() as nursery:
        server = MetricsServer(TcpNetwork(), Endpoint("127.0.0.1", 0), sources)
        yield await nursery.start(server.run)
        nursery.cancel_scope.cancel()


async def ask(endpoint: Endpoint, request: bytes) -> bytes:
    """Send bytes and return everything that comes until the connection ends."""
    stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
    async with stream:
        await stream.send_all(request)
        found = b""
        try:
            async for some in stream:
                found += some
        except trio.BrokenResourceError:
            pass
        return found


def get(path: str, method: str = "GET") -> bytes:
    """Write a request."""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_the_page_is_what_was_counted() -> None:
    async def main() -> None:
        async with serving(Sources(41)) as endpoint:
            answer = await ask(endpoint, get("/metrics?x=y"))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert f"Content-Length: {len(body)}".encode() in head
            assert b"\nhwmark_node_id 41.0\n" in body
            head = await ask(endpoint, get("/metrics", "HEAD"))
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert head.endswith(b"\r\n\r\n")

    trio.run(main)


def test_a_node_is_healthy_before_it_is_ready() -> None:
    ready = False

    async def main() -> None:
        nonlocal ready
        async with serving(Sources(1, is_ready=lambda: ready)) as endpoint:
            assert (await ask(endpoint, get("/health"))).startswith(b"HTTP/1.1 200")
            assert (await ask(endpoint, get("/ready"))).startswith(b"HTTP/1.1 503")
            ready = True
            assert (await ask(endpoint, get("/ready"))).startswith(b"HTTP/1.1 200")

    trio.run(main)


@pytest.mark.parametrize(
    ("request_bytes", "status"), [(get("/"), b"404"), (get("/metrics", "POST"), b"405")]
)
def test_other_requests_are_refused(request_bytes: bytes, status: bytes) -> None:
    async def main() -> None:
        async with serving(Sources(1)) as endpoint:
            assert (await ask(endpoint, request_bytes)).startswith(b"HTTP/1.1 " + status)

    trio.run(main)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x00\x00\x10\x00\x12\x00\x03 \r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/2.0\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\n\r\n",
        b"get /metrics HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * MAX_HEAD_BYTES,
        b"\xff" * 100 + b"\r\n\r\n",
    ],
)
def test_who_sends_nonsense_is_cut_off(nonsense: bytes) -> None:
    async def main() -> None:
        async with serving(Sources(1)) as endpoint:
            assert await ask(endpoint, nonsense) == b""
            assert (await ask(endpoint, get("/health"))).startswith(b"HTTP/1.1 200")

    trio.run(main)


def test_a_sample_that_fails_ends_one_connection_and_not_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> list[PartitionSample]:
        raise RuntimeError("no sample")

    async def main() -> None:
        async with serving(Sources(1, partitions=broken)) as endpoint:
            assert await ask(endpoint, get("/metrics")) == b""
            assert (await ask(endpoint, get("/health"))).startswith(b"HTTP/1.1 200")

    trio.run(main)
    assert "a page could not be made" in caplog.text


def test_those_who_say_nothing_do_not_keep_others_out_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # The virtual clock jumps to the time-out as soon as nobody can do anything.
    async def main() -> None:
        async with serving(Sources(1)) as endpoint, trio.open_nursery() as nursery:
            silent = [
                await trio.open_tcp_stream(endpoint.host, endpoint.port)
                for _ in range(MAX_CONNECTIONS)
            ]
            with trio.fail_after(2 * TIMEOUT_S):
                assert (await ask(endpoint, get("/health"))).startswith(b"HTTP/1.1 200")
            for stream in silent:
                await stream.aclose()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=autojump_clock)
