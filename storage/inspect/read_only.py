"""A disk that cannot change anything: files are opened for reading, and every change is refused.

For tools that look at a folder somebody still wants to examine, perhaps without the right to write.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from storage.disk.seam import Buffer, Disk, PinnedFile

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
_MAX_OPEN_FILES: Final = 8
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class ReadOnlyDisk(Disk):
    """Real files, as they are. A change is `EROFS`, as on a medium that is mounted that way.

    `on_read` may be set to be told of every read, by its number of bytes.
    """

    def __init__(self) -> None:
        self.on_read: Callable[[int], None] | None = None
        self._files: OrderedDict[str, int] = OrderedDict()

    def __enter__(self) -> ReadOnlyDisk:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every file; those read later are opened again."""
        while self._files:
            os.close(self._files.popitem()[1])

    def preadv(self, path: str, buffer: memoryview, position: int) -> int:
        """Read some bytes into `buffer`; return how many, 0 at the end of the file."""
        try:
            got = os.preadv(self._descriptor(path), (buffer,), position)
        except OSError as error:
            error.filename = path
            raise
        if self.on_read is not None:
            self.on_read(got)
        return got

    def size(self, path: str) -> int:
        """Return a file's size in bytes; `FileNotFoundError` if there is none."""
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "no regular file", path)
        return found.st_size

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(each.name for each in Path(path).iterdir())

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name."""
        return Path(path).is_dir()

    def free_bytes(self, path: str) -> int:
        """Return how much room the file system of this folder has."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def lock_folder(self, path: str) -> Callable[[], None]:
        """Refuse."""
        _refuse(path)

    def create(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def pwritev(self, path: str, buffers: Sequence[Buffer], position: int) -> int:
        """Refuse."""
        del buffers, position
        _refuse(path)

    def truncate(self, path: str, size: int) -> None:
        """Refuse."""
        del size
        _refuse(path)

    def fsync(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def fsync_folder(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        del target
        _refuse(source)

    def delete(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def make_folder(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def delete_folder(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def pin(self, path: str) -> PinnedFile:
        """Refuse: nothing is sent from here."""
        _refuse(path)

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Refuse: whoever looks has no loop to keep free."""
        del work, done
        _refuse("submit")

    def _descriptor(self, path: str) -> int:
        descriptor = self._files.get(path)
        if descriptor is None:
            while len(self._files) >= _MAX_OPEN_FILES:
                os.close(self._files.popitem(last=False)[1])
            descriptor = self._files[path] = os.open(path, _FLAGS)
        return descriptor


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "this folder is only looked at", path)
