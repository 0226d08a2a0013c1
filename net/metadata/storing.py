"""Carry out on the metadata log what the quorum's core asks of storage, and tell when it is done.

Everything counts only when it is durable: records, cuts, snapshots, and the vote. The core never
asks for a write of another kind while one is under way, so appends go to the log at once and all
else takes turns. Any failure is the last word: what the disk holds is not known then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs

from net.clock import wall_ms
from net.metadata.batches import leader_change_batch
from net.metadata.log import Loaded, MetadataLog
from net.metadata.quorum_state import Vote, encode_vote
from protocol.controller.state import Image
from protocol.errors import InvariantViolation
from protocol.machine import Effect, Event
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.types import Offset
from storage import checkpoint
from storage.batch.header import Batch
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.errors import DiskFull, StorageError, disk_error
from storage.flusher import LogClosed
from storage.log.cutting import advance_start, reset, truncate

_log = logging.getLogger(__name__)

_SAVE_POINTS_MS: Final = 5_000
"""How often the recovery point is saved: what was durable before it and is gone is damage."""


@attrs.frozen
class Downloaded:
    """The payload of a fetched snapshot: a file that is durable, and what it says."""

    path: str
    image: Image


class QuorumStorage:
    """A metadata log in the hands of one node."""

    def __init__(
        self,
        log: MetadataLog,
        deliver: Callable[[Event], None],
        failed: Callable[[str], None],
        clock_ms: Callable[[], int],
    ) -> None:
        self.log = log
        self.is_failed = False
        self._deliver = deliver
        self._tell_failure = failed
        self._clock_ms = clock_ms
        self._points_saved_ms = clock_ms()
        self._is_saving_points = False

    def carry_out(self, effect: Effect) -> None:
        """Begin one of the effects that are for storage."""
        if self.is_failed:
            return
        turns = self.log.log.turns
        match effect:
            case do.Append():
                self._append(effect)
            case do.SaveVote(epoch, voted):
                vote = Vote(epoch, voted)
                turns.put(self._save_vote(vote), partial(self._done, e.VoteSaved()))
            case do.Truncate(end_offset):
                turns.put(self._truncate(end_offset), partial(self._done, e.Truncated(end_offset)))
            case do.InstallSnapshot():
                turns.put(self._install(effect), partial(self._done, e.SnapshotInstalled()))
            case do.DeleteBefore(start_offset):
                turns.put(advance_start(self.log.log, start_offset), self._after_deletion)
            case _:
                raise InvariantViolation("StorageKnowsItsEffects", effect, "it is not for storage")

    def _append(self, effect: do.Append) -> None:
        try:
            self.log.log.append(_batches(effect))
        except (StorageError, OSError) as error:
            self.fail(error)
            return
        done = partial(self._durable, effect.end_offset)
        self.log.folder.flusher.appended(self.log.log, self._clock_ms(), done)

    def _durable(self, end_offset: Offset, error: StorageError | None) -> None:
        if self.is_failed:
            return
        if isinstance(error, LogClosed):
            self.is_failed = True
        elif error is not None:
            self.fail(error)
        else:
            self._deliver(e.Appended(end_offset))
            self._save_points()

    def _save_points(self) -> None:
        now_ms = self._clock_ms()
        if self._is_saving_points or now_ms - self._points_saved_ms < _SAVE_POINTS_MS:
            return
        self._is_saving_points, self._points_saved_ms = True, now_ms
        points = self.log.log.marks.recovery_points
        jobs.start(self.log.disk, points.save(), self._points_are_saved)

    def _points_are_saved(self, result: Exception | None) -> None:
        self._is_saving_points = False
        self._after_deletion(result)

    def _save_vote(self, vote: Vote) -> Job[None]:
        yield from checkpoint.replace(self.log.disk, self.log.vote_path, encode_vote(vote))
        self.log.vote = vote

    def _truncate(self, end_offset: Offset) -> Job[None]:
        log = self.log.log
        yield from truncate(log, end_offset)
        if log.end_offset != end_offset:
            raise StorageError(f"{log.folder} was cut to {log.end_offset}, not to {end_offset}")

    def _install(self, effect: do.InstallSnapshot) -> Job[None]:
        """First the snapshot is there for good, then what it replaces goes."""
        log, payload, snapshot = self.log, effect.payload, effect.snapshot
        if not isinstance(payload, Downloaded):
            raise InvariantViolation("SnapshotIsDownloaded", effect, f"{payload!r} is no file")
        log.disk.rename(payload.path, log.snapshot_path(snapshot))
        yield partial(log.disk.fsync_folder, log.path)
        log.loaded = Loaded(snapshot, payload.image)
        if effect.keeps_log:
            yield from advance_start(log.log, snapshot.end_offset)
        else:
            yield from reset(log.log, snapshot.end_offset)
        log.drop_old_snapshots()

    def _done(self, completion: Event, result: Exception | None) -> None:
        if isinstance(result, InvariantViolation):
            raise result
        if result is not None:
            self.fail(result)
        elif not self.is_failed:
            self._deliver(completion)

    def _after_deletion(self, result: Exception | None) -> None:
        # A full disk keeps what could be deleted a little longer; the next deletion takes it too.
        if isinstance(result, OSError):
            result = disk_error(result, self.log.path)
        if isinstance(result, DiskFull):
            _log.warning("%s", result)
        elif result is not None:
            self.fail(result)

    def fail(self, error: Exception) -> None:
        """The disk did what it must not: this node has nothing to trust any more."""
        if not self.is_failed:
            self.is_failed = True
            reason = str(error) or type(error).__name__
            _log.error("the metadata log failed: %s", reason)
            self._deliver(e.StorageFailed(reason))
            self._tell_failure(reason)


def _batches(effect: do.Append) -> Sequence[Batch]:
    """Give the batches of an append, which have their offsets and epochs."""
    payload = effect.payload
    if isinstance(payload, do.LeaderChange):
        base, epoch = effect.base_offset, effect.epoch
        return [leader_change_batch(payload, base, epoch, wall_ms())]
    batches: Sequence[Batch] = payload  # type: ignore[assignment]
    first, last = batches[0].header, batches[-1].header
    if first.base_offset != effect.base_offset or last.end_offset != effect.end_offset:
        detail = f"they are from {first.base_offset} to {last.end_offset}"
        raise InvariantViolation("BatchesAreWhatWasCounted", effect, detail)
    return batches
