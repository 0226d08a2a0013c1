"""Measures three brokers that replicate: `python -m benchmarks.broker_replication`.

Batches of 1 MiB, a replica on each broker, acks=all, two in sync at least, one partition led by
each broker. The client is librdkafka. What stands beside it are the same bytes through plain Trio
sockets to three files, one process each, in the same run: no protocol, no checksum. Both sides take
turns, and the median of the ratios of neighbouring rounds counts. The goal is 0.5.

Then one client sends batches of 1 MiB at half of that speed, each at its time whatever became of
those before, and another one reads them. The goals are answers within 10 ms, and reading within
50 ms, for 99 of a hundred. Beside it stands what the relays take for the same load, and both again
with files in memory: a disk makes writers wait now and then, whoever writes. The last lines are
fail-over: how long a partition takes no batch when its leader is stopped in good order, and when it
is killed, which waits for the session timeout. With `--peer kafka`, three brokers of Apache Kafka
take the same messages, in turn with ours.
"""

from __future__ import annotations

import signal
import socket
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import _peer
from benchmarks._brokers import MIB, TOPIC, Cluster, free_ports, running
from benchmarks._plain import Plain
from benchmarks._rdkafka import open_producer
from benchmarks._relay import DONE, LENGTH_BYTES, three_relays
from storage.batch.build import build
from storage.batch.header import headers
from storage.batch.records import Record

GOAL = 0.5
ROUNDS = 5
BATCHES = 150
IN_FLIGHT = 5
KB = 1000
LATENCY_S = 8.0
MEMORY = Path("/dev/shm")
SESSION_MS = 9_000
LARGE = {
    "batch.size": MIB,
    "message.max.bytes": 2_000_000,
    "linger.ms": 20,
    "batch.num.messages": 1_000_000,
}


def by_relays(port: int) -> float:
    """Send batches through the relays, some ahead of their answers; return bytes a second."""
    head, message = MIB.to_bytes(LENGTH_BYTES, "big"), bytes(MIB)
    waiting: deque[None] = deque()
    with socket.create_connection(("127.0.0.1", port)) as relay:

        def take(count: int) -> None:
            while len(waiting) > count:
                if relay.recv(1) != DONE:
                    raise ConnectionError("a relay has ended")
                waiting.pop()

        started_s = time.perf_counter()
        for _ in range(BATCHES):
            take(IN_FLIGHT - 1)
            relay.sendall(head)
            relay.sendall(message)
            waiting.append(None)
        take(0)
        elapsed_s = time.perf_counter() - started_s
    return BATCHES * MIB / elapsed_s


def by_brokers(cluster: Cluster) -> float:
    """Send as many messages of 1 KB, to all partitions at once; return bytes a second."""
    count = BATCHES * MIB // KB // len(cluster.nodes)
    with open_producer(cluster.bootstrap, TOPIC, LARGE) as producer:
        everywhere = [(partition, KB, count) for partition in range(len(cluster.nodes))]
        return count * len(everywhere) * KB / producer.send_everywhere(everywhere)


def throughput(cluster: Cluster, relay_port: int) -> float:
    """Print the ratio; return our speed in bytes a second."""
    by_relays(relay_port), by_brokers(cluster)
    pairs, cpu_s = [], 0.0
    for _ in range(ROUNDS):
        bare = by_relays(relay_port)
        before_s = cluster.cpu_s()
        pairs.append((bare, by_brokers(cluster)))
        cpu_s += cluster.cpu_s() - before_s
    ratio = statistics.median(ours / bare for bare, ours in pairs)
    bare, ours = (float(statistics.median(each)) for each in zip(*pairs, strict=True))
    sent_gb = BATCHES * MIB * ROUNDS / 1e9
    print(
        f"three replicas, acks=all, 1 MiB batches: {ratio:.2f} of plain sockets (goal {GOAL});"
        f" {ours / MIB:,.0f} against {bare / MIB:,.0f} MiB/s; {cpu_s / sent_gb:.2f} s of CPU a GB,"
        " of all three",
        flush=True,
    )
    return ours


