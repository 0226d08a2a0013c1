"""`hwmark serve` and `hwmark format` as a user meets them: what is wrong is one line."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from net.settings import write_properties

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:1",
}


def command(*arguments: str) -> list[str]:
    """Return the command line of `hwmark`."""
    return [sys.executable, "-c", "from hwmark.cli import main; main()", *arguments]


def hwmark(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run `hwmark` to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, input=text, timeout=60
    )


def config(tmp_path: Path, **changes: str) -> str:
    """Write a node's properties."""
    values = BASE | {"log.dirs": str(tmp_path / "data")}
    values |= {name.replace("_", "."): text for name, text in changes.items()}
    file = tmp_path / "node.properties"
    file.write_text(write_properties(values))
    return str(file)


def test_a_folder_is_formatted_once_with_an_id_that_is_printed(tmp_path: Path) -> None:
    file = config(tmp_path)
    first = hwmark("format", "--config", file)
    assert first.returncode == 0, first.stderr
    cluster_id = first.stdout.strip()
    assert len(cluster_id) == 22
    assert f"cluster.id={cluster_id}\n" in (tmp_path / "data" / "meta.properties").read_text()
    assert hwmark("format", "--config", file).stdout.strip() == cluster_id
    other = hwmark("format", "--config", file, "--cluster-id", "A" * 22)
    assert other.returncode == 2
    assert f"belongs to cluster {cluster_id}" in other.stderr
    assert "Traceback" not in other.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--override", "num.partitons=1"], "did you mean num.partitions?"),
        (["--override", "num.partitions"], "write it as name=value"),
        (["--override", "node.id=x"], "node.id=x: not a whole number"),
        ([], "is not formatted: run `hwmark format"),
    ],
)
def test_a_node_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    refused = hwmark("serve", "--config", config(tmp_path), *arguments)
    assert refused.returncode == 2
    assert told in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_config_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    missing = hwmark("serve", "--config", str(tmp_path / "nowhere"))
    assert (missing.returncode, len(missing.stderr.splitlines())) == (2, 1)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in hwmark("serve", "--config", str(tmp_path / "binary")).stderr
    (tmp_path / "twice").write_text("a=1\na=2\n")
    assert "twice, line 2" in hwmark("serve", "--config", str(tmp_path / "twice")).stderr


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        file = config(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0")
        assert hwmark("format", "--config", file).returncode == 0
        refused = hwmark("serve", "--config", file)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert "address" in refused.stderr.lower()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_says_where_it_listens_and_stops_at_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    file = config(
        tmp_path,
        listeners=f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        controller_quorum_voters=f"1@127.0.0.1:{port}",
        hwmark_metrics_port="0",
        hwmark_log_format="json",
        controlled_shutdown_retry_backoff_ms="500",
    )
    assert hwmark("format", "--config", file).returncode == 0
    with subprocess.Popen(
        command("serve", "--config", file),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert said["node"] == 1
        assert said["listeners"]["CONTROLLER"] == f"127.0.0.1:{port}"
        assert said["metrics"].startswith("127.0.0.1:")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert all(json.loads(line)["logger"] for line in errors.splitlines())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["produce", "t", "--acks", "7"], "--acks 7: use all, 1 or 0"),
        (["produce", "t", "--codec", "rar"], "--codec rar: use one of none"),
        (["produce", "t", "--key-separator", ""], "--key-separator is empty"),
        (["consume", "t", "--offset", "3"], "--offset needs --partition"),
        (["topic", "alter", "t"], "nothing to change"),
        (["topic", "alter", "t", "--set", "a=1", "--unset", "a"], "say one of the two"),
        (["topic", "list", "-b", "nowhere"], "'nowhere' is not host:port"),
        (["cluster", "status", "--dir", "nowhere"], "nowhere is no cluster"),
        (["cluster", "kill", "1", "--dir", "nowhere"], "no cluster runs in nowhere"),
    ],
)
def test_a_users_mistake_is_one_line(arguments: list[str], told: str) -> None:
    client = arguments[0] != "cluster" and "-b" not in arguments
    refused = hwmark(*arguments, *(["-b", "127.0.0.1:1"] if client else []))
    assert refused.returncode == 2
    assert told in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_command_that_is_terminated_ends_without_a_traceback() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            command("topic", "list", "-b", address), stderr=subprocess.PIPE, text=True
        ) as process:
            # It has connected, so it is waiting for an answer now.
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors == ""
