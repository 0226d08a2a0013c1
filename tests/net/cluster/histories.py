"""What a log must look like after a storm, given what producers were told."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import confluent_kafka

from tests.net.cluster.harness import PATIENCE_S, QUIET, until
from tests.net.cluster.loads import Acked, Load

Log = Sequence[tuple[int, bytes]]


def read_all(bootstrap: str, topic: str, partition: int) -> Log:
    """Read a partition from its start to its high watermark."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    where = confluent_kafka.TopicPartition(topic, partition, 0)
    found: list[tuple[int, bytes]] = []
    try:

        def end_of_log() -> tuple[int, int] | None:
            try:
                return consumer.get_watermark_offsets(where, timeout=5)
            except confluent_kafka.KafkaException:
                return None

        _, end = until(f"{topic}-{partition} tells its end", end_of_log)
        consumer.assign([where])
        bound = time.monotonic() + PATIENCE_S
        while end and (not found or found[-1][0] < end - 1):
            if time.monotonic() >= bound:
                raise TimeoutError(f"{len(found)} of {end} records were read")
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                assert error is None or error.retriable(), error
                if error is None:
                    value = message.value()
                    assert value is not None
                    found.append((int(message.offset() or 0), value))
    finally:
        consumer.close()
    return found


def problems(log: Log, acked: Iterable[Acked], *, is_idempotent: bool) -> list[str]:
    """Say everything that is wrong with one partition: nothing lost, repeated or out of order."""
    found = []
    offsets = [offset for offset, _ in log]
    if offsets != list(range(len(log))):
        found.append("offsets are not 0, 1, 2, ...")
    at, values = dict(log), {value for _, value in log}
    for each in acked:
        if each.offset is None:
            if each.value not in values:
                found.append(f"lost: {each.value!r}")
        elif at.get(each.offset) != each.value:
            found.append(f"lost: {each.value!r} at {each.offset}, where {at.get(each.offset)!r} is")
    numbers = [int(value.split(b"-")[1]) for _, value in log]
    if is_idempotent and len(set(numbers)) != len(numbers):
        found.append(f"repeated: {len(numbers) - len(set(numbers))} records")
    firsts = list(dict.fromkeys(numbers))
    if firsts != sorted(firsts):
        found.append("out of order")
    return found


def check(load: Load) -> None:
    """Read all that a load has written, and hold it against what it was told."""
    assert load.acked
    for partition in sorted({each.partition for each in load.acked}):
        acked = [each for each in load.acked if each.partition == partition]
        log = read_all(load.bootstrap, load.topic, partition)
        wrong = problems(log, acked, is_idempotent=load.is_idempotent)
        assert not wrong, (load.topic, partition, len(wrong), wrong[:5])
