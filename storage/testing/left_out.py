"""Leave out one kind of fsync or rename, in order to see whether anything notices.

A kind is told by the operation, by the file, by what the workload is doing, and, as a folder is
synced for several reasons, by what came right before it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_DURABLE: Final = ("fsync", "fsync_folder", "rename")
_PARTITION: Final = re.compile(r".*-[0-9]+")
_DIGITS: Final = re.compile(r"[0-9]{20}")


class LeftOut(NamedTuple):
    """Operations of the disk that do nothing and say that they did."""

    operation: str
    kind: str
    """The name of the file without its offset; `partition` and `folder` for the two folders."""
    job: str
    """During which operation of the workload."""
    after: str = ""
    """For the sync of a folder: which of several in this job it is, by what came before it."""

    def __str__(self) -> str:
        after = f" after {self.after}" if self.after else ""
        return f"{self.operation} {self.kind} in {self.job}{after}"


class Watch:
    """A rule for `Faults.ignore` that knows what the workload is doing, and notes what it sees."""

    def __init__(self, left_out: LeftOut | None = None) -> None:
        self.job = ""
        self.ignored = 0
        self.seen: set[LeftOut] = set()
        self._left_out = left_out
        self._before = ""

    def __call__(self, operation: str, path: str) -> bool:
        """Whether the operation is to do nothing."""
        kind = kind_of(path)
        before, self._before = self._before, _told_by(operation, kind, self.job)
        if operation not in _DURABLE:
            return False
        call = LeftOut(operation, kind, self.job, before if operation == "fsync_folder" else "")
        self.seen.add(call)
        self.ignored += call == self._left_out
        return call == self._left_out

    def restart(self) -> None:
        """A new process begins: nothing came before."""
        self.job, self._before = "open", "start"


def _told_by(operation: str, kind: str, job: str) -> str:
    """What an operation says about the sync of a folder right after it."""
    if operation == "rename":
        return f"rename {kind}"
    telling = operation == "make_folder" or (operation == "delete" and job == "reset")
    return operation if telling else ""


def kind_of(path: str) -> str:
    """Tell what kind of file or folder this is."""
    name = path.rpartition("/")[2]
    if name == path:
        return "folder"
    return "partition" if _PARTITION.fullmatch(name) else _DIGITS.sub("", name)
