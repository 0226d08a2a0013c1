"""A broker that finds its own log at odds with an invariant stops, and says which."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import confluent_kafka

from hwmark.loop import EXIT_BROKEN
from tests.net.cluster.harness import QUIET, LocalCluster
from tests.net.cluster.strangers import Confluent, Sent

_EPOCH_AT = 12
_FROM_THE_FUTURE = 99


def test_a_broker_stops_when_its_log_has_an_epoch_that_has_not_begun(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "c", 1) as cluster:
        topic = cluster.create_topic("torn")
        assert Confluent().produce(cluster.bootstrap, topic, [Sent(b"a"), Sent(b"b")]) == [0, 1]
        assert cluster.stop(1) == 0
        _write_the_future(cluster.data(1) / f"{topic}-0")
        cluster.start(1)
        cluster.wait_ready([1])
        told: list[Any] = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET}
        )
        producer.produce(topic, b"c", on_delivery=lambda error, _message: told.append(error))
        producer.poll(0)
        assert cluster.ended(1) == EXIT_BROKEN
        producer.poll(0)
        # It was never told that its record is there.
        assert None not in told
        said = cluster.log(1)
        assert f"node 1 stops: {topic}-0: LogMatching is broken" in said
        assert f"comes after {_FROM_THE_FUTURE}" in said


def _write_the_future(folder: Path) -> None:
    """Let the log say that its records are of an epoch that no leader has had."""
    log = folder / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    struct.pack_into(">i", content, _EPOCH_AT, _FROM_THE_FUTURE)
    log.write_bytes(content)
    checkpoint = f"0\n1\n{_FROM_THE_FUTURE} 0\n"
    (folder / "leader-epoch-checkpoint").write_text(checkpoint, encoding="ascii")
