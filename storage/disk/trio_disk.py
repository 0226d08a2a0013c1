"""The disk on real files under Trio: what blocks runs in threads, callbacks on the loop.

Only `submit` differs from `PosixDisk`. A few threads share the work; what is beyond them waits, in
no particular order, and nothing here bounds how much: whoever submits waits for `done` before the
next step of the same job, so there is as much work as there are jobs.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import TypeVar

import trio

from storage.disk.posix import PosixDisk

T = TypeVar("T")


class TrioDisk(PosixDisk):
    """Real files, with `submit` in threads. `open_trio_disk` makes one."""

    def __init__(
        self,
        nursery: trio.Nursery,
        max_open_files: int = 256,
        max_pinned_files: int = 512,
        max_threads: int = 4,
    ) -> None:
        super().__init__(max_open_files, max_pinned_files)
        self._nursery = nursery
        self._threads = trio.CapacityLimiter(max_threads)

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do `work` in a thread, then call `done` on the loop, unless the disk was cancelled."""
        self._nursery.start_soon(self._finish, work, done)

    def fsync(self, path: str) -> None:
        """Make a file's bytes and size durable, inside `submit` and nowhere else."""
        _refuse_to_block_the_loop(path)
        super().fsync(path)

    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder durable, inside `submit` and nowhere else."""
        _refuse_to_block_the_loop(path)
        super().fsync_folder(path)

    async def _finish(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        try:
            result: T | Exception = await trio.to_thread.run_sync(work, limiter=self._threads)
        except Exception as error:
            result = error
        # A thread cannot be stopped, so a cancelled task gets here once its thread has ended.
        if trio.current_effective_deadline() > -math.inf:
            done(result)


def _refuse_to_block_the_loop(path: str) -> None:
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(f"fsync of {path} on the event loop: it belongs into submit")


@asynccontextmanager
async def open_trio_disk(
    max_open_files: int = 256, max_pinned_files: int = 512, max_threads: int = 4
) -> AsyncIterator[TrioDisk]:
    """Provide a disk; leaving waits for what was submitted, then closes every file.

    If the block is left by an exception or cancelled, work in threads is still waited for, because
    it holds files; work that has not begun is dropped, and no `done` is called any more. What a
    `done` raises is a bug, and comes out here like any exception of a nursery, in a group.
    """
    with ExitStack() as after_the_threads:
        async with trio.open_nursery() as nursery:
            disk = TrioDisk(nursery, max_open_files, max_pinned_files, max_threads)
            after_the_threads.callback(disk.close)
            yield disk
