"""When a folder's logs are made durable, and who waits for it: one fsync round for all of them.

A round covers every log that asked before it began; what asks meanwhile shares the next one. So a
thousand appends to a hundred partitions cost a few rounds, not a thousand fsyncs. The clock is the
caller's.

A flush that failed is the last one. After it, the system may call bytes clean which never reached
the disk, so that a second fsync succeeds and means nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakSet

import attrs

from storage.disk.seam import Disk
from storage.errors import StorageError
from storage.log.flushing import Flush, begin
from storage.log.log import Log

Done = Callable[[StorageError | None], None]


class LogClosed(StorageError):  # noqa: N818 - it names the thing, like the other errors
    """The log went away before it was flushed. The disk has nothing to do with it."""


@attrs.frozen
class FlushPolicy:
    """After how many records, or after which time, a log is flushed; `None`: not for that reason.

    With `every_records` 1 an append is done only when it is durable. Otherwise an append is done
    when it is in the page cache, and what a power failure takes is for replication to make good.
    """

    every_records: int | None = None
    every_ms: int | None = None

    def __attrs_post_init__(self) -> None:
        for setting, value in (("records", self.every_records), ("ms", self.every_ms)):
            if value is not None and value < 1:
                raise ValueError(f"flush every {value} {setting}: use 1 or more")

    @property
    def appends_wait(self) -> bool:
        """Whether an append is done only when it is durable."""
        return self.every_records == 1


FLUSH_NEVER: Final = FlushPolicy()
FLUSH_ALWAYS: Final = FlushPolicy(every_records=1)


class Flusher:
    """The flush rounds of one folder."""

    def __init__(
        self,
        disk: Disk,
        policy: FlushPolicy,
        failed: Callable[[StorageError], None] = lambda _error: None,
    ) -> None:
        self.policy = policy
        self.rounds = 0
        self.failure: StorageError | None = None
        """Why nothing is flushed any more, if so."""
        self._disk = disk
        self._tell_failure = failed
        self._asked: dict[Log, list[Done]] = {}
        self._running = False
        self._after_round: deque[Callable[[], None]] = deque()
        self._when_idle: deque[Callable[[], None]] = deque()
        self._closed: WeakSet[Log] = WeakSet()
        self._unflushed_since_ms: dict[Log, int] = {}

    def appended(self, log: Log, now_ms: int, done: Done) -> None:
        """Something was appended; call `done` when that counts, by the policy."""
        policy = self.policy
        every_records = policy.every_records
        if every_records == 1:
            self.flush(log, done)
            return
        if policy.every_ms is not None:
            self._unflushed_since_ms.setdefault(log, now_ms)
        done(None)
        if every_records is not None and log.unflushed_records >= every_records:
            self.flush(log)

    def flush(self, log: Log, done: Done | None = None) -> None:
        """Make a log durable in the next round."""
        done = done or _nobody
        refusal = self.failure
        if log in self._closed:
            refusal = LogClosed(f"{log.folder} is closed")
        if refusal is not None:
            done(refusal)
            return
        waiting = self._asked.setdefault(log, [])
        # Whoever only wants it to happen once does not need to be told twice.
        if done is not _nobody or not waiting:
            waiting.append(done)
        if not self._running:
            self._round()

    def next_deadline(self) -> int | None:
        """When `tick` has something to do."""
        if self.policy.every_ms is None or not self._unflushed_since_ms:
            return None
        return next(iter(self._unflushed_since_ms.values())) + self.policy.every_ms

    def tick(self, now_ms: int) -> None:
        """Flush what has waited for long enough."""
        every_ms = self.policy.every_ms
        if every_ms is None:
            return
        due = [log for log, since in self._unflushed_since_ms.items() if since + every_ms <= now_ms]
        for log in due:
            del self._unflushed_since_ms[log]
            self.flush(log)

    def close(self, log: Log) -> None:
        """A log goes away: it is not flushed any more, except by a round that is under way."""
        self._closed.add(log)
        self._unflushed_since_ms.pop(log, None)
        _tell(self._asked.pop(log, []), LogClosed(f"{log.folder} is closed"))

    def after_round(self, then: Callable[[], None]) -> None:
        """Call when no round is under way: now, or between this one and the next."""
        if self._running:
            self._after_round.append(then)
        else:
            then()

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call when no round is under way, and none is about to be."""
        if self._running or self._asked:
            self._when_idle.append(then)
        else:
            then()

    def _round(self) -> None:
        asked, self._asked = self._asked, {}
        begun: list[tuple[Flush, list[Done]]] = []
        self._running = True
        for log, waiting in asked.items():
            self._unflushed_since_ms.pop(log, None)
            try:
                begun.append((begin(log), waiting))
            except StorageError as error:
                _tell(waiting, error)
                self._fail(error)
        self.rounds += 1
        flushes = [flush for flush, _ in begun]
        self._disk.submit(lambda: [_run(flush) for flush in flushes], partial(self._finish, begun))

    def _finish(
        self, begun: list[tuple[Flush, list[Done]]], errors: list[OSError | None] | Exception
    ) -> None:
        if isinstance(errors, Exception):
            raise errors
        failure = None
        for (flush, waiting), error in zip(begun, errors, strict=True):
            if error is None:
                flush.finish()
                _tell(waiting, None)
            else:
                failure = flush.fail(error)
                _tell(waiting, failure)
        self._running = False
        if failure is not None:
            self._fail(failure)
        while self._after_round and not self._running:
            self._after_round.popleft()()
        if self._asked and not self._running:
            self._round()
        while self._when_idle and not self._running:
            self._when_idle.popleft()()

    def _fail(self, error: StorageError) -> None:
        if self.failure is None:
            self.failure = error
            asked, self._asked = self._asked, {}
            for waiting in asked.values():
                _tell(waiting, error)
            self._tell_failure(error)


def _run(flush: Flush) -> OSError | None:
    try:
        flush.run()
    except OSError as error:
        return error
    return None


def _tell(waiting: list[Done], error: StorageError | None) -> None:
    for done in waiting:
        done(error)


def _nobody(error: StorageError | None) -> None:
    """Nobody waits."""
