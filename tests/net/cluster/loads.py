"""Producing and consuming without end, by each of the strangers' clients, while brokers fail.

A `Load` knows what was acknowledged, and where; a `Tail` what was read. Values say who wrote them
and as which of that writer's records in this partition, so that loss, repetition and order can be
seen in the log alone.
"""

from __future__ import annotations

import abc
import subprocess
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs
import confluent_kafka

from tests.net.cluster.harness import PATIENCE_S, QUIET, until
from tests.net.cluster.strangers import delivered_by_kcat, kafka

_MOST_WAITING: Final = 500
_BEAT_S: Final = 0.005
_DELIVERY_MS: Final = 120_000


@attrs.frozen
class Acked:
    """A record that a producer was told of; it may have been told no more than that it is there."""

    partition: int
    offset: int | None
    value: bytes


class Load(abc.ABC):
    """Produces in a thread until it is told to stop; acks=all."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int = 1, *, is_idempotent: bool = True
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.is_idempotent = is_idempotent
        self.acked: list[Acked] = []
        self.failed: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Load:
        """Begin, and wait until something has been acknowledged."""
        self._thread.start()
        self.goes_on(1)
        return self

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self.finish()

    def goes_on(self, count: int = 200) -> None:
        """Wait until so many more records have been acknowledged: the cluster serves."""
        wanted = len(self.acked) + count
        until(
            f"{count} more records are acknowledged ({self.failed[:3]})",
            lambda: len(self.acked) >= wanted or not self._thread.is_alive(),
        )
        assert len(self.acked) >= wanted, self.failed[:3]

    def finish(self) -> None:
        """Send no more, and wait for the answers to all that was sent."""
        self._ending.set()
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive(), "the producer does not end"
        assert not self.failed, self.failed[:3]

    def value(self, number: int) -> bytes:
        """Write down who sends this, and that it is the how-manieth for its partition."""
        return b"w-%d-%s" % (number // self.partitions, b"x" * (number % 97))

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.failed.append(repr(error))

    @abc.abstractmethod
    def _run(self) -> None:
        """Go on until told to stop."""


class ConfluentLoad(Load):
    """By confluent-kafka.

    A repeated batch whose offset no broker remembers is answered with DUPLICATE_SEQUENCE_NUMBER and
    offset -1. librdkafka takes that for the offset of the first record, and counts on from it.
    """

    _guessed: dict[int, int]

    def _run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": self.is_idempotent,
                "max.in.flight": 5 if self.is_idempotent else 1,
                "linger.ms": 5,
                "message.timeout.ms": _DELIVERY_MS,
                # A broker that is frozen is noticed by time alone.
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 1_000,
                **QUIET,
            }
        )
        number = 0
        self._guessed = {}
        while not self._ending.is_set():
            while len(producer) < _MOST_WAITING and not self._ending.is_set():
                producer.produce(
                    self.topic,
                    self.value(number),
                    partition=number % self.partitions,
                    on_delivery=self._delivered,
                )
                number += 1
                producer.poll(_BEAT_S if number % 10 == 0 else 0)
            producer.poll(_BEAT_S)
        left = producer.flush(2 * PATIENCE_S)
        if left:
            self.failed.append(f"{left} records got no answer")

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        partition: int = message.partition()
        offset: int | None = message.offset()
        if offset is None:
            self._guessed[partition] = 0
        elif offset == self._guessed.get(partition):
            self._guessed[partition], offset = offset + 1, None
        else:
            self._guessed.pop(partition, None)
        self.acked.append(Acked(partition, offset, message.value()))


class KafkaPythonLoad(Load):
    """By kafka-python."""

    def _run(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            acks="all",
            enable_idempotence=self.is_idempotent,
            max_in_flight_requests_per_connection=5 if self.is_idempotent else 1,
            delivery_timeout_ms=_DELIVERY_MS,
            request_timeout_ms=5_000,
            reconnect_backoff_max_ms=1_000,
            max_block_ms=_DELIVERY_MS,
            linger_ms=5,
        )
        room = threading.Semaphore(_MOST_WAITING)
        number = 0
        while not self._ending.wait(0 if number % 10 else _BEAT_S):
            if not room.acquire(timeout=_BEAT_S):
                continue
            value = self.value(number)
            future = producer.send(self.topic, value, partition=number % self.partitions)
            future.add_callback(self._delivered, value)
            future.add_errback(self._refused)
            future.add_both(lambda *_result: room.release())
            number += 1
        producer.flush(timeout=2 * PATIENCE_S)
        producer.close(timeout=PATIENCE_S)

    def _delivered(self, value: bytes, told: Any) -> None:
        self.acked.append(Acked(told.partition, told.offset, value))

    def _refused(self, error: object) -> None:
        self.failed.append(repr(error))


class KcatLoad(Load):
    """By kcat: into the first partition alone, because it says no more than the offsets."""

    def _run(self) -> None:
        options = {
            "acks": "all",
            "enable.idempotence": str(self.is_idempotent).lower(),
            "max.in.flight": "5" if self.is_idempotent else "1",
            "topic.produce.offset.report": "true",
            "message.timeout.ms": str(_DELIVERY_MS),
            "reconnect.backoff.max.ms": "1000",
        }
        command = ["kcat", "-b", self.bootstrap, "-t", self.topic, "-p", "0", "-P", "-vvv"]
        for name, value in options.items():
            command += ["-X", f"{name}={value}"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stderr is not None
        listener = threading.Thread(target=self._listen, args=(process.stderr,), daemon=True)
        listener.start()
        try:
            number = 0
            # It hears of answers only while it reads, so it is never kept waiting.
            while not self._ending.wait(_BEAT_S):
                lines = [self.value(each) + b"\n" for each in range(number, number + 4)]
                process.stdin.write(b"".join(lines))
                process.stdin.flush()
                number += len(lines)
            process.stdin.close()
            status = process.wait(2 * PATIENCE_S)
            listener.join(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stderr.close()
        if status != 0 or len(self.acked) != number:
            self.failed.append(f"status {status}, {len(self.acked)} of {number} acknowledged")

    def value(self, number: int) -> bytes:
        """Write down the same; long, because it reads a kilobyte at a time."""
        return b"w-%d-%s" % (number, b"x" * 1024)

    def _listen(self, stderr: Any) -> None:
        # With idempotence, and with one request at a time, answers come in the order of the lines.
        for line in stderr:
            for offset in delivered_by_kcat(line.decode()):
                self.acked.append(Acked(0, offset, self.value(len(self.acked))))


class Tail(abc.ABC):
    """Consumes one partition in a thread, from its start, until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partition = partition
        self.read: list[tuple[int, bytes]] = []
        self.failed: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Tail:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self._ending.set()
        self._thread.join(PATIENCE_S)
        assert not self.failed, self.failed[:3]

    def reaches(self, offset: int) -> None:
        """Wait until it has read up to an offset."""
        until(
            f"the consumer reads offset {offset}",
            lambda: bool(self.failed) or (self.read and self.read[-1][0] >= offset),
        )
        assert not self.failed, self.failed[:3]

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.failed.append(repr(error))

    @abc.abstractmethod
    def _run(self) -> None:
        """Go on until told to stop."""


