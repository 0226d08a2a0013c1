"""A node's life on real files and sockets: how it starts, what ends it, and what it leaves."""

from __future__ import annotations

import errno
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from net.broker.broker import Broker
from net.node import Node, NodeAddresses, NodeFailed, World, serve
from net.server import Request
from net.settings import BrokerSettings
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork
from net.wire.apis import Api
from protocol.errors import InvariantViolation
from protocol.replication.events import BecameLeader
from storage.disk.trio_disk import TrioDisk, open_trio_disk
from tests.net.broker.live import (
    HOST,
    PATIENCE_S,
    Live,
    batch_of,
    cluster,
    formatted,
    free_port,
    settings_of,
    until,
    until_true,
)

OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
CLEAN = ".kafka_cleanshutdown"


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_S):
            await body()

    trio.run(main)


async def refusal(settings: BrokerSettings) -> str:
    """Serve a node that cannot start; return its reason."""

    def started(addresses: NodeAddresses) -> None:
        raise AssertionError(addresses)

    with pytest.raises(NodeFailed) as refused:
        await serve(settings, started=started, stop=trio.Event())
    return str(refused.value)


def test_a_port_that_is_in_use_is_one_line(tmp_path: Path) -> None:
    async def body() -> None:
        port = free_port()
        settings = formatted(settings_of(tmp_path, 1, port, {}))
        with socket.socket() as taken:
            taken.bind((HOST, port))
            taken.listen()
            reason = await refusal(settings)
        assert str(port) in reason
        assert "\n" not in reason

    run(body)


def test_a_folder_that_is_not_formatted_or_somebody_elses_is_one_line(tmp_path: Path) -> None:
    async def body() -> None:
        settings = settings_of(tmp_path, 1, free_port(), {})
        assert "is not formatted" in await refusal(settings)
        folders = f"{tmp_path}/node-1,{tmp_path}/more"
        settings = formatted(settings_of(tmp_path, 1, free_port(), {}))
        two = settings_of(tmp_path, 1, free_port(), {"log.dirs": folders})
        formatted(settings_of(tmp_path, 1, 1, {"log.dirs": f"{tmp_path}/more"}), OTHER_CLUSTER)
        reason = await refusal(two)
        assert f"belongs to cluster {OTHER_CLUSTER}" in reason
        reason = await refusal(
            settings_of(tmp_path, 2, free_port(), {"log.dirs": f"{tmp_path}/node-1"})
        )
        assert "belongs to node 1" in reason
        assert "\n" not in reason

    run(body)


