"""Measures what one broker takes from a C client: `python -m benchmarks.broker_produce`.

The client is librdkafka with its defaults (acks=all), and what stands beside each figure is the
same client in the same run on its own in-memory mock cluster, which is written in C and keeps
nothing. Both sides take turns, and the median of the ratios of neighbouring rounds counts. The
goals are 0.65 of the mock and a million messages a second with batches of 1 MiB, and 0.5 of it with
batches of 16 KiB. CPU is that of the broker alone.

The other lines are messages of several sizes with the client's default batching, and what waiting
for 5 ms and larger batches gain over sending at once. With `--peer kafka`, Apache Kafka takes the
mock's place for the first two as well.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

from benchmarks import _peer
from benchmarks._brokers import SHORT_LOGS, TOPIC, Cluster, running
from benchmarks._rdkafka import MOCK, Producer, open_producer

KB = 1000
LARGE = {"batch.size": 1 << 20, "message.max.bytes": 2_000_000, "linger.ms": 50}
SMALL = {"batch.size": 16 << 10, "linger.ms": 5}
MANY = {"batch.num.messages": 1_000_000}
GOALS = (("16 KiB", SMALL, 0.5, 200_000), ("1 MiB", LARGE, 0.65, 600_000))
ROUNDS = 5
SECONDS = 1.5


def rate(producer: Producer, size_bytes: int, seconds: float = SECONDS) -> float:
    """Send for about so long; return messages a second."""
    probe = max(2_000_000 // size_bytes, 1_000)
    count = max(int(probe / producer.send(size_bytes, probe) * seconds), probe)
    return count / producer.send(size_bytes, count)


def against(
    cluster: Cluster,
    other: str,
    known_as: str,
    name: str,
    settings: Mapping[str, object],
    count: int,
) -> None:
    """Let both sides take turns, and print the ratio."""
    conf = {**MANY, **settings}
    ratios, ours, theirs, cpu_s = [], [], [], 0.0
    with (
        open_producer(cluster.bootstrap, TOPIC, conf) as here,
        open_producer(other, TOPIC, conf) as there,
    ):
        here.send(KB, count // 4)
        there.send(KB, count // 4)
        for _ in range(ROUNDS):
            theirs.append(count / there.send(KB, count))
            before_s = cluster.cpu_s()
            ours.append(count / here.send(KB, count))
            cpu_s += cluster.cpu_s() - before_s
            ratios.append(ours[-1] / theirs[-1])
    sent_gb = count * KB * ROUNDS / 1e9
    print(
        f"1 KB messages, {name} batches: {statistics.median(ratios):.2f} of {known_as};"
        f" {statistics.median(ours):,.0f} against {statistics.median(theirs):,.0f} messages/s;"
        f" {cpu_s / sent_gb:.2f} s of CPU a GB",
        flush=True,
    )


def default_batching(cluster: Cluster) -> None:
    """Print what messages of several sizes make with nothing set."""
    with open_producer(cluster.bootstrap, TOPIC) as producer:
        for size_bytes in (100, KB, 10 * KB):
            before_s, started_s = cluster.cpu_s(), time.perf_counter()
            found = rate(producer, size_bytes)
            elapsed_s = time.perf_counter() - started_s
            cpu = (cluster.cpu_s() - before_s) / elapsed_s
            print(
                f"{size_bytes:,} B messages, default batching: {found:,.0f} messages/s,"
                f" {found * size_bytes / 1e6:,.0f} MB/s, {cpu:.0%} of a core",
                flush=True,
            )


def what_batching_gains(cluster: Cluster) -> None:
    """Print how much faster 1 KB messages are with batches that wait, against none that do."""
    with open_producer(cluster.bootstrap, TOPIC, {"linger.ms": 0, "batch.size": 1 << 10}) as one:
        base = rate(one, KB, 1.0)
    print(f"1 KB messages, a batch each: {base:,.0f} messages/s", flush=True)
    for kib in (16, 64):
        for linger_ms in (0, 5):
            conf = {"linger.ms": linger_ms, "batch.size": kib << 10}
            with open_producer(cluster.bootstrap, TOPIC, conf) as producer:
                found = rate(producer, KB, 1.0)
            print(
                f"  batches of {kib} KB, linger {linger_ms} ms: {found:,.0f} messages/s,"
                f" {found / base:.1f} times that",
                flush=True,
            )


def main() -> None:
    """Measure and print."""
    peer = _peer.wanted(__doc__)
    with running(1, SHORT_LOGS) as one:
        one.create(TOPIC)
        for name, settings, goal, count in GOALS:
            against(one, MOCK, f"the mock (goal {goal})", name, settings, count)
        default_batching(one)
        what_batching_gains(one)
        if peer:
            with _peer.running(1, SHORT_LOGS) as kafka:
                kafka.create(TOPIC)
                for name, settings, _, count in GOALS:
                    against(one, kafka.bootstrap, "Apache Kafka", name, settings, count)


if __name__ == "__main__":
    main()
