"""A log that may begin with a snapshot: what `protocol.replication.log` does not have.

Below its start offset a log has a snapshot instead of entries. Of these it still knows the epoch of
the last one, as an epoch that begins one offset before the start: so the log can be compared with
others right there. All else works on it as on any `Log`.
"""

from __future__ import annotations

import attrs

from protocol.replication.log import Log
from protocol.types import Epoch, Offset


@attrs.frozen
class SnapshotId:
    """Names a snapshot: all entries before `end_offset`, the last of which is of `epoch`."""

    end_offset: Offset
    epoch: Epoch


NO_SNAPSHOT = SnapshotId(0, 0)


def epoch_at(log: Log, offset: Offset) -> Epoch:
    """Tell the epoch of the entry at an offset; 0 if that is not known any more, or not yet."""
    if offset >= log.end_offset:
        return 0
    for epoch, start in reversed(log.epochs):
        if start <= offset:
            return epoch
    return 0


def snapshot_of(log: Log) -> SnapshotId:
    """Name the snapshot that this log begins with."""
    return SnapshotId(log.start_offset, epoch_at(log, log.start_offset - 1))


def from_snapshot(snapshot: SnapshotId) -> Log:
    """Give the log that is this snapshot and nothing after it."""
    end = snapshot.end_offset
    return Log(end, end, ((snapshot.epoch, end - 1),)) if end else Log()


def holds(log: Log, snapshot: SnapshotId) -> bool:
    """Whether the log has the snapshot's last entry, and with it all the others."""
    if snapshot.end_offset < log.start_offset:
        return True
    return epoch_at(log, snapshot.end_offset - 1) == snapshot.epoch


def compacted(log: Log, start_offset: Offset) -> Log:
    """Give the log with a snapshot instead of the entries before `start_offset`."""
    if not log.start_offset < start_offset <= log.end_offset:
        return log
    last = start_offset - 1
    epochs = [entry for entry in log.epochs if entry[1] > last]
    return Log(start_offset, log.end_offset, ((epoch_at(log, last), last), *epochs))
