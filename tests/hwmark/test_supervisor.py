"""The supervisor of a local cluster: what it starts it stops, and it leaves nobody behind."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from hwmark.cluster_layout import CONTROL_SOCKET, make_plan, write_cluster
from hwmark.cluster_process import NodeProcess, ProcessError, State
from hwmark.cluster_supervisor import MAX_LINE_BYTES, Command, Supervisor, ask, is_running
from spec.runner import JobError
from tests.hwmark.nodes import FAKE, all_fake, fake


def lives(pid: int) -> bool:
    """Whether there is a process of this id that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@asynccontextmanager
async def process(tmp_path: Path, how: str) -> AsyncIterator[NodeProcess]:
    """Make the process of a fake node; whatever the test leaves of it is killed."""
    async with trio.open_nursery() as nursery:
        found = NodeProcess(1, fake(how), tmp_path / "log", nursery)
        try:
            yield found
        finally:
            await found.kill()


@asynccontextmanager
async def supervisor(tmp_path: Path, command: Command = all_fake) -> AsyncIterator[Supervisor]:
    """Make the supervisor of two fake nodes, with its control socket."""
    plan = make_plan(2, 0, {})
    folder = tmp_path / "c"
    write_cluster(plan, folder)
    async with trio.open_nursery() as nursery:
        found = Supervisor(plan, folder, command, nursery)
        await nursery.start(found.listen)
        try:
            yield found
        finally:
            await found.stop_all()
            nursery.cancel_scope.cancel()


def test_a_node_is_running_when_it_has_said_so_and_stops_in_good_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, "well") as node:
            await node.start()
            assert node.state is State.RUNNING
            assert node.addresses["listeners"] == {"PLAINTEXT": "x"}
            assert node.addresses["pid"] == node.pid
            await node.stop()
            assert node.state.value == "stopped"
            assert (node.status, node.was_killed) == (0, False)
            await node.start()
            assert node.state is State.RUNNING

    trio.run(main)
    assert (tmp_path / "log").read_text() == "a log line\n" * 2


def test_a_node_that_ends_at_its_start_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, "fails") as node:
            with pytest.raises(ProcessError, match="status 2 at its start"):
                await node.start()
            assert node.state is State.DIED

    trio.run(main)


def test_a_node_that_never_says_that_it_listens_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, "silent") as node:
            with pytest.raises(ProcessError, match="did not start within"):
                await node.start(timeout_s=0.2)
            assert node.pid is None

    trio.run(main)


def test_a_node_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, "deaf") as node:
            await node.start()
            pid = node.pid
            await node.stop(timeout_s=0.1)
            assert node.was_killed
            assert pid is not None
            assert not lives(pid)

    trio.run(main)


def test_a_frozen_node_goes_on_and_can_be_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, "well") as node:
            await node.start()
            node.pause()
            with pytest.raises(ProcessError, match="only a running one"):
                node.pause()
            node.resume()
            node.pause()
            await node.stop()
            assert (node.status, node.was_killed) == (0, False)

    trio.run(main)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_node_that_has_ended_unseen_can_be_stopped_or_killed(tmp_path: Path, how: str) -> None:
    async def main() -> None:
        async with process(tmp_path, "well") as node:
            await node.start()
            assert node.pid is not None
            descriptor = os.pidfd_open(node.pid)
            os.kill(node.pid, signal.SIGKILL)
            # Without giving the loop a turn, so nobody has noticed yet.
            select.select([descriptor], [], [])
            os.close(descriptor)
            with trio.fail_after(10):
                await getattr(node, how)()
            assert node.pid is None

    trio.run(main)


def test_a_node_that_dies_is_not_started_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, "well") as node:
            await node.start()
            assert node.pid is not None
            os.kill(node.pid, signal.SIGKILL)
            await node.ended()
            assert (node.state, node.status) == (State.DIED, -signal.SIGKILL)

    trio.run(main)


