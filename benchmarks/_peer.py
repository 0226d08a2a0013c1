"""Apache Kafka beside ours, for who asks with `--peer kafka`; nothing else needs it.

Its jars come from Maven Central by `mvn`, once, into a folder of the user's cache;
`HWMARK_KAFKA_JARS` names a folder that has them already. It runs with its own defaults, its heap as
its scripts set it, and the settings that our brokers get in the same benchmark.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks._brokers import Cluster, Node, free_ports, settings_of, stop
from net.settings import random_id

VERSION: Final = "4.1.0"
POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hwmark</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
    <version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""
_START_S: Final = 60
_OURS_ALONE: Final = "hwmark."


def wanted(description: str | None) -> bool:
    """Read the command line: whether Kafka is to be measured too."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--peer", choices=["kafka"], help="measure Apache Kafka beside it")
    return parser.parse_args().peer is not None


def jars() -> Path:
    """Find Kafka's jars, or fetch them."""
    if named := os.environ.get("HWMARK_KAFKA_JARS"):
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "hwmark" / f"kafka-{VERSION}"
    if not folder.is_dir():
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    """Let Maven copy them beside their place first: half of them are none."""
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("--peer kafka needs Maven (mvn), or its jars in HWMARK_KAFKA_JARS")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        pom = Path(made) / "pom.xml"
        pom.write_text(POM, encoding="utf-8")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal, f"-DoutputDirectory={made}/jars"],
            check=False,
        )
        if done.returncode:
            raise SystemExit("--peer kafka: Maven could not fetch Kafka's jars")
        (Path(made) / "jars").rename(folder)


@contextmanager
def running(count: int, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Start so many of Kafka's brokers, which are controllers too; stop them and clean up."""
    classes = f"{jars()}/*"
    ports, cluster_id = free_ports(2 * count), random_id()
    folder = Path(tempfile.mkdtemp(prefix="hwmark-bench-"))
    with ExitStack() as after:
        after.callback(shutil.rmtree, folder, ignore_errors=True)
        nodes = []
        for number in range(1, count + 1):
            config = folder / f"{number}.properties"
            own = settings_of(number, ports, folder, settings)
            own = {name: value for name, value in own.items() if not name.startswith(_OURS_ALONE)}
            own |= {"offsets.topic.replication.factor": "1"}
            config.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
            _format(classes, cluster_id, config)
            nodes.append(_started(classes, config, number, ports[number - 1]))
            after.callback(stop, nodes[-1])
        for node in nodes:
            _wait_until_up(node)
        yield Cluster(tuple(nodes), folder)


def _format(classes: str, cluster_id: str, config: Path) -> None:
    command = ["java", "-cp", classes, "kafka.tools.StorageTool", "format"]
    command += ["-t", cluster_id, "-c", str(config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"--peer kafka: its folder could not be formatted: {done.stderr.strip()}")


def _started(classes: str, config: Path, number: int, port: int) -> Node:
    with config.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [
                "java",
                "-Xms1G",
                "-Xmx1G",
                "-XX:+UseG1GC",
                "-cp",
                classes,
                "kafka.Kafka",
                str(config),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return Node(number, port, process)


def _wait_until_up(node: Node) -> None:
    end_s = time.monotonic() + _START_S
    while node.process.poll() is None and time.monotonic() < end_s:
        try:
            socket.create_connection(("127.0.0.1", node.port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"Kafka's broker {node.number} did not start")
