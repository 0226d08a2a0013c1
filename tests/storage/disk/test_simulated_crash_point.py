"""A crash of the simulated disk in the middle of an operation; nothing is done after it."""

import pytest

from storage.disk.faults import Faults, matching
from storage.disk.simulated import SimulatedCrash, SimulatedDisk

LOG = "/data/log"


def with_file(content: bytes) -> SimulatedDisk:
    """Return a disk with a file."""
    disk = SimulatedDisk(0)
    disk.make_folder("/data")
    disk.create(LOG)
    disk.write(LOG, [content], 0)
    return disk


def work(disk: SimulatedDisk) -> None:
    """Do one of everything that changes something, ten operations."""
    disk.make_folder("/data")
    disk.create(LOG)
    disk.write(LOG, [b"n" * 4000], 0)
    disk.truncate(LOG, 3000)
    disk.fsync(LOG)
    disk.rename(LOG, "/data/renamed")
    disk.fsync_folder("/data")
    disk.delete("/data/renamed")
    disk.make_folder("/data/sub")
    disk.delete_folder("/data/sub")


def observed(disk: SimulatedDisk) -> tuple[object, ...]:
    """Return what tells two states of that disk apart, seen or durable."""
    successor = disk.kill()
    folders = tuple(path for path in ("/data", "/data/sub") if successor.is_folder(path))
    left = frozenset(tuple(disk.crash(seed).files().items()) for seed in range(300))
    return folders, tuple(disk.files().items()), left


@pytest.mark.parametrize("operation", range(1, 11))
def test_a_crash_may_come_before_or_after_any_change(operation: int) -> None:
    """Of a write also a part may be done; of anything else, all or nothing."""
    seen = set()
    for seed in range(12):
        disk = SimulatedDisk(seed)
        disk.crash_at(operation)
        with pytest.raises(SimulatedCrash, match=f"operation {operation}:"):
            work(disk)
        assert disk.operations == operation
        seen.add(observed(disk))
    if operation == 3:
        assert len(seen) > 2
    else:
        assert len(seen) == 2


def test_a_crash_in_a_write_leaves_any_part_of_it() -> None:
    sizes = set()
    for seed in range(60):
        disk = SimulatedDisk(seed)
        disk.crash_at(3)
        with pytest.raises(SimulatedCrash):
            work(disk)
        content = disk.files()[LOG]
        assert content == b"n" * len(content)
        sizes.add(len(content))
    assert {0, 4000} < sizes


def test_nothing_is_done_after_a_crash() -> None:
    disk = with_file(b"bytes")
    pin = disk.pin(LOG)
    disk.crash_at(disk.operations + 1)
    with pytest.raises(SimulatedCrash):
        disk.truncate(LOG, 0)
    before = disk.files()
    for operation in (
        lambda: work(disk),
        lambda: disk.write(LOG, [b"x"], 0),
        lambda: disk.read(LOG, 0, 1),
        lambda: disk.fsync(LOG),
        lambda: disk.size(LOG),
        lambda: disk.exists(LOG),
        lambda: disk.list("/data"),
        lambda: disk.is_folder("/data"),
        lambda: disk.free_bytes("/data"),
        lambda: disk.pin(LOG),
        lambda: pin.read(0, 1),
        lambda: disk.submit(lambda: 1, print),
        disk.run_all,
    ):
        with pytest.raises(SimulatedCrash):
            operation()
    pin.release()
    assert disk.files() == before


def test_a_crash_is_not_given_to_a_callback() -> None:
    disk = with_file(b"bytes")
    results: list[object] = []
    disk.crash_at(disk.operations + 1)
    with pytest.raises(SimulatedCrash):
        disk.submit(lambda: disk.fsync(LOG), results.append)
    assert results == []


def test_a_crash_in_an_ignored_operation_does_not_do_it() -> None:
    for seed in range(12):
        disk = SimulatedDisk(seed, Faults(ignore=matching("truncate")))
        disk.crash_at(4)
        with pytest.raises(SimulatedCrash):
            work(disk)
        assert len(disk.files()[LOG]) == 4000


def test_a_crash_cannot_be_ordered_for_the_past() -> None:
    disk = with_file(b"bytes")
    with pytest.raises(ValueError, match="past"):
        disk.crash_at(disk.operations)


def test_the_trace_tells_every_change_in_order() -> None:
    disk = SimulatedDisk(0)
    disk.trace = []
    work(disk)
    assert len(disk.trace) == disk.operations == 10
    assert disk.trace[2] == ("pwritev", LOG, 0, 4000)
    assert disk.trace[5] == ("rename", LOG, "/data/renamed")
