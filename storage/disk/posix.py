"""The disk on real files, in the calling thread, with a bounded number of open descriptors.

An open file is a reference-counted object, and its descriptor is closed when the last reference
goes: the cache holds one, every pin holds one, and so does every call while it runs. So a thread
may read or `fsync` while the loop evicts, renames or deletes that very file, without a lock around
the system call: the number it uses can be neither closed nor given to another file meanwhile.

Looking up a cached file takes no lock. Whatever changes the cache takes one, together with the
system call that goes with the change: a thread could otherwise open a file just before it is
replaced, and put it into the cache just after. Eviction gives a file that was used since it was
last looked at a second chance, which comes close to least-recently-used and costs a hit one store.

One file has one spelling: callers that say `a/b` do not also say `a//b`.
"""
# Paths are plain strings in the seam, and pathlib would cost more than the system calls.
# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH112, PTH116, PTH208

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

from storage.disk.at_once import AtOnce
from storage.disk.folder_lock import FolderLock
from storage.disk.seam import Buffer, Disk, PinnedFile

T = TypeVar("T")

_OPEN: Final = os.O_RDWR | os.O_CLOEXEC
_CREATE: Final = _OPEN | os.O_CREAT | os.O_TRUNC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MODE: Final = 0o644
_MOST_BUFFERS: Final[int] = os.sysconf("SC_IOV_MAX")


class _OpenFile:
    """A descriptor that is closed when nobody holds this object any more."""

    __slots__ = ("descriptor", "pins", "used")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.pins = 0
        self.used = False

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound as a default because modules may be gone when the interpreter ends.
        close(self.descriptor)


