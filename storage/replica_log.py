"""Carry out on a log what a replica's core asks of storage, and tell it when that is done.

It is the one place where effects of `protocol.replication` become writes, and what storage answers
becomes events. The order of completions is the order of writes, as the contract in
`protocol.machine` wants it. `deliver` queues an event for the core; it does not handle it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol.errors import InvariantViolation
from protocol.machine import Effect, Event
from protocol.replication.effects import Append, DeleteBefore, Reset, Truncate
from protocol.replication.events import Appended, AppendsRefused, StorageFailed, Truncated
from storage.batch.header import Batch, assign
from storage.disk.jobs import Job
from storage.errors import DiskFull, StorageError
from storage.flusher import Flusher, LogClosed
from storage.log.cutting import advance_start, reset, truncate
from storage.log.log import Log


class ReplicaLog:
    """A log in the hands of one replica."""

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        deliver: Callable[[Event], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.log = log
        self.is_failed = False
        self._flusher = flusher
        self._deliver = deliver
        self._tell_failure = failed
        self._unanswered = 0
        """Appends that are in the log and wait to be durable, and the cut after a refused one."""
        self._refused: str | None = None
        """Why appends are refused, until those before are answered."""

    def carry_out(self, effect: Effect, now_ms: int) -> None:
        """Begin one of the effects that are for storage."""
        if self.is_failed:
            return
        if isinstance(effect, Append):
            self._append(effect, now_ms)
            return
        match effect:
            case Truncate(end_offset):
                self._cut(truncate(self.log, end_offset))
            case Reset(start_offset):
                self._cut(reset(self.log, start_offset))
            case DeleteBefore(start_offset):
                self.log.turns.put(advance_start(self.log, start_offset), self._after_deletion)
            case _:
                raise InvariantViolation("StorageKnowsItsEffects", effect, "it is not for storage")

    def _append(self, effect: Append, now_ms: int) -> None:
        if self._refused is not None:
            return
        try:
            self.log.append(_placed(effect))
        except DiskFull as error:
            self._refused = str(error)
            if self.log.end_offset > effect.base_offset:
                self._unanswered += 1
                self.log.turns.put(truncate(self.log, effect.base_offset), self._after_refusal)
            else:
                self._answer_refusal()
            return
        except (StorageError, OSError) as error:
            self.fail(error)
            return
        self._unanswered += 1
        end_offset = effect.end_offset
        self._flusher.appended(self.log, now_ms, lambda error: self._durable(end_offset, error))

    def _durable(self, end_offset: int, error: StorageError | None) -> None:
        self._unanswered -= 1
        if self.is_failed:
            return
        if error is None:
            self._deliver(Appended(end_offset))
            if self._refused is not None:
                self._answer_refusal()
        elif isinstance(error, LogClosed):
            self.is_failed = True
        else:
            # It is in the log and may or may not survive: nothing sure can be said of it any more.
            self.fail(error)

    def _after_refusal(self, result: Exception | None) -> None:
        self._unanswered -= 1
        if result is not None:
            self.fail(result)
        else:
            self._answer_refusal()

    def _answer_refusal(self) -> None:
        if self._refused is None or self._unanswered or self.is_failed:
            return
        reason, self._refused = self._refused, None
        self._deliver(AppendsRefused(reason))

    def _cut(self, job: Job[None]) -> None:
        self.log.turns.put(job, self._after_cut)

    def _after_cut(self, result: Exception | None) -> None:
        if result is not None:
            self.fail(result)
        elif not self.is_failed:
            self._deliver(Truncated(self.log.end_offset))

    def _after_deletion(self, result: Exception | None) -> None:
        # A full disk keeps what could be deleted a little longer; the next deletion takes it too.
        if result is not None and not isinstance(result, DiskFull):
            self.fail(result)

    def fail(self, error: Exception) -> None:
        """The disk did what it must not: this replica, and its folder, have nothing to trust."""
        if not self.is_failed:
            self.is_failed = True
            self._deliver(StorageFailed(str(error)))
            self._tell_failure(error)


def _placed(effect: Append) -> Sequence[Batch]:
    """Give a leader's batches their offsets and epoch; a follower's have them already."""
    batches: Sequence[Batch] = effect.payload  # type: ignore[assignment]
    if effect.epoch:
        offset, placed = effect.base_offset, []
        for batch in batches:
            placed.append(assign(batch, offset, effect.epoch))
            offset += batch.header.last_offset_delta + 1
        batches = placed
    if not batches or batches[-1].header.end_offset != effect.end_offset:
        raise InvariantViolation(
            "BatchesAreWhatWasCounted", effect, f"they do not end at {effect.end_offset}"
        )
    return batches
