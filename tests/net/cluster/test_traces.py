"""What real brokers did, through kills, is a behaviour of the spec: TLC says so."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.net.cluster.harness import LocalCluster, until

HWMARK = Path(sys.executable).with_name("hwmark")
RECORDS = 10


def validate(folder: Path) -> list[dict[str, Any]]:
    """Ask TLC about the partitions of a folder of traces."""
    done = subprocess.run(
        [HWMARK, "validate", "--json", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    partitions: list[dict[str, Any]] = json.loads(done.stdout)
    return partitions


def produce(cluster: LocalCluster, topic: str) -> None:
    """Write a few records, one batch each, as a trace of thousands would take TLC too long."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    errors: list[object] = []
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), on_delivery=lambda e, _: errors.append(e))
        until("the record is acknowledged", partial(_is_told, producer, errors, number + 1))
    assert errors == [None] * RECORDS


def _is_told(producer: Producer, errors: list[object], count: int) -> bool:
    producer.poll(0.1)
    return len(errors) == count


@pytest.mark.tlc
@pytest.mark.slow
def test_tlc_accepts_the_traces_of_a_run_in_which_leaders_and_controllers_are_killed(
    tmp_path: Path,
) -> None:
    traces = tmp_path / "traces"
    with LocalCluster(tmp_path / "c", 3, {"hwmark.trace.dir": str(traces)}) as cluster:
        topic = cluster.create_topic("traced", 1, {})
        for victim in (cluster.leader_of, lambda _topic: cluster.active_controller()):
            produce(cluster, topic)
            killed = victim(topic)
            cluster.kill(killed)
            produce(cluster, topic)
            cluster.start(killed)
            until("everybody is in sync", lambda: len(cluster.isr_of(topic)) == 3)
        produce(cluster, topic)
    (judged,) = validate(traces)
    assert judged["verdict"] == "accepted", judged

    # And TLC would have noticed: one high watermark is a record too far.
    file = next(each for each in sorted(traces.glob("trace-[0-9].ndjson")) if each.stat().st_size)
    lines = file.read_text().splitlines()
    place = max(number for number, line in enumerate(lines) if '"name":"Produce"' in line)
    wrong = json.loads(lines[place])
    wrong["state"]["hw"] += 1
    lines[place] = json.dumps(wrong)
    file.write_text("\n".join(lines) + "\n")
    (judged,) = validate(traces)
    assert judged["verdict"] == "rejected"
