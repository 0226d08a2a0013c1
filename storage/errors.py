"""What can go wrong with bytes and disks, each with what its reader needs in order to act.

`InvalidBatch` is somebody else's fault and is answered with a Kafka error code. `DamagedLog` takes
one partition offline. `DiskFull` refuses one write and passes when there is room. `DiskFailed`
takes a whole folder offline. None of them is a bug of ours: those raise `InvariantViolation`.
"""

from __future__ import annotations

import errno
from typing import Final

from protocol.errors import ErrorCode

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class StorageError(Exception):
    """Any of the errors of this room."""


class InvalidBatch(StorageError):  # noqa: N818 - it names the thing, like the errors below
    """Bytes that are no record batch which this log could keep, and the code that says so."""

    def __init__(self, error: ErrorCode, reason: str, position: int = 0) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.error = error
        self.reason = reason
        self.position = position


class DamagedLog(StorageError):  # noqa: N818
    """What was durable is not there or not as it was. Nothing is dropped; the partition stops."""

    def __init__(self, file: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{file}, byte {position}, offset {offset}: {reason}")
        self.file = file
        self.position = position
        self.offset = offset
        self.reason = reason


class DamagedFile(StorageError):  # noqa: N818
    """A checkpoint or snapshot that does not read as one; `line` is 0 in a binary file."""

    def __init__(self, file: str, reason: str, line: int = 0) -> None:
        super().__init__(f"{file}, line {line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class DiskFull(StorageError):  # noqa: N818
    """There is no room for this write. Nothing of it remains, and it may be tried again."""


class DiskFailed(StorageError):  # noqa: N818
    """A folder's disk answered with an error: nothing there may be trusted or written now."""


def disk_error(error: OSError, place: str) -> DiskFull | DiskFailed:
    """Say what an error of the system means for whoever uses the disk."""
    kind = DiskFull if error.errno in NO_ROOM else DiskFailed
    return kind(f"{place}: {error}")
