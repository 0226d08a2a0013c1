"""One user at a time for a log folder: a `.lock` in it, held by `flock` as Kafka's brokers do.

The system gives the lock back when its process ends, however it ends, so a file that is left behind
means nothing. Whoever only looks takes it shared, and makes no file where there is none.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import StorageError

if TYPE_CHECKING:
    from types import TracebackType

LOCK_FILE: Final = ".lock"
_MAX_NAME_BYTES: Final = 200


class FolderInUse(StorageError):  # noqa: N818 - it names the thing, like storage's other errors
    """Somebody else has the folder."""

    def __init__(self, folder: str, holder: str) -> None:
        super().__init__(f"{folder} is in use by {holder}: stop it first")
        self.folder = folder
        self.holder = holder


class FolderLock:
    """The lock of one folder, taken when it is made. `FolderInUse` if somebody has it."""

    def __init__(self, folder: str, user: str = "a broker", *, shared: bool = False) -> None:
        self._descriptor: int | None = None
        self._named = not shared
        path = Path(folder, LOCK_FILE)
        flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            if shared and path.parent.is_dir():
                return
            raise
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise FolderInUse(folder, holder) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        if not shared:
            # The name is for whoever is refused; on a full disk the lock does without.
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{user} (process {os.getpid()})\n".encode(), 0)

    def release(self) -> None:
        """Give it back; once is enough, twice does no harm. The file stays."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            if self._named:
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _holder(descriptor: int) -> str:
    """Who wrote its name into the file; a reader has not, and a crashed one is still named."""
    text = os.pread(descriptor, _MAX_NAME_BYTES, 0).decode("utf-8", "replace").strip()
    return text if text.isprintable() and text else "another process"
