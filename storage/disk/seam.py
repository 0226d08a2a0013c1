"""The interface between storage and whatever keeps its bytes.

Paths are plain strings. What works at the speed of the page cache is a plain call, made on the
event loop. What may block for long (`fsync`, a cold scan) is handed to `submit` together with a
callback: a real disk runs it in a thread, a simulated one now or later on its virtual clock. All
failures are `OSError`, as from the system; `ENOSPC` is the only one that leaves a disk usable.

A write is in the page cache when it returns and durable after `fsync`; a name is durable after
`fsync_folder` on its folder. Nothing else promises anything: that is what the simulated disk tests.
"""

from __future__ import annotations

import abc
import errno
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from types import TracebackType

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


@attrs.frozen
class FileRange:
    """Bytes of a file, for whoever sends them: `sendfile` needs no more."""

    path: str
    position: int
    length: int


class PinnedFile(abc.ABC):
    """A file that stays readable while it is being sent, even if it is deleted or replaced."""

    @abc.abstractmethod
    def sendfile(self, out_fd: int, position: int, length: int) -> int:
        """Send some of these bytes to a socket; return how many. `BlockingIOError`: wait first."""

    @abc.abstractmethod
    def read(self, position: int, length: int) -> bytes:
        """Return these bytes, fewer only at the end of the file."""

    @abc.abstractmethod
    def release(self) -> None:
        """Say that it is no longer needed."""

    def __enter__(self) -> PinnedFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Disk(abc.ABC):
    """Files by path. `preadv` and `pwritev` may do less than asked; `read` and `write` do not.

    Positions are not negative (`EINVAL`), and to `size` and `exists` a folder is no file.
    """

    @abc.abstractmethod
    def create(self, path: str) -> None:
        """Make an empty file, or make an existing one empty."""

    @abc.abstractmethod
    def pwritev(self, path: str, buffers: Sequence[Buffer], position: int) -> int:
        """Write some of these bytes into an existing file; return how many."""

    @abc.abstractmethod
    def preadv(self, path: str, buffer: memoryview, position: int) -> int:
        """Read some bytes into `buffer`; return how many, 0 at the end of the file."""

    @abc.abstractmethod
    def size(self, path: str) -> int:
        """Return a file's size in bytes; `FileNotFoundError` if there is none."""

    @abc.abstractmethod
    def truncate(self, path: str, size: int) -> None:
        """Cut a file, or extend it with zeros."""

    @abc.abstractmethod
    def fsync(self, path: str) -> None:
        """Make a file's bytes and size durable. It blocks: use it inside `submit`."""

    @abc.abstractmethod
    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder durable. It blocks: use it inside `submit`."""

    @abc.abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it, all or nothing."""

    @abc.abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file; it is no error if there is none."""

    @abc.abstractmethod
    def make_folder(self, path: str) -> None:
        """Make a folder; it is no error if it exists."""

    @abc.abstractmethod
    def delete_folder(self, path: str) -> None:
        """Remove an empty folder; it is no error if there is none."""

    @abc.abstractmethod
    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""

    @abc.abstractmethod
    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name."""

    @abc.abstractmethod
    def lock_folder(self, path: str) -> Callable[[], None]:
        """Take a folder for this process alone; return how to give it back, as its end does too.

        `StorageError` if somebody else has it.
        """

    @abc.abstractmethod
    def free_bytes(self, path: str) -> int:
        """Return how much room the file system of this folder has."""

    @abc.abstractmethod
    def pin(self, path: str) -> PinnedFile:
        """Keep a file open for reading until it is released."""

    @abc.abstractmethod
    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do `work` where it may block, then call `done` on the loop with what came of it.

        `done` gets the result, or the exception if one was raised. Work submitted first need not
        be done first. `work` touches nothing that the loop may change meanwhile. `done` may be
        called before this returns, but never while another `done` is running.
        """

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def read(self, path: str, position: int, length: int) -> bytearray:
        """Return these bytes, fewer only if the file ends before."""
        found = bytearray(length)
        got = self.read_into(path, memoryview(found), position)
        if got < length:
            del found[got:]
        return found

    def read_into(self, path: str, buffer: memoryview, position: int) -> int:
        """Fill `buffer`; return how many bytes came, fewer only if the file ends before."""
        got = self.preadv(path, buffer, position)
        while 0 < got < len(buffer):
            more = self.preadv(path, buffer[got:], position + got)
            if not more:
                break
            got += more
        return got

    def write(self, path: str, buffers: Sequence[Buffer], position: int) -> int:
        """Write all of these bytes at `position`; return how many. `OSError`: maybe only some."""
        total = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        written = self.pwritev(path, buffers, position)
        while written < total:
            rest = memoryview(b"".join(buffers))[written:]
            more = self.pwritev(path, (rest,), position + written)
            if not more:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            written += more
        return written
