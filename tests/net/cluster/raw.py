"""One Produce request over a bare socket, for what no client would do: not to move on."""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from hwmark.cluster_layout import HOST
from net.wire.apis import Api
from net.wire.headers import request_header, response_body_at
from net.wire.produce import ProduceRequest, encode_produce
from net.wire.produce_answers import ProducedPartition, parse_produce_answer
from storage.batch.build import build
from storage.batch.records import Record
from tests.net.cluster.harness import PATIENCE_S

_VERSION: Final = 9


class RawProducer:
    """A connection to one broker, whoever leads."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), PATIENCE_S)

    def __enter__(self) -> RawProducer:
        """Use it."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        self._socket.close()

    def send(self, topic: str, value: bytes, *, acks: int, timeout_ms: int) -> None:
        """Send one record to the first partition, and do not wait."""
        record = Record(0, int(time.time() * 1000), None, value)
        batch = memoryview(build([record]))
        request = ProduceRequest(None, acks, timeout_ms, [(topic, [(0, batch)])])
        body = b"".join(encode_produce(_VERSION, request))
        message = request_header(Api.PRODUCE, _VERSION, 1, "raw") + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)

    def receive(self) -> ProducedPartition:
        """Wait for the answer; `ConnectionError` if there is none."""
        (length,) = struct.unpack(">i", self._read(4))
        message = memoryview(self._read(length))
        _, position = response_body_at(message, Api.PRODUCE, _VERSION)
        [(_, [answer])] = parse_produce_answer(_VERSION, message[position:]).topics
        return answer

    def _read(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            some = self._socket.recv(length - len(found))
            if not some:
                raise ConnectionError("the broker closed the connection")
            found += some
        return found
