"""Atomic replacement: whenever the power fails, a file is as it was before or as it is meant to be.

The same checks are run with one step left out, and must then find a crash that breaks the promise.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.checkpoint import MAX_FILE_BYTES, TopicPartition, read_whole, replace
from storage.disk.faults import Faults, fail_always, fail_once, matching
from storage.disk.jobs import run, start
from storage.disk.posix import PosixDisk
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.errors import DamagedFile
from storage.log.marks import OffsetFile

PATH = "data/checkpoint"
OLD = b"old " * 500
NEW = b"new, and longer " * 200
SEEDS = range(40)


def prepared(seed: int, old: bytes | None, faults: Faults) -> SimulatedDisk:
    """Return a disk on which the folder, and the old content if there is any, are durable."""
    disk = SimulatedDisk(seed)
    disk.make_folder("data")
    disk.fsync_folder(".")
    if old is not None:
        run(replace(disk, PATH, old))
    disk.faults = faults
    return disk


def content(disk: SimulatedDisk) -> bytes | None:
    return disk.files().get(PATH)


def broken_promise(old: bytes | None, faults: Faults) -> str | None:
    """Crash at every operation and after the last, and say what a replacement promised in vain."""
    for seed in SEEDS:
        disk = prepared(seed, old, faults)
        before = disk.operations
        run(replace(disk, PATH, NEW))
        if disk.files()[PATH] != NEW:
            return "not replaced"
        if content(disk.crash(seed)) != NEW:
            return "not durable when done"
        for operation in range(before + 1, disk.operations + 1):
            crashing = prepared(seed, old, faults)
            crashing.crash_at(operation)
            with pytest.raises(SimulatedCrash):
                run(replace(crashing, PATH, NEW))
            survivor = crashing.crash(seed)
            if content(survivor) not in (old, NEW):
                return "neither the old nor the new content"
            survivor.faults = Faults()
            run(replace(survivor, PATH, OLD + NEW))
            if content(survivor.crash(seed)) != OLD + NEW:
                return "no replacement after the crash"
    return None


@pytest.mark.parametrize("old", [None, b"", OLD], ids=["new file", "empty file", "old file"])
@pytest.mark.parametrize("torn", [False, True], ids=["whole sectors", "torn sectors"])
def test_a_crash_leaves_the_old_content_or_the_new(old: bytes | None, torn: bool) -> None:
    faults = Faults(torn_sectors=torn, short_writes=0.5)
    assert broken_promise(old, faults) is None


@pytest.mark.parametrize(
    ("operation", "broken"),
    [
        ("fsync", {"neither the old nor the new content", "not durable when done"}),
        ("rename", {"not replaced"}),
        ("fsync_folder", {"not durable when done"}),
    ],
)
def test_no_step_can_be_left_out(operation: str, broken: set[str]) -> None:
    assert broken_promise(OLD, Faults(ignore=matching(operation))) in broken


def test_what_blocks_is_left_to_the_disk_and_nothing_else() -> None:
    disk = prepared(1, OLD, Faults())
    disk.trace = []
    job = replace(disk, PATH, NEW)
    first = next(job)
    assert [step[0] for step in disk.trace] == ["create", "pwritev"]
    first()
    second = job.send(None)
    assert [step[0] for step in disk.trace[2:]] == ["fsync", "rename"]
    second()
    assert disk.trace[4:] == [("fsync_folder", "data")]
    with pytest.raises(StopIteration):
        job.send(None)
    assert {step[1] for step in disk.trace[:4]} == {PATH + ".tmp"}
    assert disk.list("data") == ["checkpoint"]


def test_a_replacement_waits_for_a_slow_disk() -> None:
    disk = prepared(1, OLD, Faults(deferred=True))
    done: list[object] = []
    start(disk, replace(disk, PATH, NEW), done.append)
    assert content(disk) == OLD
    disk.run_next()
    assert (content(disk), done) == (NEW, [])
    disk.run_all()
    assert done == [None]


@pytest.mark.parametrize("operation", ["create", "pwritev", "fsync", "rename", "fsync_folder"])
def test_a_failed_replacement_says_so_and_can_be_repeated(operation: str) -> None:
    disk = prepared(1, OLD, Faults(fail=fail_once(operation)))
    with pytest.raises(OSError, match="Input/output error"):
        run(replace(disk, PATH, NEW))
    assert content(disk) == (NEW if operation == "fsync_folder" else OLD)
    run(replace(disk, PATH, NEW))
    assert content(disk.crash(1)) == NEW


def test_a_full_disk_keeps_the_old_content() -> None:
    disk = prepared(1, OLD, Faults())
    disk.capacity_bytes = len(OLD) + 100
    with pytest.raises(OSError, match="No space left") as caught:
        run(replace(disk, PATH, NEW))
    assert caught.value.errno == errno.ENOSPC
    assert content(disk.crash(2)) == OLD
    disk.capacity_bytes = 1 << 30
    run(replace(disk, PATH, b"short"))
    assert content(disk) == b"short"


def test_a_file_without_a_folder_in_its_path_is_in_the_working_folder() -> None:
    disk = SimulatedDisk(1)
    run(replace(disk, "checkpoint", NEW))
    assert disk.crash(1).files() == {"checkpoint": NEW}


def test_a_real_file_is_replaced(tmp_path: Path) -> None:
    disk = PosixDisk()
    path = f"{tmp_path}/checkpoint"
    run(replace(disk, path, OLD))
    run(replace(disk, path, NEW))
    assert read_whole(disk, path) == NEW
    assert disk.list(str(tmp_path)) == ["checkpoint"]


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    disk = prepared(1, None, Faults(fail=fail_always("preadv")))
    disk.create(PATH)
    disk.truncate(PATH, MAX_FILE_BYTES + 1)
    with pytest.raises(DamagedFile, match="67108865 bytes"):
        read_whole(disk, PATH)


def test_a_whole_file_is_read_even_in_pieces() -> None:
    disk = prepared(1, OLD, Faults(short_reads=1.0))
    assert read_whole(disk, PATH) == OLD


def test_of_two_saves_at_once_the_newer_content_stays_whichever_thread_is_first() -> None:
    """A recovery point that a truncation has lowered must not come back."""
    partition = TopicPartition("topic", 0)
    file = OffsetFile(prepared(1, None, Faults()), PATH)
    file.values[partition] = 50
    before = next(file.save())
    file.values[partition] = 20
    lowered = next(file.save())
    lowered()
    before()
    file.load()
    assert file.values == {partition: 20}