class Paced:
    """A load of batches, each sent at its time; when each was sent, answered and read."""

    def __init__(self, port: int, partition: int, every_s: float, count: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        value = bytes(MIB // 64 - 20)
        self._batch = bytes(build([Record(i, now_ms, None, value, ()) for i in range(64)]))
        self._port, self._partition = port, partition
        self._every_s, self._count = every_s, count
        self._sent_s: list[float] = []
        self.answered_s: list[float] = []
        self.read_s: list[float] = []
        self._first: int | None = None

    def run(self) -> None:
        """Send, take answers and read, each in a thread of its own."""
        with Plain(self._port) as sender, Plain(self._port) as reader:
            self._first = self._first_offset(sender) + 64
            threads = [
                threading.Thread(target=self._answers, args=(sender,)),
                threading.Thread(target=self._reads, args=(reader,)),
            ]
            for thread in threads:
                thread.start()
            for due_s in due_times(self._every_s, self._count):
                self._sent_s.append(due_s)
                sender.produce(TOPIC, self._partition, self._batch)
            for thread in threads:
                thread.join()

    def _first_offset(self, sender: Plain) -> int:
        """Send a batch until it is taken: a new leader may not know of it in the first moment."""
        for _ in range(100):
            sender.produce(TOPIC, self._partition, self._batch)
            try:
                return sender.produced()
            except ValueError:
                time.sleep(0.1)
        raise ValueError(f"partition {self._partition} takes nothing")

    def _answers(self, sender: Plain) -> None:
        for at in range(self._count):
            sender.produced()
            self.answered_s.append(time.perf_counter() - self._sent_s[at])

    def _reads(self, reader: Plain) -> None:
        first = offset = self._first or 0
        while len(self.read_s) < self._count:
            reader.ask(TOPIC, self._partition, offset, 4 * MIB, 500)
            found = reader.fetched()
            now_s = time.perf_counter()
            for _, header in headers(found.records[0] if found.records else b""):
                self.read_s.append(now_s - self._sent_s[(header.base_offset - first) // 64])
                offset = header.end_offset


def paced_relays(port: int, every_s: float, count: int) -> list[float]:
    """Send messages through the relays, each at its time; return how long their answers took."""
    head, message = MIB.to_bytes(LENGTH_BYTES, "big"), bytes(MIB)
    sent_s: list[float] = []
    answered_s: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as relay:

        def answers() -> None:
            for at in range(count):
                if relay.recv(1) != DONE:
                    raise ConnectionError("a relay has ended")
                answered_s.append(time.perf_counter() - sent_s[at])

        thread = threading.Thread(target=answers)
        thread.start()
        for due_s in due_times(every_s, count):
            sent_s.append(due_s)
            relay.sendall(head)
            relay.sendall(message)
        thread.join()
    return answered_s


def due_times(every_s: float, count: int) -> Iterator[float]:
    """Yield when each of so many things is due, at that time or as soon as somebody asks."""
    started_s = time.perf_counter()
    for at in range(count):
        due_s = started_s + at * every_s
        time.sleep(max(due_s - time.perf_counter(), 0))
        yield due_s


def percentile(values: list[float], part: float) -> float:
    """Give the value that this part of all is not above, in milliseconds."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000


def latency(cluster: Cluster, relay_port: int, bytes_a_second: float, where: str) -> None:
    """Print how long batches take at half of the speed, all of it to one partition."""
    leaders = cluster.create(TOPIC, 3)
    every_s = MIB / (bytes_a_second / 2)
    count = int(LATENCY_S / every_s)
    ports = {node.number: node.port for node in cluster.nodes}
    bare = paced_relays(relay_port, every_s, count)
    paced = Paced(ports[leaders[0]], 0, every_s, count)
    paced.run()
    answered, read = paced.answered_s, paced.read_s
    print(
        f"at half of that, {bytes_a_second / 2 / MIB:,.0f} MiB/s, {where}: produce p50"
        f" {percentile(answered, 0.5):.1f} ms, p99 {percentile(answered, 0.99):.1f} ms (goal 10);"
        f" end to end p50 {percentile(read, 0.5):.1f} ms, p99 {percentile(read, 0.99):.1f} ms"
        f" (goal 50)\n  plain sockets and files: p50 {percentile(bare, 0.5):.1f} ms,"
        f" p99 {percentile(bare, 0.99):.1f} ms",
        flush=True,
    )


def fail_over(cluster: Cluster, how: str, number: signal.Signals) -> None:
    """Print how long a partition takes no message when its leader gets a signal."""
    leader = cluster.leaders(TOPIC)[0]
    others = ",".join(f"127.0.0.1:{n.port}" for n in cluster.nodes if n.number != leader)
    node = next(each for each in cluster.nodes if each.number == leader)
    quick = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "message.timeout.ms": 30_000}
    quick |= {"socket.timeout.ms": 1_000, "topic.metadata.refresh.interval.ms": 100}
    quick |= {"linger.ms": 0, "log_level": 0}
    with open_producer(others, TOPIC, quick) as producer:
        pauses = []
        node.process.send_signal(number)
        until_s = time.perf_counter() + (SESSION_MS / 1000 + 8)
        while time.perf_counter() < until_s:
            pauses.append(producer.send(KB, 1))
            if pauses[-1] > 0.5 or (node.process.poll() is not None and max(pauses) > 0.05):
                break
        print(f"fail-over, leader {how}: {max(pauses):.2f} s without an answer", flush=True)


def main() -> None:
    """Measure and print."""
    peer = _peer.wanted(__doc__)
    settings = {"broker.session.timeout.ms": str(SESSION_MS), "min.insync.replicas": "2"}
    with running(3, settings) as cluster, relays() as relay_port:
        cluster.create(TOPIC, 3)
        speed = throughput(cluster, relay_port)
        fail_over(cluster, "stopped in good order", signal.SIGTERM)
    if MEMORY.is_dir():
        with running(3, settings, str(MEMORY)) as cluster, relays(str(MEMORY)) as relay_port:
            latency(cluster, relay_port, speed, "in memory")
    with running(3, settings) as cluster, relays() as relay_port:
        latency(cluster, relay_port, speed, "on a disk")
        fail_over(cluster, f"killed (session timeout {SESSION_MS} ms)", signal.SIGKILL)
    if peer:
        against_kafka(settings)


def against_kafka(settings: dict[str, str]) -> None:
    """Let three brokers of each kind take turns, and print the ratio."""
    with running(3, settings) as cluster, _peer.running(3, settings) as kafka:
        for each in (cluster, kafka):
            each.create(TOPIC, 3)
            by_brokers(each)
        pairs = [(by_brokers(kafka), by_brokers(cluster)) for _ in range(ROUNDS)]
    ratio = statistics.median(ours / theirs for theirs, ours in pairs)
    theirs, ours = (float(statistics.median(each)) for each in zip(*pairs, strict=True))
    print(
        f"three replicas, acks=all, 1 MiB batches: {ratio:.2f} of Apache Kafka;"
        f" {ours / MIB:,.0f} against {theirs / MIB:,.0f} MiB/s",
        flush=True,
    )


@contextmanager
def relays(below: str | None = None) -> Iterator[int]:
    """Run the relays, with files that go; provide the port of the first."""
    with (
        tempfile.TemporaryDirectory(prefix="hwmark-bench-", dir=below) as folder,
        three_relays(Path(folder), free_ports(3)) as relay_port,
    ):
        yield relay_port


if __name__ == "__main__":
    main()
