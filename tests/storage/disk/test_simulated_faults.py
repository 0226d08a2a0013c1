"""What a simulated disk does wrong while it runs."""

import errno
from collections.abc import Callable
from functools import partial

import attrs
import pytest

from storage.disk.faults import Fail, Faults, any_of, fail_always, fail_once, matching
from storage.disk.simulated import SimulatedDisk

LOG = "/data/log"


def with_file(content: bytes, faults: Faults) -> SimulatedDisk:
    """Return a disk with a durable file, which misbehaves from now on."""
    disk = SimulatedDisk(0)
    disk.make_folder("/data")
    disk.create(LOG)
    disk.write(LOG, [content], 0)
    disk.fsync(LOG)
    disk.fsync_folder("/data")
    disk.fsync_folder("/")
    disk.faults = faults
    return disk


def contents(disk: SimulatedDisk) -> set[bytes | None]:
    """Return all that the file may be after a crash."""
    return {disk.crash(seed).files().get(LOG) for seed in range(200)}


def test_short_reads_and_writes_happen() -> None:
    disk = with_file(b"a" * 100, Faults(short_reads=0.5, short_writes=0.5))
    read = {disk.preadv(LOG, memoryview(bytearray(100)), 0) for _ in range(200)}
    written = {disk.pwritev(LOG, [b"b" * 60, b"c" * 40], 0) for _ in range(200)}
    for amounts in (read, written):
        assert max(amounts) == 100
        assert 1 <= min(amounts) < 10
    assert disk.preadv(LOG, memoryview(bytearray(100)), 100) == 0


def test_read_and_write_do_all_of_it_although_the_disk_does_less_at_a_time() -> None:
    disk = with_file(b"", Faults(short_reads=0.9, short_writes=0.9))
    data = bytes(range(250))
    assert disk.write(LOG, [data[:100], data[100:]], 0) == 250
    assert disk.read(LOG, 0, 300) == data


@pytest.mark.parametrize(
    "operation",
    [
        *("create", "pwritev", "preadv", "truncate", "fsync", "fsync_folder", "rename", "delete"),
        *("make_folder", "delete_folder", "size", "list", "is_folder", "free_bytes", "pin"),
    ],
)
def test_any_operation_can_fail_without_being_done(operation: str) -> None:
    disk = with_file(b"bytes", Faults(fail=fail_always(operation)))
    arguments: dict[str, tuple[object, ...]] = {
        "pwritev": (LOG, [b"x"], 0),
        "preadv": (LOG, memoryview(bytearray(1)), 0),
        "truncate": (LOG, 0),
        "rename": (LOG, "/data/other"),
    }
    call: Callable[..., object] = getattr(disk, operation)
    with pytest.raises(OSError, match="Input/output") as caught:
        call(*arguments.get(operation, (LOG,)))
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, LOG)
    assert disk.files() == {LOG: b"bytes"}


def outcomes(rule: Fail, asked: list[tuple[str, str]]) -> list[int | None]:
    """Return the error numbers with which these operations end."""
    errors = [rule(operation, path) for operation, path in asked]
    return [None if error is None else error.errno for error in errors]


def test_rules_name_an_operation_a_path_and_how_often() -> None:
    asked = [("fsync", "/a/x.log"), ("fsync", "/b/x.index"), ("rename", "/a/x.log")] * 2
    eio, full = errno.EIO, errno.ENOSPC
    assert outcomes(fail_always("fsync", suffix=".log"), asked) == [eio, None, None] * 2
    assert outcomes(fail_always("*", prefix="/a/"), asked) == [eio, None, eio] * 2
    once = fail_once("fsync", code=full)
    assert outcomes(once, asked) == [full, None, None, None, None, None]
    third = fail_once("fsync", after=2)
    assert outcomes(third, asked) == [None, None, None, eio, None, None]
    both = any_of(fail_once("rename"), fail_always("fsync", suffix=".index", code=full))
    assert outcomes(both, asked) == [None, full, eio, None, full, None]


def test_after_a_failed_fsync_another_one_promises_nothing() -> None:
    """Linux calls the pages clean that it could not write; only writing them again helps."""
    disk = with_file(b"o" * 512, Faults(fail=fail_once("fsync")))
    disk.write(LOG, [b"n" * 512], 0)
    with pytest.raises(OSError, match="Input/output"):
        disk.fsync(LOG)
    disk.fsync(LOG)
    assert disk.files() == {LOG: b"n" * 512}
    assert contents(disk) == {b"o" * 512, b"n" * 512}
    disk.write(LOG, [b"n" * 512], 0)
    disk.fsync(LOG)
    assert contents(disk) == {b"n" * 512}


def test_what_a_failed_fsync_forgot_ends_where_the_file_was_cut() -> None:
    disk = with_file(b"o" * 512, Faults(fail=fail_once("fsync")))
    disk.truncate(LOG, 100)
    with pytest.raises(OSError, match="Input/output"):
        disk.fsync(LOG)
    disk.fsync(LOG)
    disk.write(LOG, [b"n" * 412], 100)
    for content in contents(disk):
        assert content is not None
        assert content.count(b"o") == 100


