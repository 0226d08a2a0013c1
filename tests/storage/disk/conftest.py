"""The three disks, each with an empty folder to work in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from storage.disk.posix import PosixDisk
from storage.disk.seam import Disk
from storage.disk.simulated import SimulatedDisk
from storage.disk.trio_disk import open_trio_disk

T = TypeVar("T")
Submit = Callable[[Callable[[], T]], Awaitable[T]]


@pytest.fixture(params=["posix", "trio", "simulated"])
async def disk(request: pytest.FixtureRequest) -> AsyncIterator[Disk]:
    """Each kind of disk in turn."""
    if request.param == "trio":
        async with open_trio_disk(max_open_files=4) as disk:
            yield disk
    elif request.param == "posix":
        posix = PosixDisk(max_open_files=4)
        yield posix
        posix.close()
    else:
        yield SimulatedDisk(seed=1)


@pytest.fixture
async def folder(disk: Disk, tmp_path: Path) -> str:
    """An empty folder on that disk."""
    path = str(tmp_path)
    if isinstance(disk, SimulatedDisk):
        path = "/data"
        disk.make_folder(path)
    return path


@pytest.fixture
def submitted(disk: Disk) -> Submit[object]:
    """Submit work to that disk, wait for it, and return its result or raise its error."""

    async def submit_and_wait(work: Callable[[], object]) -> object:
        ended = trio.Event()
        results: list[object] = []

        def done(result: object) -> None:
            results.append(result)
            ended.set()

        disk.submit(work, done)
        await ended.wait()
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

    return submit_and_wait
