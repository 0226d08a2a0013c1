"""Measures how one broker sends a log from the page cache: `python -m benchmarks.broker_consume`.

A client that only asks and drains fetches a whole log, two requests of 1 MiB ahead, and what stands
beside it is `sendfile` of the same file to such a reader, in the same run. Both sides take turns,
and the median of the ratios of neighbouring rounds counts. The goal is 0.6. CPU is that of the
broker alone. The last line is a consumer that looks at every record, for which the client is the
limit: librdkafka's own, through Python's binding.
"""

from __future__ import annotations

import os
import socket
import statistics
import threading
import time
from pathlib import Path

import confluent_kafka

from benchmarks._brokers import MIB, TOPIC, Cluster, running
from benchmarks._plain import Plain, read_exactly
from benchmarks._rdkafka import open_producer
from storage.batch.header import headers

PIECE_BYTES = MIB
AHEAD = 2
MESSAGES = 500_000
ROUNDS = 7
GOAL = 0.6


def log_file(cluster: Cluster) -> Path:
    """Find the file that has all that was sent."""
    (found,) = (cluster.folder / "1" / f"{TOPIC}-0").glob("*.log")
    return found


def by_sendfile(path: Path) -> float:
    """Send a file to a reader over TCP; return bytes a second."""
    size = path.stat().st_size
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            with server.accept()[0] as out, path.open("rb") as file:
                at = 0
                while at < size:
                    at += os.sendfile(out.fileno(), file.fileno(), at, min(PIECE_BYTES, size - at))

        sender = threading.Thread(target=send)
        sender.start()
        with socket.create_connection(server.getsockname()) as reader:
            room = memoryview(bytearray(PIECE_BYTES))
            started_s = time.perf_counter()
            at = 0
            while at < size:
                read_exactly(reader, room[: min(PIECE_BYTES, size - at)])
                at += PIECE_BYTES
            elapsed_s = time.perf_counter() - started_s
        sender.join()
    return size / elapsed_s


def by_fetches(port: int, plan: list[tuple[int, int]]) -> float:
    """Fetch everything by offsets that are known before; return bytes a second."""
    total = 0
    with Plain(port) as client:
        started_s = time.perf_counter()
        for offset, _ in plan[:AHEAD]:
            client.ask(TOPIC, 0, offset, PIECE_BYTES, 500)
        for at, (_, size_bytes) in enumerate(plan):
            found = client.fetched()
            if at + AHEAD < len(plan):
                client.ask(TOPIC, 0, plan[at + AHEAD][0], PIECE_BYTES, 500)
            if found.records_bytes != size_bytes:
                raise ValueError(f"{found.records_bytes} bytes, where there are {size_bytes}")
            total += found.records_bytes
        return total / (time.perf_counter() - started_s)


def offsets(port: int, end_offset: int) -> list[tuple[int, int]]:
    """Read the log once; return where each fetch begins, and how much it gives."""
    found, offset = [], 0
    with Plain(port) as client:
        while offset < end_offset:
            client.ask(TOPIC, 0, offset, PIECE_BYTES, 500)
            records = client.fetched().records[0]
            found.append((offset, len(records)))
            *_, (_, last) = headers(records)
            offset = last.end_offset
    return found


def by_a_consumer(bootstrap: str, end_offset: int) -> float:
    """Consume everything record by record; return messages a second."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    seen = len(consumer.consume(1, 30))
    started_s = time.perf_counter()
    while seen < end_offset:
        found = consumer.consume(min(10_000, end_offset - seen), 30)
        if not found:
            raise ValueError(f"only {seen} of {end_offset} messages came")
        seen += len(found)
    return seen / (time.perf_counter() - started_s)


def main() -> None:
    """Measure and print."""
    with running(1) as cluster:
        cluster.create(TOPIC)
        with open_producer(cluster.bootstrap, TOPIC, {"batch.size": 64 << 10}) as producer:
            producer.send(1000, MESSAGES)
        path, port = log_file(cluster), cluster.nodes[0].port
        plan = offsets(port, MESSAGES)
        pairs, cpu_s = [], 0.0
        for _ in range(ROUNDS):
            bare = by_sendfile(path)
            before_s = cluster.cpu_s()
            pairs.append((bare, by_fetches(port, plan)))
            cpu_s += cluster.cpu_s() - before_s
        ratio = statistics.median(ours / bare for bare, ours in pairs)
        bare, ours = (statistics.median(each) for each in zip(*pairs, strict=True))
        sent_gb = sum(size_bytes for _, size_bytes in plan) * ROUNDS / 1e9
        print(
            f"fetches of 1 MiB from the page cache: {ratio:.2f} of sendfile (goal {GOAL});"
            f" {ours / MIB:,.0f} against {bare / MIB:,.0f} MiB/s; {cpu_s / sent_gb:.2f} s of CPU"
            " a GB",
            flush=True,
        )
        found = by_a_consumer(cluster.bootstrap, MESSAGES)
        print(f"a consumer in Python, record by record: {found:,.0f} messages/s")


if __name__ == "__main__":
    main()
