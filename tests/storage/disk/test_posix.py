"""Real files: how many are open, and what threads may do meanwhile."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.disk.posix import PosixDisk


def open_below(folder: Path) -> int:
    """Return how many descriptors of this process belong to files in a folder."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found += str(descriptor.readlink()).startswith(str(folder))
        except FileNotFoundError:
            continue
    return found


def filled(disk: PosixDisk, folder: Path, count: int) -> list[str]:
    """Make this many files, each of which contains its own path."""
    paths = [f"{folder}/{number}" for number in range(count)]
    for path in paths:
        disk.create(path)
        disk.write(path, [path.encode()], 0)
    return paths


def test_a_thousand_files_need_sixteen_descriptors(tmp_path: Path) -> None:
    disk = PosixDisk(max_open_files=16)
    paths = filled(disk, tmp_path, 1000)
    for path in paths:
        assert disk.read(path, 0, 999) == path.encode()
        assert open_below(tmp_path) <= 16
    assert open_below(tmp_path) == 16
    disk.close()
    assert open_below(tmp_path) == 0


def test_a_file_in_use_stays_open_while_others_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PosixDisk(max_open_files=4)
    hot, *cold = filled(disk, tmp_path, 50)
    disk.size(hot)
    disk.read(hot, 0, 1)
    opened: list[str] = []
    really_open = os.open

    def recorded(path: str, flags: int, mode: int = 0o777) -> int:
        opened.append(path)
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", recorded)
    for path in cold:
        disk.read(hot, 0, 1)
        disk.read(path, 0, 1)
    assert hot not in opened
    assert len(opened) >= 40


def test_pinned_files_are_beyond_the_limit_and_have_their_own(tmp_path: Path) -> None:
    disk = PosixDisk(max_open_files=2, max_pinned_files=5)
    paths = filled(disk, tmp_path, 8)
    pins = [disk.pin(path) for path in paths[:5]]
    again = disk.pin(paths[4])
    with pytest.raises(OSError, match="too many pinned") as caught:
        disk.pin(paths[5])
    assert caught.value.errno == errno.EMFILE
    for path in paths:
        assert disk.read(path, 0, 999) == path.encode()
    assert open_below(tmp_path) <= 2 + 5
    assert [pin.read(0, 999).decode() for pin in pins] == paths[:5]
    pins[4].release()
    with pytest.raises(OSError, match="too many pinned"):
        disk.pin(paths[5])
    assert again.read(0, 999) == paths[4].encode()
    again.release()
    disk.pin(paths[5])
    disk.close()
    assert open_below(tmp_path) == 0


def test_a_deleted_file_is_closed_with_its_last_pin(tmp_path: Path) -> None:
    disk = PosixDisk()
    (path,) = filled(disk, tmp_path, 1)
    pin = disk.pin(path)
    disk.delete(path)
    assert pin.read(0, 999) == path.encode()
    pin.release()
    assert open_below(tmp_path) == 0


def test_what_is_deleted_renamed_or_replaced_is_not_kept_open(tmp_path: Path) -> None:
    disk = PosixDisk()
    disk.make_folder(f"{tmp_path}/f")
    first, second = filled(disk, tmp_path, 2)
    filled(disk, tmp_path / "f", 3)
    assert open_below(tmp_path) == 5
    disk.rename(first, second)
    assert open_below(tmp_path) == 4
    disk.rename(f"{tmp_path}/f", f"{tmp_path}/g")
    assert open_below(tmp_path / "g") == 3
    for name in disk.list(f"{tmp_path}/g"):
        disk.delete(f"{tmp_path}/g/{name}")
    disk.delete_folder(f"{tmp_path}/g")
    disk.delete(second)
    assert open_below(tmp_path) == 0


def test_a_folder_emptied_behind_our_back_is_not_kept_open(tmp_path: Path) -> None:
    disk = PosixDisk()
    disk.make_folder(f"{tmp_path}/f")
    (path,) = filled(disk, tmp_path / "f", 1)
    Path(path).unlink()
    disk.delete_folder(f"{tmp_path}/f")
    assert open_below(tmp_path) == 0


def test_a_closed_disk_opens_nothing(tmp_path: Path) -> None:
    disk = PosixDisk()
    (path,) = filled(disk, tmp_path, 1)
    pin = disk.pin(path)
    disk.close()
    with pytest.raises(OSError, match="closed") as caught:
        disk.read(path, 0, 1)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError, match="released"):
        pin.read(0, 1)


def test_a_descriptor_in_use_is_neither_closed_nor_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread stands inside `fsync` while its file is evicted, deleted and the disk closed."""
    disk = PosixDisk(max_open_files=1)
    path, *others = filled(disk, tmp_path, 4)
    inside, go_on = threading.Event(), threading.Event()
    really_fsync = os.fsync
    seen: list[str] = []

    def blocked(descriptor: int) -> None:
        inside.set()
        assert go_on.wait(timeout=10)
        seen.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
        really_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", blocked)
    with ThreadPoolExecutor(1) as threads:
        flushed = threads.submit(disk.fsync, path)
        assert inside.wait(timeout=10)
        for other in others:
            disk.read(other, 0, 1)
        disk.delete(path)
        disk.close()
        go_on.set()
        flushed.result()
    assert seen == [f"{path} (deleted)"]
    assert open_below(tmp_path) == 0


def test_a_file_opened_while_it_is_replaced_is_not_kept_under_its_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that opened the old file must not put it into the cache after the rename."""
    disk = PosixDisk(max_open_files=4)
    old, new, *others = filled(disk, tmp_path, 6)
    for other in others * 2:
        disk.read(other, 0, 1)
    inside, renaming = threading.Event(), threading.Event()
    really_open, really_rename = os.open, os.rename

    def slow_open(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = really_open(path, flags, mode)
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            # With the lock held the rename cannot begin, and this wait ends by its timeout.
            renaming.wait(timeout=0.05)
        return descriptor

    def noted_rename(source: str, target: str) -> None:
        really_rename(source, target)
        renaming.set()

    monkeypatch.setattr(os, "open", slow_open)
    monkeypatch.setattr(os, "rename", noted_rename)
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(disk.read, old, 0, 999)
        assert inside.wait(timeout=10)
        disk.rename(new, old)
        assert read.result() == old.encode()
    assert disk.read(old, 0, 999) == new.encode()


def test_threads_read_the_right_file_while_the_loop_evicts(tmp_path: Path) -> None:
    disk = PosixDisk(max_open_files=2)
    paths = filled(disk, tmp_path, 12)

    def read_all(offset: int) -> int:
        wrong = 0
        for turn in range(400):
            path = paths[(turn * 5 + offset) % len(paths)]
            wrong += disk.read(path, 0, 999) != path.encode()
        return wrong

    with ThreadPoolExecutor(3) as threads:
        results = [threads.submit(read_all, offset) for offset in range(3)]
        assert read_all(7) == 0
        assert [result.result() for result in results] == [0, 0, 0]
    assert open_below(tmp_path) == 2


def test_an_error_of_the_system_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PosixDisk()
    (path,) = filled(disk, tmp_path, 1)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    for operation, name in ((disk.fsync, path), (disk.fsync_folder, str(tmp_path))):
        with pytest.raises(OSError, match="Input/output") as caught:
            operation(name)
        assert caught.value.filename == name