class PosixDisk(Disk):
    """Real files. At most `max_open_files` are kept open, and `max_pinned_files` besides."""

    def __init__(self, max_open_files: int = 256, max_pinned_files: int = 512) -> None:
        if max_open_files < 1 or max_pinned_files < 1:
            raise ValueError("a disk needs room for one open and one pinned file at least")
        self._max_open_files = max_open_files
        self._max_pinned_files = max_pinned_files
        self._files: dict[str, _OpenFile] = {}
        self._pins: set[_PosixPinnedFile] = set()
        self._pinned_files = 0
        self._locks: list[FolderLock] = []
        # Reentrant, because pinning opens and closing releases.
        self._lock = threading.RLock()
        self._closed = False
        self._at_once = AtOnce()

    def create(self, path: str) -> None:
        """Make an empty file, or make an existing one empty."""
        with self._lock:
            self._keep(path, self._opened(path, _CREATE))

    def pwritev(self, path: str, buffers: Sequence[Buffer], position: int) -> int:
        """Write some of these bytes into an existing file; return how many."""
        file = self._file(path)
        if len(buffers) > _MOST_BUFFERS:
            buffers = buffers[:_MOST_BUFFERS]
        try:
            if position < 0:
                _refuse_position()
            return os.pwritev(file.descriptor, buffers, position)
        except OSError as error:
            _raise_named(error, path)

    def preadv(self, path: str, buffer: memoryview, position: int) -> int:
        """Read some bytes into `buffer`; return how many, 0 at the end of the file."""
        file = self._file(path)
        try:
            if position < 0:
                _refuse_position()
            return os.preadv(file.descriptor, (buffer,), position)
        except OSError as error:
            _raise_named(error, path)

    def size(self, path: str) -> int:
        """Return a file's size in bytes; `FileNotFoundError` if there is none."""
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "a folder and not a file", path)
        return found.st_size

    def truncate(self, path: str, size: int) -> None:
        """Cut a file, or extend it with zeros."""
        file = self._file(path)
        try:
            os.ftruncate(file.descriptor, size)
        except OSError as error:
            _raise_named(error, path)

    def fsync(self, path: str) -> None:
        """Make a file's bytes and size durable. It blocks: use it inside `submit`."""
        # Linux remembers a failed write-back per file, and tells each open descriptor once. One
        # opened later is told only if nobody was yet. Hence the descriptor that wrote, if it is
        # still open; and if it was evicted, a new one still learns of an error not seen so far.
        file = self._file(path)
        try:
            os.fsync(file.descriptor)
        except OSError as error:
            _raise_named(error, path)

    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder durable. It blocks: use it inside `submit`."""
        descriptor = os.open(path, _FOLDER)
        try:
            os.fsync(descriptor)
        except OSError as error:
            _raise_named(error, path)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it, all or nothing."""
        with self._lock:
            os.rename(source, target)
            if source == target:
                return
            self._forget(target)
            for path in self._cached_below(source):
                self._files[target + path.removeprefix(source)] = self._files.pop(path)

    def delete(self, path: str) -> None:
        """Remove a file; it is no error if there is none."""
        with self._lock:
            with suppress(FileNotFoundError):
                os.unlink(path)
            self._files.pop(path, None)

    def make_folder(self, path: str) -> None:
        """Make a folder; it is no error if it exists."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def delete_folder(self, path: str) -> None:
        """Remove an empty folder; it is no error if there is none."""
        with self._lock:
            with suppress(FileNotFoundError):
                os.rmdir(path)
            self._forget(path)

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(path))

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name."""
        return os.path.isdir(path)

    def lock_folder(self, path: str) -> Callable[[], None]:
        """Take a folder for this process alone; return how to give it back."""
        lock = FolderLock(path)
        self._locks.append(lock)
        return lock.release

    def free_bytes(self, path: str) -> int:
        """Return how much room the file system of this folder has."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def pin(self, path: str) -> PinnedFile:
        """Keep a file open for reading until it is released; `EMFILE` if too many are pinned."""
        with self._lock:
            file = self._file(path)
            if not file.pins:
                if self._pinned_files >= self._max_pinned_files:
                    # Else the error's traceback would keep one more file open.
                    del file
                    raise OSError(errno.EMFILE, "too many pinned files", path)
                self._pinned_files += 1
            file.pins += 1
            pin = _PosixPinnedFile(self, path, file)
            self._pins.add(pin)
            return pin

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do `work` here and now, then call `done` with what came of it."""
        self._at_once.submit(work, done)

    def close(self) -> None:
        """Close every file, the pinned ones and locks too; calls that are running end first."""
        with self._lock:
            self._closed = True
            self._files.clear()
            for lock in self._locks:
                lock.release()
            for pin in tuple(self._pins):
                pin.release()

    def _file(self, path: str) -> _OpenFile:
        """Return the open file of this name; the lock is for opening it."""
        file = self._files.get(path)
        if file is not None:
            file.used = True
            return file
        with self._lock:
            return self._files.get(path) or self._keep(path, self._opened(path, _OPEN))

    def _opened(self, path: str, flags: int) -> _OpenFile:
        if self._closed:
            raise OSError(errno.EBADF, "the disk is closed", path)
        return _OpenFile(os.open(path, flags, _MODE))

    def _keep(self, path: str, file: _OpenFile) -> _OpenFile:
        files = self._files
        files.pop(path, None)
        while len(files) >= self._max_open_files:
            oldest = next(iter(files))
            candidate = files.pop(oldest)
            if candidate.used:
                candidate.used = False
                files[oldest] = candidate
        files[path] = file
        return file

    def _forget(self, path: str) -> None:
        for cached in self._cached_below(path):
            del self._files[cached]

    def _cached_below(self, path: str) -> tuple[str, ...]:
        below = path + "/"
        return tuple(name for name in self._files if name == path or name.startswith(below))

    def _released(self, pin: _PosixPinnedFile, file: _OpenFile) -> None:
        self._pins.discard(pin)
        file.pins -= 1
        if not file.pins:
            self._pinned_files -= 1


class _PosixPinnedFile(PinnedFile):
    """A descriptor that eviction, renaming and deletion leave open."""

    def __init__(self, disk: PosixDisk, path: str, file: _OpenFile) -> None:
        self._disk = disk
        self._path = path
        self._file: _OpenFile | None = file

    def sendfile(self, out_fd: int, position: int, length: int) -> int:
        """Send some of these bytes to a socket; return how many. `BlockingIOError`: wait first."""
        file = self._held()
        return os.sendfile(out_fd, file.descriptor, position, length)

    def read(self, position: int, length: int) -> bytes:
        """Return these bytes, fewer only at the end of the file."""
        file = self._held()
        try:
            found = os.pread(file.descriptor, length, position)
            while 0 < len(found) < length:
                more = os.pread(file.descriptor, length - len(found), position + len(found))
                if not more:
                    break
                found += more
        except OSError as error:
            _raise_named(error, self._path)
        return found

    def release(self) -> None:
        """Say that it is no longer needed; once is enough, twice does no harm."""
        with self._disk._lock:
            file, self._file = self._file, None
            if file is not None:
                self._disk._released(self, file)

    def _held(self) -> _OpenFile:
        if self._file is None:
            raise OSError(errno.EBADF, "the file was released", self._path)
        return self._file


def _refuse_position() -> NoReturn:
    # The system takes -1 for "wherever this descriptor stands", which is the start of the file.
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _raise_named(error: OSError, path: str) -> NoReturn:
    """Raise `error` with the file's name, which a call on a descriptor does not know."""
    error.filename = path
    raise error
