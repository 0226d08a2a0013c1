"""The read-only disk and the folder's lock, on real files."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.disk.folder_lock import FolderInUse, FolderLock
from storage.disk.posix import PosixDisk
from storage.disk.seam import Disk
from storage.inspect import place, repair
from storage.inspect.read_only import ReadOnlyDisk
from storage.inspect.verify import verify

Files = dict[str, bytes]


def put(files: Files, top: Path) -> None:
    for path, content in files.items():
        top.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        top.joinpath(path).write_bytes(content)


def state(top: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder with its time of change and what is in it."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (top, *top.rglob("*"))
    }


def test_verifying_changes_neither_a_byte_nor_a_time_nor_a_name(
    folders: dict[str, Files], tmp_path: Path
) -> None:
    for name, files in folders.items():
        top = tmp_path / name
        put(files, top)
        damaged = sorted(top.rglob("*.log"))[1]
        damaged.write_bytes(damaged.read_bytes()[:-5])
        for path in top.rglob("*.index"):
            path.chmod(0o444)
        before = state(top)
        with ReadOnlyDisk() as disk:
            assert not verify(disk, place.find(disk, str(top / "data")), decode=True).sound
        assert state(top) == before


def test_what_is_repaired_on_real_files_is_sound(folders: dict[str, Files], tmp_path: Path) -> None:
    put(folders["clean"], tmp_path)
    sorted(tmp_path.rglob("*.log"))[2].unlink()
    where = str(tmp_path / "data")
    with ReadOnlyDisk() as disk:
        what = repair.plan(disk, verify(disk, place.find(disk, where)))
        writing = PosixDisk()
        repair.run(writing, what)
        writing.close()
        assert verify(disk, place.find(disk, where)).sound
    assert not what.empty


CHANGES: list[Callable[[Disk, str], object]] = [
    lambda disk, path: disk.create(path),
    lambda disk, path: disk.write(path, (b"x",), 0),
    lambda disk, path: disk.truncate(path, 0),
    lambda disk, path: disk.fsync(path),
    lambda disk, path: disk.fsync_folder(path),
    lambda disk, path: disk.rename(path, path + "2"),
    lambda disk, path: disk.delete(path),
    lambda disk, path: disk.make_folder(path + "2"),
    lambda disk, path: disk.delete_folder(path),
    lambda disk, path: disk.pin(path),
    lambda disk, path: disk.submit(lambda: disk.size(path), lambda _: None),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_disk_that_only_reads_refuses_every_change(
    change: Callable[[Disk, str], object], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    before = state(tmp_path)
    with ReadOnlyDisk() as disk, pytest.raises(OSError, match="only looked at") as refused:
        change(disk, str(path))
    assert refused.value.errno == errno.EROFS
    assert state(tmp_path) == before


def test_a_disk_that_only_reads_opens_nothing_for_writing(tmp_path: Path) -> None:
    """The right to write would not stop a superuser, so the descriptor itself is asked."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with ReadOnlyDisk() as disk:
        disk.read(str(path), 0, 7)
        links = Path("/proc/self/fd").iterdir()
        mine = [int(link.name) for link in links if os.path.realpath(link) == str(path.resolve())]
        modes = [fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE for descriptor in mine]
    assert modes == [os.O_RDONLY]


def test_a_disk_that_only_reads_keeps_few_files_open(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(40)]
    for path in paths:
        path.write_bytes(path.name.encode())
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the folder changes while it is read
    with ReadOnlyDisk() as disk:
        assert [bytes(disk.read(str(path), 0, 9)) for path in paths] == [
            path.name.encode() for path in paths
        ]
        assert len(os.listdir("/proc/self/fd")) <= before + 8  # noqa: PTH208
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_folder_has_one_user_and_says_who(tmp_path: Path) -> None:
    with FolderLock(str(tmp_path), "broker 3"):
        for shared in (False, True):
            with pytest.raises(FolderInUse, match=rf"broker 3 \(process {os.getpid()}\)"):
                FolderLock(str(tmp_path), shared=shared)
    FolderLock(str(tmp_path)).release()


def test_readers_share_a_folder_and_keep_writers_out(tmp_path: Path) -> None:
    FolderLock(str(tmp_path)).release()
    readers = [FolderLock(str(tmp_path), shared=True) for _ in range(2)]
    for reader in readers:
        with pytest.raises(FolderInUse, match="another process"):
            FolderLock(str(tmp_path))
        reader.release()
    FolderLock(str(tmp_path)).release()


def test_a_reader_makes_no_lock_file(tmp_path: Path) -> None:
    with FolderLock(str(tmp_path), shared=True):
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        FolderLock(str(tmp_path / "nowhere"), shared=True)


def test_the_lock_of_a_process_that_ends_is_free_again(tmp_path: Path) -> None:
    hold = (
        "import os, sys\n"
        "from storage.disk.folder_lock import FolderLock\n"
        "lock = FolderLock(sys.argv[1])\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
        "os._exit(1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUse, match=f"process {holder.pid}"):
            FolderLock(str(tmp_path))
        holder.communicate()
    FolderLock(str(tmp_path)).release()
