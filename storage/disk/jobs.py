"""Long work on a disk, written top to bottom: a generator that yields what may block.

Between two yields a job runs on the loop and may touch the log; what it yields is a call that runs
wherever the disk likes (`Disk.submit`), and must touch nothing that others change. So there is one
thread that knows the log, no lock, and in a simulator no thread at all: a crash falls between two
operations, never inside one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from storage.disk.seam import Disk

T = TypeVar("T")
Job = Generator[Callable[[], Any], Any, T]


def run(job: Job[T]) -> T:
    """Do a job here and now, in the calling thread: for tools, tests and start-up."""
    answer: object = None
    try:
        while True:
            work = job.send(answer)
            try:
                answer = work()
            except Exception as error:
                answer = _throw(job, error)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _throw(job: Job[T], error: Exception) -> object:
    """Raise `error` inside the job; do what it yields next, until something succeeds."""
    while True:
        work = job.throw(error)
        try:
            return work()
        except Exception as another:
            error = another


def start(disk: Disk, job: Job[T], done: Callable[[T | Exception], None]) -> None:
    """Begin a job on a disk; `done` gets its result, or the exception that ended it."""

    def resume(answer: object) -> None:
        try:
            work = job.throw(answer) if isinstance(answer, Exception) else job.send(answer)
        except StopIteration as stop:
            done(stop.value)
        except Exception as error:
            done(error)
        else:
            disk.submit(work, resume)

    resume(None)


class Turns:
    """Jobs that must not overlap, one after another, in the order in which they came."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting: deque[tuple[Job[Any], Callable[[Any], None]]] = deque()
        self.busy = False

    def put(self, job: Job[T], done: Callable[[T | Exception], None]) -> None:
        """Do a job when it is its turn."""
        self._waiting.append((job, done))
        if not self.busy:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self.busy:
            self.busy = True
            job, done = self._waiting.popleft()
            start(self._disk, job, partial(self._finish, done))

    def _finish(self, done: Callable[[Any], None], result: object) -> None:
        self.busy = False
        try:
            done(result)
        finally:
            self._go_on()