@pytest.mark.parametrize("operation", ["fsync", "fsync_folder", "rename"])
def test_an_ignored_operation_succeeds_and_does_nothing(operation: str) -> None:
    disk = with_file(b"o" * 512, Faults(ignore=matching(operation)))
    disk.write(LOG, [b"n" * 512], 0)
    disk.fsync(LOG)
    disk.create("/data/made")
    disk.rename("/data/made", "/data/renamed")
    disk.fsync_folder("/data")
    assert ("/data/made" in disk.files()) == (operation == "rename")
    left = [disk.crash(seed).files() for seed in range(200)]
    assert (b"o" * 512 in {files[LOG] for files in left}) == (operation == "fsync")
    assert (1 in map(len, left)) == (operation == "fsync_folder")


def test_an_ignored_write_claims_to_be_done() -> None:
    disk = with_file(b"old", Faults(ignore=matching("pwritev", suffix="log")))
    assert disk.write(LOG, [b"ne", b"w"], 0) == 3
    assert disk.files() == {LOG: b"old"}


def test_a_full_disk_takes_what_fits_and_then_nothing_until_there_is_room() -> None:
    disk = with_file(b"a" * 100, Faults())
    disk.capacity_bytes = 110
    assert disk.free_bytes("/data") == 10
    assert disk.pwritev(LOG, [b"b" * 50], 100) == 10
    with pytest.raises(OSError, match="No space") as caught:
        disk.pwritev(LOG, [b"b"], 110)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, LOG)
    with pytest.raises(OSError, match="No space"):
        disk.truncate(LOG, 111)
    assert disk.write(LOG, [b"c" * 110], 0) == 110
    disk.capacity_bytes = 200
    assert disk.write(LOG, [b"d" * 50], 110) == 50
    assert disk.free_bytes("/data") == 40
    disk.delete(LOG)
    assert disk.free_bytes("/data") == 200


def test_a_write_behind_a_hole_needs_room_for_the_hole() -> None:
    disk = with_file(b"", Faults())
    disk.capacity_bytes = 100
    with pytest.raises(OSError, match="No space"):
        disk.pwritev(LOG, [b"a" * 50], 100)
    assert disk.size(LOG) == 0


def test_a_rotten_bit_is_read_and_survives() -> None:
    disk = with_file(bytes(600), Faults())
    disk.flip_bit(LOG, 8 * 550 + 3)
    assert disk.read(LOG, 550, 1) == b"\x08"
    disk.write(LOG, [b"x"], 599)
    disk.flip_bit(LOG, 8 * 551)
    left = contents(disk)
    assert left == {bytes(550) + b"\x08\x01" + bytes(47) + last for last in (b"\0", b"x")}


def test_rot_strikes_anywhere_as_its_seed_says() -> None:
    struck = []
    for _ in range(2):
        disk = with_file(bytes(1000), Faults())
        disk.create("/data/empty")
        disk.create("/data/small")
        disk.write("/data/small", [bytes(100)], 0)
        places = disk.rot(seed=5, count=40)
        assert {path for path, _ in places} == {LOG, "/data/small"}
        flipped = sum(byte.bit_count() for content in disk.files().values() for byte in content)
        assert flipped == len(places) == 40
        struck.append(places)
    assert struck[0] == struck[1]
    assert not SimulatedDisk(0).rot(seed=5, count=3)


def test_deferred_work_is_done_when_picked_and_in_any_order() -> None:
    orders = set()
    for seed in range(60):
        disk = SimulatedDisk(seed, Faults(deferred=True))
        worked: list[str] = []
        told: list[object] = []
        for name in "abc":
            disk.submit(partial(worked.append, name), told.append)
        assert (worked, told, disk.waiting) == ([], [], 3)
        assert disk.run_next()
        assert (len(worked), told, disk.waiting) == (1, [None], 2)
        disk.run_all()
        assert not disk.run_next()
        assert told == [None] * 3
        orders.add("".join(worked))
    assert len(orders) == 6


def test_deferred_work_may_lead_to_more() -> None:
    disk = SimulatedDisk(0, Faults(deferred=True))
    results: list[object] = []

    def again(result: object) -> None:
        results.append(result)
        if len(results) < 5:
            disk.submit(lambda: len(results), again)

    disk.submit(lambda: 1 // 0, again)
    disk.run_all()
    assert isinstance(results[0], ZeroDivisionError)
    assert results[1:] == [1, 2, 3, 4]


def test_faults_can_be_changed_while_the_disk_runs() -> None:
    disk = with_file(b"bytes", Faults(fail=fail_always("size")))
    with pytest.raises(OSError, match="Input/output"):
        disk.size(LOG)
    disk.faults = attrs.evolve(disk.faults, fail=None)
    assert disk.size(LOG) == 5


def test_the_disk_after_an_accident_has_the_same_faults_and_room() -> None:
    disk = with_file(b"bytes", Faults(short_reads=0.25))
    disk.capacity_bytes = 99
    for after in (disk.crash(1), disk.kill()):
        assert (after.faults, after.capacity_bytes) == (disk.faults, 99)


def test_what_a_callback_raises_comes_out_of_submit_and_the_disk_goes_on() -> None:
    disk = SimulatedDisk(0)
    results: list[object] = []

    def broken(_: object) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        disk.submit(lambda: 1, broken)
    disk.submit(lambda: 2, results.append)
    assert results == [2]


def test_two_places_with_and_without_a_slash_are_not_the_same() -> None:
    disk = SimulatedDisk(0)
    disk.create("log")
    disk.create("/log")
    assert list(disk.files()) == ["/log", "log"]
    assert (disk.list("."), disk.list("/")) == (["log"], ["log"])
