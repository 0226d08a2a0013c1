"""A C client for benchmarks: librdkafka by `ctypes`, from the wheel of confluent-kafka.

Python only hands over thousands of messages at a time, so a load is as fast as the library is. Its
in-memory mock cluster is the peer that brokers are compared with.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka

_POINTER: Final = ctypes.c_void_p
_TEXT: Final = ctypes.c_char_p
_PRODUCER, _CONSUMER = 0, 1
_COPY: Final = 2
_AT_ONCE: Final = 2_000
_MOST_QUEUED: Final = 100_000
_MOST_QUEUED_BYTES: Final = 100_000_000
_PATIENCE_S: Final = 60.0
MOCK: Final = "mock"
"""In place of addresses: a mock cluster of one broker, inside this process."""


class Message(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = [
        ("err", ctypes.c_int),
        ("rkt", _POINTER),
        ("partition", ctypes.c_int32),
        ("payload", _POINTER),
        ("len", ctypes.c_size_t),
        ("key", _POINTER),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("priv", _POINTER),
    ]


def _loaded() -> ctypes.CDLL:
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = [str(path) for path in sorted(beside.glob("librdkafka-*"))]
    name = found[0] if found else ctypes.util.find_library("rdkafka")
    if name is None:
        raise FileNotFoundError("no librdkafka: neither in the wheel of confluent-kafka nor here")
    library = ctypes.CDLL(name)
    size, number = ctypes.c_size_t, ctypes.c_int
    for function, result, arguments in (
        ("conf_new", _POINTER, []),
        ("conf_set", number, [_POINTER, _TEXT, _TEXT, _TEXT, size]),
        ("new", _POINTER, [number, _POINTER, _TEXT, size]),
        ("topic_new", _POINTER, [_POINTER, _TEXT, _POINTER]),
        ("topic_destroy", None, [_POINTER]),
        ("destroy", None, [_POINTER]),
        (
            "produce_batch",
            number,
            [_POINTER, ctypes.c_int32, number, ctypes.POINTER(Message), number],
        ),
        ("poll", number, [_POINTER, number]),
        ("outq_len", number, [_POINTER]),
        ("conf_set_dr_msg_cb", None, [_POINTER, _POINTER]),
    ):
        declared: Any = getattr(library, f"rd_kafka_{function}")
        declared.restype, declared.argtypes = result, arguments
    return library


_LIBRARY: Final = _loaded()


class Failed(Exception):  # noqa: N818 - it tells what happened
    """The client would not do what was asked, so there is nothing to measure."""


class Producer:
    """A producer for one partition of one topic. `open_producer` makes and destroys it."""

    def __init__(self, client: int, topic: int, refused: list[int]) -> None:
        self._client = client
        self._topic = topic
        self._refused = refused

    def send(self, size_bytes: int, count: int, partition: int = 0) -> float:
        """Send so many messages, and wait for all answers; return how long that took, in seconds.

        `Failed` if one was not taken.
        """
        return self.send_everywhere([(partition, size_bytes, count)])

    def send_everywhere(self, loads: Sequence[tuple[int, int, int]]) -> float:
        """Send to several partitions side by side: number, size of a message and how many."""
        largest = max(size_bytes for _, size_bytes, _ in loads)
        payload = ctypes.create_string_buffer(b"x" * largest, largest)
        messages = (Message * _AT_ONCE)()
        for each in messages:
            each.payload, each.len = ctypes.addressof(payload), largest
        left = {partition: count for partition, _, count in loads}
        most = min(_MOST_QUEUED, _MOST_QUEUED_BYTES // largest)
        started_s = time.perf_counter()
        while left:
            for partition, count in list(left.items()):
                # To offer more than it takes would keep a core busy with refusals.
                self._wait(most, started_s)
                left[partition] -= _LIBRARY.rd_kafka_produce_batch(
                    self._topic, partition, _COPY, messages, min(_AT_ONCE, count)
                )
                if not left[partition]:
                    del left[partition]
        self._wait(0, started_s)
        return time.perf_counter() - started_s

    def _wait(self, most: int, started_s: float) -> None:
        """Wait until no more than this is on its way."""
        while _LIBRARY.rd_kafka_outq_len(self._client) > most:
            _LIBRARY.rd_kafka_poll(self._client, 1)
            self._check(started_s)

    def _check(self, started_s: float) -> None:
        if self._refused[0]:
            raise Failed(f"a message was not delivered: error {self._refused[0]}")
        if time.perf_counter() - started_s > _PATIENCE_S:
            raise Failed(f"messages are not delivered after {_PATIENCE_S:.0f} s")


@contextmanager
def open_producer(
    bootstrap: str, topic: str, settings: Mapping[str, object] | None = None
) -> Iterator[Producer]:
    """Provide a producer that has connected and sent one message."""
    where: dict[str, object] = {"bootstrap.servers": bootstrap}
    if bootstrap == MOCK:
        where = {"test.mock.num.brokers": 1, "log_level": 3}
    defaults = {"queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 262_144}
    refused = [0]

    def note(_client: int, message: Any, _opaque: int) -> None:
        refused[0] = message[0].err or refused[0]

    delivered = ctypes.CFUNCTYPE(None, _POINTER, ctypes.POINTER(Message), _POINTER)(note)
    error = ctypes.create_string_buffer(512)
    config = _LIBRARY.rd_kafka_conf_new()
    # Only failures are told: a call into Python for each message would be what is measured.
    for name, value in {**where, **defaults, "delivery.report.only.error": "true",
                        **(settings or {})}.items():  # fmt: skip
        if _LIBRARY.rd_kafka_conf_set(config, name.encode(), str(value).encode(), error, 512):
            raise Failed(error.value.decode())
    _LIBRARY.rd_kafka_conf_set_dr_msg_cb(config, delivered)
    client = _LIBRARY.rd_kafka_new(_PRODUCER, config, error, 512)
    if not client:
        raise Failed(error.value.decode())
    handle = _LIBRARY.rd_kafka_topic_new(client, topic.encode(), None)
    try:
        producer = Producer(client, handle, refused)
        producer.send(100, 1)
        yield producer
    finally:
        _LIBRARY.rd_kafka_topic_destroy(handle)
        _LIBRARY.rd_kafka_destroy(client)
