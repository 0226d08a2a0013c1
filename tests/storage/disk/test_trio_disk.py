"""Under Trio: what blocks is in a thread, the loop goes on, and leaving waits."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from storage.disk.trio_disk import open_trio_disk

pytestmark = pytest.mark.trio


class Gate:
    """Work that stands in its thread until it is let go."""

    def __init__(self, expected: int = 1) -> None:
        self.entered = trio.Event()
        self._expected = expected
        self._token = trio.lowlevel.current_trio_token()
        self._open = threading.Event()
        self.threads: list[threading.Thread] = []

    def work(self, *_: object) -> str:
        self.threads.append(threading.current_thread())
        if len(self.threads) >= self._expected:
            self._token.run_sync_soon(self.entered.set)
        assert self._open.wait(timeout=10)
        return "worked"

    def let_go(self) -> None:
        self._open.set()


async def test_the_loop_goes_on_while_an_fsync_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    monkeypatch.setattr(os, "fsync", gate.work)
    path = f"{tmp_path}/log"
    results: list[tuple[object, threading.Thread]] = []
    async with open_trio_disk() as disk:
        disk.create(path)
        for work in (lambda: disk.fsync(path), lambda: disk.fsync_folder(str(tmp_path))):
            disk.submit(work, lambda result: results.append((result, threading.current_thread())))
        await gate.entered.wait()
        for position in range(100):
            disk.write(path, [b"a"], position)
            await trio.lowlevel.checkpoint()
        assert results == []
        gate.let_go()
    assert results == [(None, threading.main_thread())] * 2
    assert len(gate.threads) == 2
    assert threading.main_thread() not in gate.threads


async def test_an_fsync_on_the_loop_is_refused(tmp_path: Path) -> None:
    async with open_trio_disk() as disk:
        disk.create(f"{tmp_path}/log")
        with pytest.raises(RuntimeError, match="event loop"):
            disk.fsync(f"{tmp_path}/log")
        with pytest.raises(RuntimeError, match="event loop"):
            disk.fsync_folder(str(tmp_path))


async def test_no_more_threads_than_allowed_work_at_once() -> None:
    gate = Gate(expected=2)
    results: list[object] = []
    async with open_trio_disk(max_threads=2) as disk:
        for _ in range(5):
            disk.submit(gate.work, results.append)
        await gate.entered.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(gate.threads) == 2
        gate.let_go()
    assert results == ["worked"] * 5


async def test_leaving_waits_for_work_and_for_what_follows_from_it(tmp_path: Path) -> None:
    steps: list[object] = []
    path = f"{tmp_path}/log"
    async with open_trio_disk() as disk:
        disk.create(path)

        def next_step(result: object) -> None:
            steps.append(result)
            if len(steps) < 3:
                disk.submit(lambda: disk.size(path), next_step)

        disk.submit(lambda: disk.size(path), next_step)
    assert steps == [0, 0, 0]
    with pytest.raises(OSError, match="closed"):
        disk.read(path, 0, 1)
    with pytest.raises(RuntimeError):
        disk.submit(lambda: 1, steps.append)


async def test_a_cancelled_disk_waits_for_its_threads_and_calls_nobody(tmp_path: Path) -> None:
    gate = Gate()
    results: list[object] = []
    begun: list[object] = []
    left = trio.Event()
    scope = trio.CancelScope()

    async def use_a_disk() -> None:
        with scope:
            async with open_trio_disk(max_threads=1) as disk:
                disk.create(f"{tmp_path}/log")
                disk.submit(gate.work, results.append)
                await gate.entered.wait()
                disk.submit(lambda: begun.append(1), results.append)
                await trio.Event().wait()
        left.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use_a_disk)
        await gate.entered.wait()
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert not left.is_set()
        gate.let_go()
    assert scope.cancelled_caught
    assert results == []
    assert begun == []


async def test_a_disk_left_by_an_error_waits_for_its_threads(tmp_path: Path) -> None:
    gate = Gate()
    ended: list[object] = []
    results: list[object] = []

    async def body() -> None:
        async with open_trio_disk() as disk:
            disk.create(f"{tmp_path}/log")
            disk.write(f"{tmp_path}/log", [b"bytes"], 0)

            def work() -> None:
                gate.work()
                ended.append(disk.read(f"{tmp_path}/log", 0, 9))

            disk.submit(work, results.append)
            await gate.entered.wait()
            trio.lowlevel.current_trio_token().run_sync_soon(gate.let_go)
            raise ValueError("the body's own")

    with pytest.raises(ExceptionGroup) as caught:
        await body()
    assert [str(error) for error in caught.value.exceptions] == ["the body's own"]
    assert ended == [b"bytes"]
    assert results == []


@pytest.mark.parametrize("work", [lambda: 1, lambda: 1 // 0], ids=["result", "error"])
async def test_what_a_callback_raises_comes_out(work: Callable[[], int]) -> None:
    def done(_: object) -> None:
        raise KeyError("a bug")

    async def body() -> None:
        async with open_trio_disk() as disk:
            disk.submit(work, done)
            await trio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await body()
    assert isinstance(caught.value.exceptions[0], KeyError)
