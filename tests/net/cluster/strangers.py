"""The clients that others wrote, behind one face: librdkafka (confluent-kafka), kafka-python, kcat.

Nothing in them is changed. Each is told what to produce or consume, once, and tells what it saw.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import confluent_kafka
import pytest

from tests.net.cluster.harness import PATIENCE_S, QUIET

with warnings.catch_warnings():
    # It reads its schemas by a function that Python 3.11 finds old.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka: Any = importlib.import_module("kafka")

MAX_BYTES: Final = 2 * 1024 * 1024
Headers = tuple[tuple[str, bytes], ...]


@attrs.frozen
class Sent:
    """A record to be."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()


@attrs.frozen
class Got:
    """A record as it was read."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int = attrs.field(eq=False, default=-1)


class Stranger(Protocol):
    """A client that we did not write."""

    @property
    def name(self) -> str: ...
    @property
    def codecs(self) -> tuple[str, ...]: ...

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: str = "all",
        codec: str = "none",
        is_idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        """Produce in order; return the offsets that it was told, -1 where it was told none."""

    def consume(
        self, bootstrap: str, topic: str, start: int, count: int, partition: int = 0
    ) -> list[Got]:
        """Read so many records from an offset on."""
        ...

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int, partition: int = 0) -> int:
        """The offset of the first record that is not before a time."""
        ...


class Confluent:
    """confluent-kafka, which is librdkafka with a face of Python."""

    name = "confluent-kafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: str = "all",
        codec: str = "none",
        is_idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        """Produce."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": acks,
                "compression.type": codec,
                "enable.idempotence": is_idempotent,
                "max.in.flight": 5 if is_idempotent else 1,
                "message.max.bytes": MAX_BYTES,
                **QUIET,
            }
        )
        told: list[int] = []
        failed: list[object] = []

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                failed.append(error)
            offset = message.offset()
            told.append(-1 if offset is None or offset < 0 else offset)

        for each in records:
            producer.produce(
                topic,
                each.value,
                each.key,
                partition,
                headers=list(each.headers),
                on_delivery=delivered,
            )
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        assert not failed
        return told

    def consume(
        self, bootstrap: str, topic: str, start: int, count: int, partition: int = 0
    ) -> list[Got]:
        """Consume."""
        consumer = self._consumer(bootstrap)
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, start)])
            found: list[Got] = []
            end = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < end:
                for message in consumer.consume(count - len(found), 1.0):
                    assert message.error() is None, message.error()
                    found.append(_of_confluent(message))
        finally:
            consumer.close()
        return found

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int, partition: int = 0) -> int:
        """Find a time."""
        consumer = self._consumer(bootstrap)
        try:
            wanted = confluent_kafka.TopicPartition(topic, partition, timestamp_ms)
            [found] = consumer.offsets_for_times([wanted], timeout=PATIENCE_S)
            return int(found.offset)
        finally:
            consumer.close()

    def _consumer(self, bootstrap: str) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **QUIET,
            }
        )


def _of_confluent(message: Any) -> Got:
    return Got(
        message.offset(),
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        message.timestamp()[1],
    )


class KafkaPython:
    """kafka-python, written in Python alone."""

    name = "kafka-python"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: str = "all",
        codec: str = "none",
        is_idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        """Produce."""
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all" if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=is_idempotent,
            max_in_flight_requests_per_connection=5 if is_idempotent else 1,
            max_request_size=MAX_BYTES,
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(topic, each.value, each.key, list(each.headers), partition)
                for each in records
            ]
            return [future.get(timeout=PATIENCE_S).offset for future in futures]
        finally:
            producer.close(timeout=PATIENCE_S)

    def consume(
        self, bootstrap: str, topic: str, start: int, count: int, partition: int = 0
    ) -> list[Got]:
        """Consume."""
        where = kafka.TopicPartition(topic, partition)
        consumer = self._consumer(bootstrap)
        try:
            consumer.assign([where])
            consumer.seek(where, start)
            found: list[Got] = []
            end = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < end:
                for message in consumer.poll(1000, count - len(found)).get(where, ()):
                    found.append(
                        Got(
                            message.offset,
                            message.value,
                            message.key,
                            tuple(message.headers),
                            message.timestamp,
                        )
                    )
        finally:
            consumer.close()
        return found

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int, partition: int = 0) -> int:
        """Find a time."""
        where = kafka.TopicPartition(topic, partition)
        consumer = self._consumer(bootstrap)
        try:
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
            return int(found.offset)
        finally:
            consumer.close()

    def _consumer(self, bootstrap: str) -> Any:
        return kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            enable_auto_commit=False,
            auto_offset_reset="none",
        )