class ConfluentTail(Tail):
    """By confluent-kafka."""

    def _run(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 1_000,
                **QUIET,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(self.topic, self.partition, 0)])
        while not self._ending.is_set():
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    self.read.append((message.offset() or 0, message.value() or b""))
                elif not error.retriable():
                    self.failed.append(str(error))
        consumer.close()


class KafkaPythonTail(Tail):
    """By kafka-python."""

    def _run(self) -> None:
        where = kafka.TopicPartition(self.topic, self.partition)
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            enable_auto_commit=False,
            auto_offset_reset="none",
            reconnect_backoff_max_ms=1_000,
        )
        consumer.assign([where])
        consumer.seek(where, 0)
        while not self._ending.is_set():
            for message in consumer.poll(100).get(where, ()):
                self.read.append((message.offset, message.value))
        consumer.close()


class KcatTail(Tail):
    """By kcat."""

    def _run(self) -> None:
        command = ["kcat", "-b", self.bootstrap, "-t", self.topic, "-p", str(self.partition)]
        command += ["-C", "-u", "-o", "0", "-f", "%o %s\n", "-X", "reconnect.backoff.max.ms=1000"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        watcher = threading.Thread(target=self._end, args=(process,), daemon=True)
        watcher.start()
        for line in process.stdout:
            offset, _, value = line.rstrip(b"\n").partition(b" ")
            self.read.append((int(offset), value))
        process.wait(PATIENCE_S)
        process.stdout.close()
        if not self._ending.is_set():
            self.failed.append(f"kcat ended with status {process.returncode}")
        watcher.join(PATIENCE_S)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        while not self._ending.wait(_BEAT_S) and process.poll() is None:
            pass
        process.kill()


class MakeLoad(Protocol):
    """Makes a load."""

    def __call__(
        self, bootstrap: str, topic: str, partitions: int = 1, *, is_idempotent: bool = True
    ) -> Load: ...


MakeTail = Callable[[str, str], Tail]
