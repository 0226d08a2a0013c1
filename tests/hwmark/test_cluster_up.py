"""`hwmark cluster up`: it comes up, tells where, and leaves neither processes nor data behind."""

import json
import os
import signal
from pathlib import Path

import pytest
import trio

from hwmark.cluster_layout import NodePlan, Plan, is_cluster
from hwmark.cluster_supervisor import Command, ask, is_running
from hwmark.cluster_up import UpOptions, up
from spec.runner import JobError
from tests.hwmark.nodes import all_fake, fake


async def at_once(_plan: Plan, _timeout_s: float) -> None:
    """Be ready."""


def ended_by(
    options: UpOptions, number: int | None, command: Command = all_fake
) -> tuple[int, list[int]]:
    """Bring a cluster up; once it is ready, end it by a signal or `down`; return its pids, too."""
    pids: list[int] = []

    async def ready(plan: Plan, _timeout_s: float) -> None:
        assert await is_running(options.folder)
        answer = await ask(options.folder, {"do": "status"})
        pids.extend(node["pid"] for node in answer["nodes"])
        assert len(pids) == len(plan.nodes)
        if number is None:
            await ask(options.folder, {"do": "down"})
        else:
            os.kill(os.getpid(), number)

    status = trio.run(up, options, ready, command)
    return status, pids


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, None])
def test_when_it_is_told_to_stop_nothing_is_left(tmp_path: Path, number: int | None) -> None:
    folder = tmp_path / "c"
    status, pids = ended_by(UpOptions(folder, brokers=2), number)
    assert status == 0
    assert len(pids) == 2
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not folder.exists()


def test_with_keep_the_same_cluster_comes_up_again(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    ended_by(UpOptions(folder, brokers=2, keep=True), None)
    plan = (folder / "cluster.json").read_text()
    status, pids = ended_by(UpOptions(folder, brokers=7, keep=True), None)
    assert (status, len(pids)) == (0, 2)
    assert (folder / "cluster.json").read_text() == plan


def test_where_it_is_is_told_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"

    async def main() -> None:
        async with trio.open_nursery() as nursery:

            async def stop_it(plan: Plan, _timeout_s: float) -> None:
                # Ready first: only then is anything told.
                async def down() -> None:
                    await ask(folder, {"do": "down"})

                nursery.start_soon(down)
                assert plan.brokers == (1,)

            options = UpOptions(folder, brokers=1, json=True)
            assert await up(options, stop_it, all_fake) == 0

    trio.run(main)
    found = json.loads(capsys.readouterr().out)
    assert found["bootstrap"].startswith("127.0.0.1:")
    assert found["nodes"][0]["state"] == "running"


def test_a_node_that_does_not_start_takes_the_cluster_down_with_its_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    command: Command = lambda node: fake("fails" if node.id == 2 else "well")  # noqa: E731

    async def main() -> int:
        return await up(UpOptions(folder, brokers=3), at_once, command)

    with pytest.RaisesGroup(pytest.RaisesExc(JobError, match="node 2"), flatten_subgroups=True):
        trio.run(main)
    assert "node 2: a log line" in capsys.readouterr().err
    assert not folder.exists()


def test_a_node_that_does_not_stop_is_told_of(tmp_path: Path) -> None:
    def command(node: NodePlan) -> list[str]:
        return fake("well" if node.id == 1 else "dies")

    status, _ = ended_by(UpOptions(tmp_path / "c", brokers=2), None, command)
    assert status == 1


def test_two_clusters_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "c"

    async def again(_plan: Plan, _timeout_s: float) -> None:
        with pytest.raises(JobError, match=r"runs in .* already"):
            await up(UpOptions(folder), at_once, all_fake)
        assert is_cluster(folder)
        await ask(folder, {"do": "down"})

    assert trio.run(up, UpOptions(folder, brokers=1), again, all_fake) == 0


def test_a_path_that_no_socket_can_have_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    with pytest.raises(JobError, match="too long for a control socket"):
        trio.run(up, UpOptions(folder), at_once, all_fake)
    assert not folder.exists()
