"""Measures the codecs written by hand against kio: `python -m benchmarks.wire_codec`.

Produce and Fetch pass through Python on their way, every time. Their figures are microseconds of
one message, and how many times longer kio takes for the same bytes in the same run; kio's parser
is compiled, its writers are not. The goal is to write an answer in a third of kio's time or less,
and to parse a request in about the time of the compiled parser, without copying its records. The
last lines are a Metadata answer through the schemas, which nobody has written by hand.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from net.wire import library
from net.wire.apis import Api
from net.wire.fetch import FetchAnswer, FetchedPartition, encode_fetch_answer
from net.wire.produce import (
    ProducedPartition,
    ProduceRequest,
    encode_produce,
    encode_produce_answer,
    parse_produce,
)

ROUNDS = 5
PRODUCE = 11
FETCH = 16
METADATA = 12
BATCH_BYTES = 100_000


def microseconds(work: Callable[[], object], times: int) -> float:
    """Return what one call takes, in the best of a few rounds."""
    best_s = float("inf")
    for _ in range(ROUNDS):
        started_s = time.process_time()
        for _ in range(times):
            work()
        best_s = min(best_s, time.process_time() - started_s)
    return best_s / times * 1e6


def show(name: str, ours: Callable[[], object], kio: Callable[[], object], times: int) -> None:
    """Print one figure and its ratio."""
    ours_us, kio_us = microseconds(ours, times), microseconds(kio, times)
    print(f"{name:42}{ours_us:8.2f} us   kio takes {kio_us / ours_us:4.1f} times as long")


def kio_writer(entity: Any, body: bytes) -> Callable[[], object]:
    """Return how kio writes the message that these bytes are."""
    value, _ = entity_reader(entity)(body, 0)
    write: Any = entity_writer(entity)
    return lambda: write(io.BytesIO(), value)


def produce_requests(times: int) -> None:
    """Parse one batch."""
    records = memoryview(bytes(BATCH_BYTES))
    request = ProduceRequest(None, -1, 30_000, [("topic", [(0, records)])])
    body = b"".join(encode_produce(PRODUCE, request))
    view = memoryview(body)
    read = entity_reader(load_request_schema(Api.PRODUCE, PRODUCE))
    title = f"parse Produce, one batch of {BATCH_BYTES // 1000} KB"
    show(title, lambda: parse_produce(PRODUCE, view), lambda: read(body, 0), times)


def produce_answers(partitions: int, times: int) -> None:
    """Write the answer to some partitions."""
    done = [ProducedPartition(index, 0, 1 << 33, -1, 0) for index in range(partitions)]
    body = encode_produce_answer(PRODUCE, [("topic", done)])
    show(
        f"write a Produce answer, partitions: {partitions}",
        lambda: encode_produce_answer(PRODUCE, [("topic", done)]),
        kio_writer(load_response_schema(Api.PRODUCE, PRODUCE), body),
        times,
    )


def fetch_answers(partitions: int, times: int) -> None:
    """Write the answer for some partitions, around records that stay where they are."""
    records = bytes(1000)
    found = [
        FetchedPartition(index, 0, 9, 9, 0, records=(records,), records_bytes=len(records))
        for index in range(partitions)
    ]
    answer = FetchAnswer([(uuid.UUID(int=5), found)])
    body = b"".join(encode_fetch_answer(FETCH, answer))
    show(
        f"write a Fetch answer, partitions: {partitions}",
        lambda: encode_fetch_answer(FETCH, answer),
        kio_writer(load_response_schema(Api.FETCH, FETCH), body),
        times,
    )


def metadata(partitions: int, times: int) -> None:
    """Write and read a big answer by its schema."""
    nodes = [1, 2, 3]
    places = [
        {"partition_index": index, "leader_id": 1, "replica_nodes": nodes, "isr_nodes": nodes}
        for index in range(partitions)
    ]
    message = {"topics": [{"name": "topic", "partitions": places}]}
    body = library.encode_response(Api.METADATA, METADATA, message)
    entity = load_response_schema(Api.METADATA, METADATA)
    read = entity_reader(entity)
    show(
        f"write Metadata by its schema, partitions: {partitions}",
        lambda: library.encode_response(Api.METADATA, METADATA, message),
        kio_writer(entity, body),
        times,
    )
    show(
        f"read Metadata by its schema, partitions: {partitions}",
        lambda: library.decode_response(Api.METADATA, METADATA, body),
        lambda: read(body, 0),
        times,
    )


def main() -> None:
    """Print the figures."""
    produce_requests(20_000)
    for partitions in (1, 10):
        produce_answers(partitions, 10_000)
    for partitions in (1, 10):
        fetch_answers(partitions, 10_000)
    metadata(100, 200)


if __name__ == "__main__":
    main()
