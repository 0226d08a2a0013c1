"""A client of blocking sockets that does as little as possible: it sends, and drains what comes.

Its reads and writes are system calls on large buffers, so what it measures is the other side.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from net.wire.apis import Api
from net.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch_answer,
)
from net.wire.frames import LENGTH
from net.wire.headers import request_header, response_body_at
from net.wire.produce import ProduceRequest, encode_produce, parse_produce_answer

FETCH: Final = 12
PRODUCE: Final = 10
_ROOM_BYTES: Final = 8 << 20
_TIMEOUT_S: Final = 30


def read_exactly(sock: socket.socket, into: memoryview) -> None:
    """Fill a buffer; `ConnectionError` if the other side ends before."""
    at = 0
    while at < len(into):
        got = sock.recv_into(into[at:])
        if not got:
            raise ConnectionError("the other side has ended")
        at += got


class Plain:
    """One connection to one broker; answers come in the order of requests."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = memoryview(bytearray(_ROOM_BYTES))

    def __enter__(self) -> Plain:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def _send(self, api: Api, version: int, parts: Sequence[bytes | memoryview]) -> None:
        head = request_header(api, version, 1, "plain")
        size_bytes = len(head) + sum(map(len, parts))
        self.socket.sendall(b"".join((LENGTH.pack(size_bytes), head, *parts)))

    def _answer(self, api: Api, version: int) -> memoryview:
        read_exactly(self.socket, self._room[:4])
        whole = self._room[: LENGTH.unpack_from(self._room)[0]]
        read_exactly(self.socket, whole)
        return whole[response_body_at(whole, api, version)[1] :]

    def ask(self, topic: str, partition: int, offset: int, max_bytes: int, wait_ms: int) -> None:
        """Send a fetch."""
        wanted = FetchPartition(partition, offset, max_bytes)
        request = FetchRequest(wait_ms, 1, [(topic, [wanted])], max_bytes=max_bytes)
        self._send(Api.FETCH, FETCH, [encode_fetch(FETCH, request)])

    def fetched(self) -> FetchedPartition:
        """Receive the answer to the next fetch; `ValueError` if it is an error."""
        answer = parse_fetch_answer(FETCH, self._answer(Api.FETCH, FETCH))
        (_, (found,)), *_ = answer.topics
        if found.error_code:
            raise ValueError(f"a fetch was answered with error {found.error_code}")
        return found

    def produce(self, topic: str, partition: int, batch: bytes, acks: int = -1) -> None:
        """Send a batch."""
        request = ProduceRequest(None, acks, 30_000, [(topic, [(partition, memoryview(batch))])])
        self._send(Api.PRODUCE, PRODUCE, encode_produce(PRODUCE, request))

    def produced(self) -> int:
        """Receive the answer to the next batch; return its offset. `ValueError` for an error."""
        answer = parse_produce_answer(PRODUCE, self._answer(Api.PRODUCE, PRODUCE))
        (_, (done,)), *_ = answer.topics
        if done.error_code:
            raise ValueError(f"a batch was answered with error {done.error_code}")
        return done.base_offset
