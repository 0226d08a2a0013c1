"""What the seam promises, asked of every disk."""

import errno
import os
import socket
from collections.abc import Awaitable, Callable

import pytest
import trio

from storage.disk import jobs
from storage.disk.seam import Disk

pytestmark = pytest.mark.trio
Submit = Callable[[Callable[[], object]], Awaitable[object]]


async def test_what_was_written_is_read(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    disk.create(path)
    assert disk.write(path, [b"abc", memoryview(b"defg"), bytearray(b"h")], 3) == 8
    assert disk.read(path, 0, 99) == b"\0\0\0abcdefgh"
    assert disk.size(path) == 11


async def test_more_buffers_than_one_call_takes_are_all_written(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    disk.create(path)
    count = os.sysconf("SC_IOV_MAX") + 5
    assert disk.write(path, [b"ab"] * count, 0) == 2 * count
    assert disk.read(path, 0, 3 * count) == b"ab" * count


async def test_a_file_is_cut_and_extended_with_zeros(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    disk.create(path)
    disk.write(path, [b"abcdef"], 0)
    disk.truncate(path, 2)
    disk.truncate(path, 4)
    assert disk.read(path, 0, 9) == b"ab\0\0"


async def test_creating_again_makes_a_file_empty(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    disk.create(path)
    disk.write(path, [b"abc"], 0)
    disk.create(path)
    assert disk.size(path) == 0
    disk.write(path, [b"x"], 0)
    assert disk.read(path, 0, 9) == b"x"


async def test_a_missing_file_is_named_in_the_error(disk: Disk, folder: str) -> None:
    path = f"{folder}/none"
    for operation in (
        lambda: disk.pwritev(path, [b"a"], 0),
        lambda: disk.read(path, 0, 1),
        lambda: disk.size(path),
        lambda: disk.truncate(path, 0),
        lambda: disk.pin(path),
        lambda: disk.rename(path, folder + "/b"),
        lambda: disk.list(path),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            operation()
        assert caught.value.filename == path
    assert not disk.exists(path)


async def test_a_bad_position_is_refused_by_the_name_of_the_file(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    disk.create(path)
    for operation in (
        lambda: disk.pwritev(path, [b"a"], -1),
        lambda: disk.read(path, -1, 1),
        lambda: disk.truncate(path, -1),
    ):
        with pytest.raises(OSError, match="Invalid argument") as caught:
            operation()
        assert caught.value.filename == path


async def test_a_folder_is_no_file(disk: Disk, folder: str) -> None:
    disk.make_folder(f"{folder}/sub")
    assert disk.is_folder(f"{folder}/sub")
    assert not disk.exists(f"{folder}/sub")
    with pytest.raises(IsADirectoryError):
        disk.create(f"{folder}/sub")
    with pytest.raises(IsADirectoryError):
        disk.delete(f"{folder}/sub")


async def test_deleting_and_making_what_is_so_already_is_no_error(disk: Disk, folder: str) -> None:
    disk.delete(f"{folder}/none")
    disk.delete_folder(f"{folder}/none")
    disk.make_folder(f"{folder}/sub")
    disk.make_folder(f"{folder}/sub")
    assert disk.list(folder) == ["sub"]


async def test_a_folder_is_not_made_where_a_file_is(disk: Disk, folder: str) -> None:
    disk.create(f"{folder}/log")
    with pytest.raises(FileExistsError):
        disk.make_folder(f"{folder}/log")
    with pytest.raises(NotADirectoryError):
        disk.delete_folder(f"{folder}/log")


async def test_names_are_listed_in_order(disk: Disk, folder: str) -> None:
    for name in ("b", "a", "c"):
        disk.create(f"{folder}/{name}")
    assert disk.list(folder) == ["a", "b", "c"]


async def test_a_renamed_file_replaces_the_other(disk: Disk, folder: str) -> None:
    old, new = f"{folder}/old", f"{folder}/new"
    for path, text in ((old, b"old"), (new, b"new bytes")):
        disk.create(path)
        disk.write(path, [text], 0)
    disk.rename(new, old)
    assert disk.list(folder) == ["old"]
    assert disk.read(old, 0, 99) == b"new bytes"
    disk.create(new)
    assert disk.read(new, 0, 99) == b""
    assert disk.read(old, 0, 99) == b"new bytes"


async def test_a_renamed_folder_takes_its_files_along(disk: Disk, folder: str) -> None:
    """A file made under the old name is another one, though the first was open under it."""
    disk.make_folder(f"{folder}/a")
    disk.create(f"{folder}/a/log")
    disk.write(f"{folder}/a/log", [b"first"], 0)
    disk.rename(f"{folder}/a", f"{folder}/b")
    assert disk.read(f"{folder}/b/log", 0, 9) == b"first"
    with pytest.raises(FileNotFoundError):
        disk.read(f"{folder}/a/log", 0, 9)
    disk.make_folder(f"{folder}/a")
    disk.create(f"{folder}/a/log")
    disk.write(f"{folder}/a/log", [b"other"], 0)
    assert disk.read(f"{folder}/b/log", 0, 9) == b"first"


async def test_a_rename_that_cannot_be_is_refused(disk: Disk, folder: str) -> None:
    disk.make_folder(f"{folder}/full")
    disk.make_folder(f"{folder}/empty")
    disk.create(f"{folder}/full/log")
    disk.create(f"{folder}/file")
    for source, target, code in (
        ("full", "full/log/x", errno.ENOTDIR),
        ("full", "full/x", errno.EINVAL),
        ("full/log", "full", errno.ENOTEMPTY),
        ("empty", "full", errno.ENOTEMPTY),
        ("full", "file", errno.ENOTDIR),
        ("file", "empty", errno.EISDIR),
        ("none", "file", errno.ENOENT),
        ("file", "none/file", errno.ENOENT),
    ):
        with pytest.raises(OSError, match="Errno") as caught:
            disk.rename(f"{folder}/{source}", f"{folder}/{target}")
        assert caught.value.errno == code, (source, target)
    with pytest.raises(OSError, match="not empty"):
        disk.delete_folder(f"{folder}/full")
    disk.rename(f"{folder}/full", f"{folder}/full")
    disk.rename(f"{folder}/file", f"{folder}/file")
    disk.rename(f"{folder}/full", f"{folder}/empty")
    assert disk.list(folder) == ["empty", "file"]
    assert disk.list(f"{folder}/empty") == ["log"]


async def test_a_pinned_file_outlives_its_name(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    disk.create(path)
    disk.write(path, [b"old bytes"], 0)
    with disk.pin(path) as deleted:
        disk.delete(path)
        disk.create(path)
        disk.write(path, [b"new"], 0)
        with disk.pin(path) as replaced:
            disk.create(f"{folder}/swap")
            disk.rename(f"{folder}/swap", path)
            assert deleted.read(0, 99) == b"old bytes"
            assert deleted.read(4, 3) == b"byt"
            assert replaced.read(0, 99) == b"new"
            assert disk.read(path, 0, 99) == b""


async def test_a_released_pin_is_not_read(disk: Disk, folder: str) -> None:
    disk.create(f"{folder}/log")
    pin = disk.pin(f"{folder}/log")
    pin.release()
    pin.release()
    with pytest.raises(OSError, match="released"):
        pin.read(0, 1)
    with pytest.raises(OSError, match="released"):
        pin.sendfile(0, 0, 1)


async def test_a_pinned_file_is_sent_to_a_socket_until_it_is_full(disk: Disk, folder: str) -> None:
    path = f"{folder}/log"
    content = bytes(range(256)) * 16384
    disk.create(path)
    disk.write(path, [content], 0)
    near, far = socket.socketpair()
    with near, far, disk.pin(path) as pin:
        near.setblocking(False)
        assert pin.sendfile(near.fileno(), 3, 5) == 5
        sent = 0

        def send_on() -> None:
            nonlocal sent
            while True:
                sent += pin.sendfile(near.fileno(), sent, len(content) - sent)

        with pytest.raises(BlockingIOError):
            send_on()
        assert 0 < sent < len(content)
        assert far.recv(5) == content[3:8]
        assert far.recv(256) == content[:256]


async def test_submitted_work_gives_its_result_or_its_error(
    disk: Disk, folder: str, submitted: Submit
) -> None:
    path = f"{folder}/log"
    disk.create(path)
    await submitted(lambda: disk.fsync(path))
    await submitted(lambda: disk.fsync_folder(folder))
    assert await submitted(lambda: disk.size(path)) == 0
    for missing in (disk.fsync, disk.fsync_folder):
        with pytest.raises(FileNotFoundError):
            await submitted(lambda missing=missing: missing(path + "x"))  # type: ignore[misc]
    with pytest.raises(NotADirectoryError):
        await submitted(lambda: disk.fsync_folder(path))


async def test_a_job_of_many_steps_needs_no_deep_stack(disk: Disk, folder: str) -> None:
    def count() -> jobs.Job[int]:
        total = 0
        for _ in range(2000):
            total += len((yield lambda: disk.list(folder))) + 1
        return total

    results: list[object] = []
    ended = trio.Event()

    def done(result: object) -> None:
        results.append(result)
        ended.set()

    jobs.start(disk, count(), done)
    await ended.wait()
    assert results == [2000]


async def test_there_is_room(disk: Disk, folder: str) -> None:
    assert disk.free_bytes(folder) > 0
    with pytest.raises(FileNotFoundError):
        disk.free_bytes(f"{folder}/none")
