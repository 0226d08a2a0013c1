"""A real cluster of processes, from the first command to the last."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.hwmark.test_serve import command, hwmark


@pytest.mark.slow
def test_records_survive_a_rolling_restart_and_a_decommission(tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    with subprocess.Popen(
        command("cluster", "up", "--brokers", "4", "--dir", folder, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as cluster:
        assert cluster.stdout is not None
        try:
            found = json.loads(cluster.stdout.readline())
            use(folder, found["bootstrap"])
        finally:
            cluster.send_signal(signal.SIGTERM)
            _, errors = cluster.communicate(timeout=60)
    assert cluster.returncode == 0, errors
    assert not Path(folder).exists()


def use(folder: str, bootstrap: str) -> None:
    """Do what a newcomer does."""
    where = ("-b", bootstrap)
    lines = "".join(f"k{number % 7}:{number}\n" for number in range(500))
    done("topic", "create", "t", "--partitions", "6", *where)
    done("produce", "t", "--key-separator", ":", "--codec", "lz4", *where, text=lines)
    done("topic", "alter", "t", "--set", "retention.ms=99000000", *where)
    topic = json.loads(done("topic", "describe", "t", "--json", *where))
    assert topic["settings"] == {"retention.ms": "99000000"}
    done("cluster", "roll", "--dir", folder, "--timeout", "30")
    done("cluster", "decommission", "4", "--dir", folder, "--timeout", "30")
    topic = json.loads(done("topic", "describe", "t", "--json", *where))
    assert not [each for each in topic["partitions"] if 4 in each["replicas"]]
    done("cluster", "kill", "3", "--dir", folder)
    done("cluster", "start", "3", "--dir", folder)
    read = done("consume", "t", "--from-beginning", "--count", "500", "--json", *where)
    values = sorted(int(json.loads(line)["value"]) for line in read.splitlines())
    assert values == list(range(500))
    grown = hwmark("topic", "partitions", "t", "8", *where)
    assert (grown.returncode, "order is lost" in grown.stderr) == (0, True)


def done(*arguments: str, text: str = "") -> str:
    """Run a command that works; return what it printed."""
    result = hwmark(*arguments, text=text)
    assert result.returncode == 0, result.stderr
    return result.stdout
