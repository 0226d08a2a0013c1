"""When a folder's logs are made durable, and who waits for it: one fsync round for all of them.

A round covers every log that asked before it began; what asks meanwhile shares the next one. So a
thousand appends to a hundred partitions cost a few rounds, not a thousand fsyncs. The clock is the
caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from storage.disk.seam import Disk
from storage.errors import DiskFailed, StorageError
from storage.log.flushing import Flush, begin
from storage.log.log import Log

Done = Callable[[StorageError | None], None]


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

    def __init__(self, disk: Disk, policy: FlushPolicy) -> None:
        self.policy = policy
        self.rounds = 0
        self._disk = disk
        self._asked: dict[Log, list[Done]] = {}
        self._running = False
        self._unflushed_since_ms: dict[Log, int] = {}

    def appended(self, log: Log, now_ms: int, done: Done) -> None:
        """Something was appended; call `done` when that counts, by the policy."""
        policy = self.policy
        if policy.appends_wait:
            self.flush(log, done)
            return
        if policy.every_ms is not None:
            self._unflushed_since_ms.setdefault(log, now_ms)
        done(None)
        if policy.every_records is not None and log.unflushed_records >= policy.every_records:
            self.flush(log, _nobody)

    def flush(self, log: Log, done: Done) -> None:
        """Make a log durable in the next round."""
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
            self.flush(log, _nobody)

    def forget(self, log: Log) -> None:
        """A log goes away; whoever waits for it is told that it failed."""
        self._unflushed_since_ms.pop(log, None)
        for done in self._asked.pop(log, ()):
            done(DiskFailed(f"{log.folder}: the log is closed"))

    def _round(self) -> None:
        asked, self._asked = self._asked, {}
        begun: list[tuple[Flush, list[Done]]] = []
        for log, waiting in asked.items():
            self._unflushed_since_ms.pop(log, None)
            try:
                begun.append((begin(log), waiting))
            except StorageError as error:
                _tell(waiting, error)
        if not begun:
            return
        self._running = True
        self.rounds += 1
        flushes = [flush for flush, _ in begun]

        def finish(errors: list[OSError | None] | Exception) -> None:
            self._running = False
            if isinstance(errors, Exception):
                raise errors
            for (flush, waiting), error in zip(begun, errors, strict=True):
                if error is None:
                    flush.finish()
                _tell(waiting, flush.fail(error) if error else None)
            if self._asked and not self._running:
                self._round()

        self._disk.submit(lambda: [_run(flush) for flush in flushes], finish)


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
    """Nobody waits. A disk that failed is found out by the next write or checkpoint."""