def test_a_folder_that_another_node_uses_is_one_line(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            same = {"log.dirs": live.settings(1).log_dirs[0]}
            reason = await refusal(settings_of(tmp_path, 1, free_port(), same))
            assert "\n" not in reason
            assert "node-1" in reason

    run(body)


def test_a_trace_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    async def body() -> None:
        (tmp_path / "file").write_text("")
        changes = {"hwmark.trace.dir": str(tmp_path / "file")}
        settings = formatted(settings_of(tmp_path, 1, free_port(), changes))
        assert "file" in await refusal(settings)

    run(body)


def test_serve_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    async def body() -> None:
        settings = formatted(settings_of(tmp_path, 1, free_port(), {}))
        stop = trio.Event()
        found: list[NodeAddresses] = []

        def started(addresses: NodeAddresses) -> None:
            found.append(addresses)
            stop.set()

        await serve(settings, started=started, stop=stop)
        (addresses,) = found
        assert set(addresses.listeners) == {"PLAINTEXT", "CONTROLLER"}
        assert addresses.listeners["PLAINTEXT"].port > 0

    run(body)


def test_a_clean_stop_leaves_its_mark_and_the_next_start_has_everything(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            topic = await live.topic()
            await live.produce(topic, batch_of(1, 2, 3))
            epoch = live.node().broker.epoch  # type: ignore[union-attr]
            mark = tmp_path / "node-1" / CLEAN
            assert not mark.exists()
            stopped = await live.stop()
            assert stopped.failure is None
            assert mark.exists()
            await live.start(boot="another boot")
            assert not mark.exists()
            await live.leads(topic, 1)
            assert [batch.header.end_offset for batch in await live.read(topic)] == [3]
            assert live.node().broker.epoch > epoch  # type: ignore[union-attr]

    run(body)


def test_a_broker_that_stops_hands_its_leaderships_over(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, 2) as live:
            topic = await live.topic([2, 1])
            await live.stop(2)
            found = await live.partition(topic)
            assert (found["leader_id"], found["isr_nodes"]) == (1, [1])
            # It has not been fenced for being silent, nor did anybody wait for that.
            assert (await live.produce(topic, batch_of(1))).error_code == 0
            await live.start(2)
            await live.has_replicas(topic, 2, 1)

    run(body)


@pytest.mark.parametrize(("boot", "is_trusted"), [("a boot", True), ("another boot", False)])
def test_who_was_killed_in_the_same_boot_says_that_it_lost_nothing(
    tmp_path: Path, boot: str, is_trusted: bool
) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            epoch = live.node().broker.epoch  # type: ignore[union-attr]
            note = tmp_path / "node-1" / ".hwmark_running"
            said = note.read_bytes()
            await live.stop()
            # As it is after a kill: the note is there, and no mark.
            (tmp_path / "node-1" / CLEAN).unlink()
            note.write_bytes(said)
            settings = live.settings(1)
            async with open_trio_disk() as disk:
                node = Node(settings, World(TcpNetwork(), disk, random.Random(1), boot=boot))
                store: Any = _Store(disk, settings)
                found = node._epoch_that_lost_nothing(store)
            assert found == (epoch if is_trusted else 0)

    run(body)


class _Store:
    """Folders without a mark of a clean stop."""

    def __init__(self, disk: TrioDisk, settings: BrokerSettings) -> None:
        del disk, settings
        self.folders = [type("Folder", (), {"stopped_epoch": None})()]


def test_what_must_not_happen_stops_the_node_and_is_named(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            topic = await live.topic()
            broker = live.node().broker
            assert broker is not None
            ((_, partition),) = broker.replicas.partitions.items()
            partition.deliver(BecameLeader(9, 9, frozenset({2}), frozenset({1, 2})))
            failure = await ended(live)
            assert isinstance(failure, NodeFailed)
            assert str(failure).startswith(f"{topic}-0: LeaderInIsr is broken")
            assert not (tmp_path / "node-1" / CLEAN).exists()

    run(body)


def test_what_must_not_happen_to_a_request_stops_the_node_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def violate(_broker: Broker, request: Request) -> None:
        raise InvariantViolation("LogMatching", request, "a test wants it")

    async def body() -> None:
        monkeypatch.setattr(Broker, "serve", violate)
        settings = formatted(settings_of(tmp_path, 1, free_port(), {}))
        async with trio.open_nursery() as nursery:

            async def ask(where: Endpoint) -> None:
                async with await trio.open_tcp_stream(where.host, where.port) as stream:
                    frame = struct.pack(">hhihi", Api.METADATA, 1, 1, -1, -1)
                    await stream.send_all(struct.pack(">i", len(frame)) + frame)
                    await stream.receive_some(1)

            def started(addresses: NodeAddresses) -> None:
                nursery.start_soon(ask, addresses.listeners["PLAINTEXT"])

            with pytest.raises(NodeFailed, match="LogMatching is broken by Request") as failed:
                await serve(settings, started=started, stop=trio.Event())
            assert "\n" not in str(failed.value)
            nursery.cancel_scope.cancel()

    run(body)


async def ended(live: Live) -> BaseException | None:
    """Wait for the end of a node that stops by itself; return why."""
    running = live.running[1]
    await running.ended.wait()
    del live.running[1]
    return running.failure


def test_a_disk_that_fails_stops_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            topic = await live.topic()

            def fail(self: TrioDisk, path: str, *more: Any) -> int:
                if topic in path:
                    raise OSError(errno.EIO, "broken", path)
                return write(self, path, *more)

            write = TrioDisk.pwritev
            monkeypatch.setattr(TrioDisk, "pwritev", fail)
            failure: list[Any] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_produce_in_vain, live, topic)
                failure.append(await ended(live))
                nursery.cancel_scope.cancel()
            assert isinstance(failure[0], NodeFailed)
            assert "a log folder failed" in str(failure[0])

    run(body)


async def _produce_in_vain(live: Live, topic: str) -> None:
    try:
        found = await live.produce(topic, batch_of(1))
    except Exception:
        return
    assert found.error_code != 0


def test_a_broker_whose_id_is_taken_stops(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, 2) as live:
            assert (await live.ask(Api.UNREGISTER_BROKER, 0, {"broker_id": 2}))["error_code"] == 0
            running = live.running.pop(2)
            await running.ended.wait()
            assert isinstance(running.failure, NodeFailed)
            assert "another broker of this id" in str(running.failure)

    run(body)


def test_a_client_that_sends_nonsense_harms_nobody_else(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            topic = await live.topic()
            where = live.running[1].clients
            chance = random.Random(5)
            for key in range(70):
                stream = await trio.open_tcp_stream(where.host, where.port)
                body = chance.randbytes(chance.randrange(60))
                frame = struct.pack(">hhih", key, 3, 1, -1) + body
                await stream.send_all(struct.pack(">i", len(frame)) + frame)
                with trio.move_on_after(0.02):
                    await stream.receive_some(100)
                await stream.aclose()
            assert (await live.produce(topic, batch_of(1))).error_code == 0

    run(body)


async def page(where: Endpoint, name: str) -> tuple[bytes, str]:
    """Read a page of the metrics' endpoint."""
    found = b""
    async with await trio.open_tcp_stream(where.host, where.port) as stream:
        await stream.send_all(f"GET /{name} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        async for part in stream:
            found += part
    head, _, content = found.partition(b"\r\n\r\n")
    return head.split()[1], content.decode()


async def samples(live: Live) -> dict[tuple[str, ...], float]:
    """All numbers of the first node, by name and values of labels."""
    where = live.running[1].addresses.metrics
    assert where is not None
    status, text = await page(where, "metrics")
    assert status == b"200"
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_metrics_tell_what_happens(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, 2, replica_lag_time_max_ms="1000") as live:
            topic = await live.topic([1, 2])
            batch = batch_of(1, 2)
            await live.produce(topic, bytearray(batch))
            await live.read(topic)
            found = await samples(live)
            here = ("0", topic)
            assert found["hwmark_partition_bytes_in_total", *here] == len(batch)
            assert found["hwmark_partition_bytes_out_total", *here] == len(batch)
            assert found["hwmark_partition_records_in_total", *here] == 2
            assert found["hwmark_partition_replication_bytes_out_total", *here] == len(batch)
            assert found["hwmark_partition_log_bytes", *here] == len(batch)
            assert found["hwmark_partition_high_watermark", *here] == 2
            assert found["hwmark_request_seconds_count", "produce"] == 1
            assert found["hwmark_requests_total", "produce"] == 1
            assert found["hwmark_server_queued_bytes",] >= 0
            assert found["hwmark_under_replicated_partitions",] == 0
            assert found["hwmark_offline_partitions",] == 0
            assert found["hwmark_broker_isr_shrinks_total",] == 0
            assert found["hwmark_broker_waiting_fetches",] == 0
            assert found["hwmark_broker_fetch_sessions",] == 1
            assert found["hwmark_quorum_leader",] == 1
            assert found["hwmark_quorum_is_active_controller",] == 1
            assert found["hwmark_cluster_brokers",] == 2
            elections = found["hwmark_controller_elections_total",]
            assert found["hwmark_controller_terms_total",] == 1
            await live.hand_over(topic, 1, 2)
            await live.stop(2)
            await live.leads(topic, 1)

            async def is_seen() -> bool:
                found = await samples(live)
                return found["hwmark_under_replicated_partitions",] == 1

            await until_true(is_seen)
            found = await samples(live)
            assert found["hwmark_controller_elections_total",] == elections + 2
            assert found["hwmark_controller_unclean_elections_total",] == 0
            # Given to the other broker, and taken back when that one stopped.
            assert found["hwmark_broker_leaders_gained_total",] == 2
            assert found["hwmark_broker_leaders_lost_total",] == 1

    run(body)


def test_a_node_says_whether_it_is_ready(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as live:
            where = live.running[1].addresses.metrics
            assert where is not None
            assert (await page(where, "ready"))[0] == b"200"
            live.node().broker.lifecycle.is_fenced = True  # type: ignore[union-attr]
            assert (await page(where, "ready"))[0] == b"503"
            live.node().broker.lifecycle.is_fenced = False  # type: ignore[union-attr]
            await until(lambda: True)

    run(body)