class Kcat:
    """kcat, a command that is librdkafka 2.0 and little else. A run sends one set of headers."""

    name = "kcat"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: str = "all",
        codec: str = "none",
        is_idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        """Produce: as many runs as there are changes of headers."""
        options = {
            "acks": acks,
            "enable.idempotence": str(is_idempotent).lower(),
            "max.in.flight": "5" if is_idempotent else "1",
            "message.max.bytes": str(MAX_BYTES),
            "topic.produce.offset.report": "true",
        }
        told: list[int] = []
        while records:
            same = [each for each in records if each.headers == records[0].headers]
            same = same[: next((at for at, a in enumerate(records) if a not in same), len(same))]
            told += self._produce(bootstrap, topic, same, codec, options, partition)
            records = records[len(same) :]
        return told

    def _produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Sent],
        codec: str,
        options: Mapping[str, str],
        partition: int,
    ) -> list[int]:
        command = [*_kcat(bootstrap, topic, partition), "-P", "-Z", "-K", "\t", "-vvv", "-z", codec]
        for name, value in options.items():
            command += ["-X", f"{name}={value}"]
        for key, content in records[0].headers:
            command += ["-H", f"{key}={content.decode()}"]
        lines = [(each.key or b"") + b"\t" + (each.value or b"") + b"\n" for each in records]
        ended = subprocess.run(
            command, input=b"".join(lines), capture_output=True, timeout=PATIENCE_S, check=False
        )
        said = ended.stderr.decode()
        assert ended.returncode == 0, said
        return delivered_by_kcat(said)

    def consume(
        self, bootstrap: str, topic: str, start: int, count: int, partition: int = 0
    ) -> list[Got]:
        """Consume."""
        command = [*_kcat(bootstrap, topic, partition), "-C", "-q", "-J"]
        command += ["-o", str(start), "-c", str(count)]
        ended = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
        return [_of_kcat(json.loads(line)) for line in ended.stdout.splitlines()]

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int, partition: int = 0) -> int:
        """Find a time."""
        wanted = f"{topic}:{partition}:{timestamp_ms}"
        command = ["kcat", "-b", bootstrap, "-Q", "-t", wanted]
        ended = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
        return int(ended.stdout.split()[-1])


def delivered_by_kcat(said: str) -> list[int]:
    """Read the offsets that kcat was told, which it says when it is asked to say much."""
    found = re.findall(r"Message delivered to partition \d+ \(offset (-?\d+)\)", said)
    return [max(-1, int(offset)) for offset in found]


def _kcat(bootstrap: str, topic: str, partition: int) -> list[str]:
    return ["kcat", "-b", bootstrap, "-t", topic, "-p", str(partition)]


def _of_kcat(line: dict[str, Any]) -> Got:
    headers = line.get("headers", [])
    return Got(
        line["offset"],
        None if line["payload"] is None else line["payload"].encode(),
        None if line["key"] is None else line["key"].encode(),
        tuple(
            (name, value.encode()) for name, value in zip(headers[::2], headers[1::2], strict=True)
        ),
        line["ts"],
    )


LITTERS: Final = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""kafka-python forgets sockets that could not be connected."""
NEEDS_KCAT: Final = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="needs kcat: apt-get install kcat"
)
_ALL: Final[tuple[Stranger, ...]] = (Confluent(), KafkaPython(), Kcat())


def _param(client: Stranger, *more: str) -> Any:
    marks = (NEEDS_KCAT,) if client.name == "kcat" else ()
    return pytest.param(client, *more, id="-".join((client.name, *more)), marks=marks)


EACH: Final = tuple(_param(client) for client in _ALL)
EACH_WITH_CODEC: Final = tuple(_param(client, codec) for client in _ALL for codec in client.codecs)
