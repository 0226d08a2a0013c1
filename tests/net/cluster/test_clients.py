"""Clients that others wrote produce to a real cluster and consume from it, each in its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.net.cluster.harness import LocalCluster
from tests.net.cluster.strangers import (
    EACH,
    EACH_WITH_CODEC,
    LITTERS,
    Confluent,
    Got,
    Sent,
    Stranger,
)

pytestmark = LITTERS
NewTopic = Callable[..., str]
MEBIBYTE: Final = 1024 * 1024
HOW: Final = (("0", False), ("1", False), ("all", False), ("all", True))
READER: Final = Confluent()


def _records(count: int, start: int = 0) -> list[Sent]:
    # Compressible, and each of its own.
    return [
        Sent(b"value-%d-" % number + b"x" * 200, b"key-%d" % (number % 7))
        for number in range(start, start + count)
    ]


def _as_read(records: list[Sent], first: int = 0) -> list[Got]:
    return [Got(first + at, each.value, each.key, each.headers) for at, each in enumerate(records)]


@pytest.mark.parametrize(("client", "codec"), EACH_WITH_CODEC)
def test_every_codec_with_every_acks_arrives_in_order(
    cluster: LocalCluster, new_topic: NewTopic, client: Stranger, codec: str
) -> None:
    topic = new_topic()
    sent: list[Sent] = []
    for acks, is_idempotent in HOW:
        records = _records(20, len(sent))
        told = client.produce(
            cluster.bootstrap, topic, records, acks=acks, codec=codec, is_idempotent=is_idempotent
        )
        if acks == "0":
            # Nobody told it, so somebody has to see that they are there before the next come.
            READER.consume(cluster.bootstrap, topic, 0, len(records))
        else:
            assert told == list(range(len(sent), len(sent) + len(records)))
        sent += records
    assert client.consume(cluster.bootstrap, topic, 0, len(sent)) == _as_read(sent)
    # And as somebody else reads it, who wrote another decoder.
    assert READER.consume(cluster.bootstrap, topic, 0, len(sent)) == _as_read(sent)


@pytest.mark.parametrize("client", EACH)
def test_a_consumer_starts_at_any_offset_and_at_any_time(
    cluster: LocalCluster, new_topic: NewTopic, client: Stranger
) -> None:
    topic = new_topic()
    sent = _records(50)
    for at in range(0, 50, 10):
        client.produce(cluster.bootstrap, topic, sent[at : at + 10])
    read = client.consume(cluster.bootstrap, topic, 0, 50)
    assert read == _as_read(sent)
    for start in (0, 1, 9, 10, 25, 49):
        assert client.consume(cluster.bootstrap, topic, start, 50 - start) == read[start:]
    times = [each.timestamp_ms for each in read]
    assert times == sorted(times)
    assert times[0] > 0
    for wanted in (times[0], times[25], times[-1], times[0] - 1000):
        first = next(at for at, each in enumerate(times) if each >= wanted)
        assert client.offset_at(cluster.bootstrap, topic, wanted) == first


@pytest.mark.parametrize("client", EACH)
def test_headers_null_keys_and_tombstones_come_back_as_they_went(
    cluster: LocalCluster, new_topic: NewTopic, client: Stranger
) -> None:
    topic = new_topic(cleanup_policy="compact")
    sent = [
        Sent(b"v", b"k", (("one", b"1"), ("two", b"2"), ("one", b"again"))),
        Sent(None, b"k"),
        Sent(b"other", b"l"),
        Sent(None, b"l", (("why", b"gone"),)),
    ]
    assert client.produce(cluster.bootstrap, topic, sent) == [0, 1, 2, 3]
    assert client.consume(cluster.bootstrap, topic, 0, 4) == _as_read(sent)
    plain = new_topic()
    nothing = [Sent(b"no key"), Sent(None, b"no value"), Sent(b"no key again")]
    assert client.produce(cluster.bootstrap, plain, nothing) == [0, 1, 2]
    assert client.consume(cluster.bootstrap, plain, 0, 3) == _as_read(nothing)
    assert READER.consume(cluster.bootstrap, plain, 0, 3) == _as_read(nothing)


@pytest.mark.parametrize("client", EACH)
def test_records_of_a_mebibyte_pass(
    cluster: LocalCluster, new_topic: NewTopic, client: Stranger
) -> None:
    topic = new_topic(max_message_bytes=str(2 * MEBIBYTE))
    sent = [Sent(bytes([65 + at]) * MEBIBYTE, b"large") for at in range(5)]
    assert client.produce(cluster.bootstrap, topic, sent, is_idempotent=True) == [0, 1, 2, 3, 4]
    assert client.consume(cluster.bootstrap, topic, 0, 5) == _as_read(sent)
    assert client.consume(cluster.bootstrap, topic, 3, 2) == _as_read(sent)[3:]