def test_a_node_does_not_end_with_a_thread_of_the_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel ends a tied process with the thread that started it, not with the process.
    monkeypatch.setattr("trio._core._thread_cache.IDLE_TIMEOUT", 0.01)

    async def main() -> None:
        async with process(tmp_path, "well") as node:
            await node.start()
            for thread in threading.enumerate():
                if thread is not threading.main_thread():
                    thread.join()
            await node.stop()
            assert (node.status, node.was_killed) == (0, False)

    trio.run(main)


def test_orders_come_through_the_control_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async with supervisor(tmp_path) as cluster:
            await cluster.start_all()

            def states(answer: dict[str, list[dict[str, str]]]) -> list[str]:
                return [node["state"] for node in answer["nodes"]]

            folder = cluster.folder
            assert await is_running(folder)
            assert states(await ask(folder, {"do": "status"})) == ["running", "running"]
            for order, expected in (
                ("pause", "paused"),
                ("resume", "running"),
                ("kill", "stopped"),
                ("start", "running"),
                ("stop", "stopped"),
            ):
                answer = await ask(folder, {"do": order, "node": 2})
                assert states(answer) == ["running", expected]
            with pytest.raises(JobError, match="there is no node 9: this cluster has 1, 2"):
                await ask(folder, {"do": "kill", "node": 9})
            with pytest.raises(JobError, match="'dance' is no order"):
                await ask(folder, {"do": "dance", "node": 1})
            with pytest.raises(JobError, match="already"):
                await ask(folder, {"do": "start", "node": 1})
            await ask(folder, {"do": "down"})
            assert cluster.down.is_set()
        assert not (folder / CONTROL_SOCKET).exists()
        with pytest.raises(JobError, match="no cluster runs in"):
            await ask(folder, {"do": "status"})

    trio.run(main)


@pytest.mark.parametrize("nonsense", [b"{\n", b"[]\n", b"x" * 100_000, b"\xff\xff\n", b""])
def test_nonsense_at_the_control_socket_is_answered_and_forgotten(
    tmp_path: Path, nonsense: bytes
) -> None:
    async def main() -> None:
        async with supervisor(tmp_path) as cluster:
            stream = await trio.open_unix_socket(str(cluster.folder / CONTROL_SOCKET))
            async with stream:
                answer = b""
                # Whoever sends more than is read may find the connection gone before the answer.
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(nonsense)
                    await stream.send_eof()
                    async for some in stream:
                        answer += some
            assert not answer or "error" in json.loads(answer)
            assert answer or len(nonsense) > MAX_LINE_BYTES
            assert await is_running(cluster.folder)

    trio.run(main)


def test_when_one_node_fails_to_start_that_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        command: Command = lambda node: fake("well" if node.id == 1 else "fails")  # noqa: E731
        async with supervisor(tmp_path, command) as cluster:
            with pytest.raises(JobError, match="node 2 ended with status 2"):
                await cluster.start_all()
            # It does not take the others with it; whoever asked decides.
            assert cluster.processes[1].state is State.RUNNING

    trio.run(main)


def test_when_nobody_is_left_the_supervisor_has_nothing_to_wait_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with supervisor(tmp_path) as cluster:
            await cluster.start_all()
            pids = [each.pid for each in cluster.processes.values()]
            assert not cluster.down.is_set()
            for pid in pids:
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            await cluster.down.wait()

    trio.run(main)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_is_killed_leaves_nobody_behind(
    tmp_path: Path, ending: signal.Signals
) -> None:
    program = f"""
import sys, trio
from pathlib import Path
from hwmark.cluster_process import NodeProcess
async def main():
    async with trio.open_nursery() as nursery:
        node = NodeProcess(1, [sys.executable, "-c", {FAKE!r}, "deaf"], Path(sys.argv[1]), nursery)
        await node.start()
        print(node.pid, flush=True)
        await node.ended()
trio.run(main)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert lives(child)
        # It is not our child, so it cannot be waited for; its descriptor tells when it has ended.
        descriptor = os.pidfd_open(child)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            parent.send_signal(ending)
            parent.wait()
            assert poll.poll(10_000), "the child lives on"
        finally:
            os.close(descriptor)
