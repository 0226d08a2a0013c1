"""A disk in memory that forgets, tears, rots, fills up and dawdles, all as its seed says.

It has no thread and no clock. What survives a crash is said in `simulated_file` for bytes and in
`simulated_names` for names; what else goes wrong, in `faults`.

A test gives it work, lets it crash (`crash_at`, or at any point it likes), and looks at what
`crash(seed)` leaves: a fresh disk after a loss of power. `kill()` is the milder accident: the
process is gone and the page cache is not, so nothing is lost, and nothing has become durable.
"""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeVar

from storage.disk.at_once import AtOnce, finish
from storage.disk.faults import Faults
from storage.disk.seam import Buffer, Disk, PinnedFile
from storage.disk.simulated_file import SimulatedFile
from storage.disk.simulated_names import Folder, NameTree, failure

T = TypeVar("T")

PLENTY_BYTES: Final = 1 << 40
"""A disk of this capacity never fills up."""
_NO_FAULTS: Final = Faults()
_SURVIVAL: Final = (0.0, 0.1, 0.5, 0.9, 1.0)


class SimulatedCrash(BaseException):
    """The machine stopped here. Every later operation on this disk raises this as well.

    It is no `Exception`, so that no handler of errors catches it.
    """


class SimulatedDisk(Disk):
    """Files in memory. `operations` counts what changes something; `trace` may be set to a list.

    `faults` and `capacity_bytes` may be replaced at any time. Room is taken by the sizes of the
    files that have a name, holes included.
    """

    def __init__(
        self, seed: int, faults: Faults = _NO_FAULTS, capacity_bytes: int = PLENTY_BYTES
    ) -> None:
        self.seed = seed
        self.faults = faults
        self.capacity_bytes = capacity_bytes
        self.operations = 0
        self.trace: list[tuple[object, ...]] | None = None
        self._names = NameTree()
        self._random = Random(seed)
        self._crash_at = 0
        self._crashed = False
        self._at_once = AtOnce()
        self._waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def create(self, path: str) -> None:
        """Make an empty file, or make an existing one empty."""

        def effect() -> None:
            if self._names.find(path) is None:
                self._names.add(path, SimulatedFile())
            else:
                self._names.file(path).truncate(0)

        self._change("create", path, effect)

    def pwritev(self, path: str, buffers: Sequence[Buffer], position: int) -> int:
        """Write some of these bytes into an existing file; return how many."""
        data = b"".join(buffers)

        def write(length: int) -> int:
            file = self._names.file(path)
            if position < 0:
                raise failure(errno.EINVAL, path)
            fitting = self._fitting(file, path, position, length)
            if fitting:
                file.write(data[:fitting], position)
            return fitting

        asked = self._perhaps_fewer(len(data), self.faults.short_writes)
        return self._change(
            "pwritev",
            path,
            lambda: write(asked),
            position,
            len(data),
            ignored=len(data),
            partly=lambda: write(self._random.randint(0, len(data))),
        )

    def preadv(self, path: str, buffer: memoryview, position: int) -> int:
        """Read some bytes into `buffer`; return how many, 0 at the end of the file."""
        self._look("preadv", path)
        content = self._names.file(path).content
        if position < 0:
            raise failure(errno.EINVAL, path)
        there = max(0, min(len(buffer), len(content) - position))
        length = self._perhaps_fewer(there, self.faults.short_reads)
        buffer[:length] = content[position : position + length]
        return length

    def size(self, path: str) -> int:
        """Return a file's size in bytes; `FileNotFoundError` if there is none."""
        self._look("size", path)
        node = self._names.find(path)
        if not isinstance(node, SimulatedFile):
            raise failure(errno.ENOENT, path)
        return len(node.content)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file, or extend it with zeros."""

        def effect() -> None:
            file = self._names.file(path)
            if size < 0:
                raise failure(errno.EINVAL, path)
            growth = size - len(file.content)
            if growth > 0 and growth > self._free():
                raise failure(errno.ENOSPC, path)
            file.truncate(size)

        self._change("truncate", path, effect, size)

    def fsync(self, path: str) -> None:
        """Make a file's bytes and size durable; if that fails, some may never be."""
        try:
            self._change("fsync", path, lambda: self._names.file(path).fsync())
        except OSError:
            with suppress(OSError):
                self._names.file(path).fail_to_write_back()
            raise

    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""
        self._change("fsync_folder", path, lambda: self._names.sync(self._names.folder(path)))

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it, all or nothing."""
        self._change("rename", source, lambda: self._names.rename(source, target), target)

    def delete(self, path: str) -> None:
        """Remove a file; it is no error if there is none."""

        def effect() -> None:
            with suppress(FileNotFoundError):
                self._names.file(path)
                self._names.remove(path)

        self._change("delete", path, effect)

    def make_folder(self, path: str) -> None:
        """Make a folder; it is no error if it exists."""

        def effect() -> None:
            node = self._names.find(path)
            if isinstance(node, SimulatedFile):
                raise failure(errno.EEXIST, path)
            if node is None:
                self._names.add(path, Folder())

        self._change("make_folder", path, effect)

    def delete_folder(self, path: str) -> None:
        """Remove an empty folder; it is no error if there is none."""

        def effect() -> None:
            with suppress(FileNotFoundError):
                self._names.folder(path)
                self._names.remove(path)

        self._change("delete_folder", path, effect)

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        self._look("list", path)
        return sorted(filter(None, self._names.folder(path).entries))

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name."""
        self._look("is_folder", path)
        try:
            return isinstance(self._names.find(path), Folder)
        except OSError:
            return False

    def lock_folder(self, path: str) -> Callable[[], None]:
        """Let whoever opens it last have it: one process at a time uses a simulated disk."""
        self._names.folder(path)
        return lambda: None

    def free_bytes(self, path: str) -> int:
        """Return how much room there is."""
        self._look("free_bytes", path)
        if self._names.find(path) is None:
            raise failure(errno.ENOENT, path)
        return self._free()

    def pin(self, path: str) -> PinnedFile:
        """Keep a file readable until it is released."""
        self._look("pin", path)
        return _SimulatedPinnedFile(self, path, self._names.file(path))

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do `work` now, or with `Faults.deferred` when `run_next` picks it."""
        self._raise_if_crashed()
        if self.faults.deferred:
            self._waiting.append((work, done))
        else:
            self._at_once.submit(work, done)

    @property
    def waiting(self) -> int:
        """How much submitted work waits for `run_next`."""
        return len(self._waiting)

    def run_next(self) -> bool:
        """Do some work that waits and call its `done`; return whether there was any."""
        self._raise_if_crashed()
        if not self._waiting:
            return False
        finish(*self._waiting.pop(self._random.randrange(len(self._waiting))))
        return True

    def run_all(self) -> None:
        """Do all work that waits, and all that follows from it."""
        while self.run_next():
            pass

    def crash_at(self, operation: int) -> None:
        """Crash in the operation that makes `operations` this number, done, not done or partly."""
        if operation <= self.operations:
            raise ValueError(f"operation {operation} is past: {self.operations} were done")
        self._crash_at = operation

    def crash(self, seed: int) -> SimulatedDisk:
        """Return a disk with what is left after a loss of power; this one stays as it is."""
        random = Random(seed)
        survivor = SimulatedDisk(seed, self.faults, self.capacity_bytes)
        survival = random.choice(_SURVIVAL)
        torn_sectors = self.faults.torn_sectors
        survivor._names = self._names.after_crash(random, survival, torn_sectors)
        return survivor

    def kill(self) -> SimulatedDisk:
        """Return a disk for the next process: the same page cache, as little durable as it was."""
        successor = SimulatedDisk(self.seed, self.faults, self.capacity_bytes)
        successor._names = copy.deepcopy(self._names)
        return successor

    def files(self) -> dict[str, bytes]:
        """Return everything that can be read, also after a crash and whatever the faults."""
        return {path: bytes(file.content) for path, file in self._names.files()}

    def flip_bit(self, path: str, bit: int) -> None:
        """Let one bit of a file rot."""
        self._names.file(path).flip_bit(bit)

    def rot(self, seed: int, count: int) -> Sequence[tuple[str, int]]:
        """Let `count` bits rot, anywhere on the disk; return where."""
        random = Random(seed)
        files = [(path, file) for path, file in self._names.files() if file.content]
        sizes = [len(file.content) for _, file in files]
        rotten = []
        for path, file in random.choices(files, sizes, k=count) if files else ():
            bit = random.randrange(len(file.content) * 8)
            file.flip_bit(bit)
            rotten.append((path, bit))
        return rotten

    def _change(
        self,
        operation: str,
        path: str,
        effect: Callable[[], T],
        *details: object,
        ignored: Any = None,
        partly: Callable[[], T] | None = None,
    ) -> T:
        """Count an operation, and do it unless it is to fail, to be ignored or never to end."""
        self._raise_if_crashed()
        self.operations += 1
        if self.trace is not None:
            self.trace.append((operation, path, *details))
        faults = self.faults
        skipped = faults.ignore is not None and faults.ignore(operation, path)
        if self.operations == self._crash_at:
            outcome = self._random.choice((None, effect, partly or effect))
            if outcome and not skipped:
                with suppress(OSError):
                    outcome()
            self._crashed = True
            raise SimulatedCrash(f"at operation {self.operations}: {operation} {path}")
        self._raise_if_told(operation, path)
        return ignored if skipped else effect()

    def _look(self, operation: str, path: str) -> None:
        self._raise_if_crashed()
        self._raise_if_told(operation, path)

    def _raise_if_crashed(self) -> None:
        if self._crashed:
            raise SimulatedCrash("the disk has crashed before")

    def _raise_if_told(self, operation: str, path: str) -> None:
        error = self.faults.fail and self.faults.fail(operation, path)
        if error:
            raise error

    def _perhaps_fewer(self, length: int, probability: float) -> int:
        if length > 1 and probability and self._random.random() < probability:
            return self._random.randint(1, length - 1)
        return length

    def _free(self) -> int:
        return max(
            0, self.capacity_bytes - sum(len(file.content) for _, file in self._names.files())
        )

    def _fitting(self, file: SimulatedFile, path: str, position: int, length: int) -> int:
        """Return how many of these bytes there is room for; an error if not for a single one."""
        growth = position + length - len(file.content)
        if not length or growth <= 0 or self.capacity_bytes >= PLENTY_BYTES:
            return length
        fitting = length - max(0, growth - self._free())
        if fitting <= 0:
            raise failure(errno.ENOSPC, path)
        return fitting


class _SimulatedPinnedFile(PinnedFile):
    """An inode, whatever happens to its name."""

    def __init__(self, disk: SimulatedDisk, path: str, file: SimulatedFile) -> None:
        self._disk = disk
        self._path = path
        self._file: SimulatedFile | None = file

    def sendfile(self, out_fd: int, position: int, length: int) -> int:
        """Send some of these bytes to a socket; return how many. `BlockingIOError`: wait first."""
        return os.write(out_fd, self.read(position, length))

    def read(self, position: int, length: int) -> bytes:
        """Return these bytes, fewer only at the end of the file."""
        self._disk._look("preadv", self._path)
        if self._file is None:
            raise OSError(errno.EBADF, "the file was released", self._path)
        return bytes(self._file.content[position : position + length])

    def release(self) -> None:
        """Say that it is no longer needed; once is enough, twice does no harm."""
        self._file = None
