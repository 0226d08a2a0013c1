"""A live broker and those who mean it harm, or do not know better: they are cut off, with a reason.

Whatever they send, the broker's memory stays bounded and everyone else is served.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from hwmark.cluster_layout import HOST
from tests.net.cluster.harness import PATIENCE_S, LocalCluster, until
from tests.net.cluster.strangers import Confluent, Sent

BROKERS: Final = 1
MEBIBYTE: Final = 1024 * 1024
MOST_REQUEST: Final = 16 * MEBIBYTE
SETTINGS: Final = {
    "connections.max.idle.ms": "3000",
    "socket.request.max.bytes": str(MOST_REQUEST),
    "queued.max.request.bytes": str(2 * MOST_REQUEST),
}
MOST_GROWTH: Final = 64 * MEBIBYTE
STRANGER: Final = Confluent()


@pytest.fixture(autouse=True)
def _serves_others(cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[None]:
    """After each of these, somebody else is served, by the same process, which has not grown."""
    pid, before = cluster.pid(1), _memory_bytes(cluster)
    yield
    _is_served(cluster, new_topic())
    assert cluster.pid(1) == pid
    assert cluster.running[1].poll() is None
    assert _memory_bytes(cluster) - before < MOST_GROWTH
    assert cluster.metrics(1)["hwmark_server_internal_errors_total"] == 0


def _is_served(cluster: LocalCluster, topic: str) -> None:
    assert STRANGER.produce(cluster.bootstrap, topic, [Sent(b"hello")]) == [0]
    assert [each.value for each in STRANGER.consume(cluster.bootstrap, topic, 0, 1)] == [b"hello"]


def _memory_bytes(cluster: LocalCluster) -> int:
    status = Path(f"/proc/{cluster.pid(1)}/status").read_text(encoding="ascii")
    [line] = [each for each in status.splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def _connect(cluster: LocalCluster) -> socket.socket:
    return socket.create_connection((HOST, cluster.plan.node(1).port), PATIENCE_S)


def _is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection, whatever is sent before it."""
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


def _reason(cluster: LocalCluster, port: int) -> str:
    """Wait for the line that says why a connection ended."""

    def find() -> str | None:
        lines = [each for each in cluster.log(1).splitlines() if f"{HOST}:{port} ended" in each]
        return lines[-1] if lines else None

    return until(f"a line about port {port}", find)


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _request(api: int, version: int, body: bytes) -> bytes:
    """A request of a flexible version, header 2: key, version, correlation, client, no tags."""
    return _framed(struct.pack(">hhih", api, version, 1, -1) + b"\0" + body)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(struct.pack(">i", 2**31 - 1), "bad length", id="2-GiB"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"x" * 100_000, "bad length", id="2-GiB-begun"),
        pytest.param(struct.pack(">i", -1), "bad length", id="length-below-zero"),
        pytest.param(struct.pack(">i", -(2**31)), "bad length", id="least-length"),
        pytest.param(struct.pack(">i", 0), "", id="nothing"),
        pytest.param(_framed(b"\0\0"), "malformed", id="half-a-header"),
        pytest.param(_request(9999, 0, b""), "unsupported API", id="unknown-API"),
        pytest.param(_request(3, 99, b""), "unsupported API", id="unknown-version"),
        pytest.param(_request(3, 12, b"\xff\xff\xff\xff\x07"), "malformed", id="2G-topics"),
        pytest.param(_request(3, 12, b"\x02"), "malformed", id="cut-off"),
        pytest.param(
            _request(0, 9, b"\0\xff\xff\0\0\0\1\xff\xff\xff\xff\x07"), "malformed", id="P"
        ),
        pytest.param(_request(1, 12, random.Random(1).randbytes(300)), "malformed", id="fetch"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: me\r\n\r\n", "bad length", id="HTTP"),
    ],
)
def test_a_malformed_request_ends_its_connection_with_a_reason(
    cluster: LocalCluster, sent: bytes, reason: str
) -> None:
    with _connect(cluster) as connection:
        port = connection.getsockname()[1]
        connection.sendall(sent)
        assert _is_closed(connection)
    assert reason in _reason(cluster, port)


def test_bytes_behind_a_message_are_passed_over_as_kafka_does(cluster: LocalCluster) -> None:
    with _connect(cluster) as connection:
        connection.settimeout(PATIENCE_S)
        for _ in range(2):
            connection.sendall(_request(3, 12, b"\0\0\0\0junk"))
            with connection.makefile("rb") as answers:
                (length,) = struct.unpack(">i", answers.read(4))
                (correlation,) = struct.unpack_from(">i", answers.read(length))
            assert correlation == 1


def test_random_bytes_end_their_connections(cluster: LocalCluster) -> None:
    chance = random.Random(7)
    for _ in range(300):
        with _connect(cluster) as connection:
            try:
                connection.sendall(chance.randbytes(chance.randrange(1, 5_000)))
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            assert _is_closed(connection)


def test_random_bytes_within_good_frames_end_their_connections(cluster: LocalCluster) -> None:
    chance = random.Random(8)
    for _ in range(300):
        api, version = chance.choice([(0, 9), (1, 12), (2, 7), (3, 12), (19, 7), (22, 4), (44, 1)])
        with _connect(cluster) as connection:
            connection.sendall(_request(api, version, chance.randbytes(chance.randrange(200))))
            connection.shutdown(socket.SHUT_WR)
            assert _is_closed(connection)


def test_half_a_request_is_waited_for_only_so_long(cluster: LocalCluster) -> None:
    with _connect(cluster) as connection:
        port = connection.getsockname()[1]
        connection.sendall(_request(3, 12, b"\0\0\0\0")[:-2])
        assert _is_closed(connection)
    assert "stalled request" in _reason(cluster, port)


def test_large_requests_that_never_come_take_no_more_memory_than_is_set_aside(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    with ExitStack() as held:
        before = _memory_bytes(cluster)
        for _ in range(100):
            connection = held.enter_context(_connect(cluster))
            connection.sendall(struct.pack(">i", MOST_REQUEST) + b"\0" * 1000)
        _is_served(cluster, new_topic())
        assert _memory_bytes(cluster) - before < MOST_GROWTH


def test_who_asks_and_does_not_listen_is_not_kept_in_memory(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    new_topic(100)
    ask = _request(3, 12, b"\0\0\0\0")
    with _connect(cluster) as connection:
        connection.settimeout(1)
        before = _memory_bytes(cluster)
        try:
            for _ in range(200):
                connection.sendall(ask * 50)
        except (TimeoutError, ConnectionError):
            pass
        assert _memory_bytes(cluster) - before < MOST_GROWTH
        _is_served(cluster, new_topic())
        assert _is_closed(connection)


def test_a_thousand_who_say_nothing_keep_nobody_out(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    with ExitStack() as held:
        silent = [held.enter_context(_connect(cluster)) for _ in range(1_000)]
        until(
            "a thousand are connected",
            lambda: cluster.metrics(1).get("hwmark_server_opened_total", 0) >= 1_000,
        )
        _is_served(cluster, new_topic())
        # And they do not stay for ever.
        for connection in silent:
            assert _is_closed(connection)
    assert cluster.metrics(1)['hwmark_server_closed_total{reason="idle"}'] >= 1_000
