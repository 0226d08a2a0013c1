"""Records for an answer: read when it leaves, if that is still right, and as far as there is room.

KIP-74: the first partition that has something gives at least one batch, whatever its size, so that
every fetch gets on; the others give what still fits. A batch that is larger than what its partition
may give, but fits into the answer, is sent: nobody starves whose partition is never the first.
"""

from __future__ import annotations

import enum
import errno
import logging
from typing import Final, Literal

from net.broker.fetching.seams import Served
from net.transport.seam import FileRegion
from protocol.errors import ErrorCode
from protocol.replication.actions.table import fenced, not_leading
from protocol.replication.effects import SendEntries
from protocol.replication.state import Status
from storage.errors import StorageError

_log = logging.getLogger(__name__)

MAX_REGIONS: Final = 64
"""How many files one answer may keep open: others are sent from, too."""


class Room(enum.Enum):
    """Whether there is any."""

    NONE = "none"


NO_ROOM: Final = Room.NONE


class Budget:
    """How much room an answer has left."""

    __slots__ = ("_is_first", "_left_bytes", "_left_regions")

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max(max_bytes, 0)
        self._left_regions = MAX_REGIONS
        self._is_first = True

    def read(
        self, partition: Served, offset: int, end_offset: int, max_bytes: int
    ) -> FileRegion | ErrorCode | Literal[Room.NONE] | None:
        """Read what fits; `NO_ROOM` if nothing does, `None` if there is nothing."""
        if offset >= end_offset:
            return None
        if not self._is_first and (self._left_bytes <= 0 or self._left_regions <= 0):
            return NO_ROOM
        most = min(max(max_bytes, 0), self._left_bytes)
        try:
            region = partition.read(offset, end_offset, most)
        except (StorageError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EMFILE:
                # Too many files are being sent from; some of them will be done in a moment.
                return NO_ROOM
            _log.warning("%s cannot be read at %d: %s", partition.key, offset, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if region is None:
            return None
        if not self._is_first and len(region) > self._left_bytes:
            region.release()
            return NO_ROOM
        self._is_first = False
        self._left_bytes -= len(region)
        self._left_regions -= 1
        return region


def objection(partition: Served, answer: SendEntries) -> ErrorCode | None:
    """Say why an answer that the replica gave earlier is no longer right, or `None`.

    A log is only cut by a replica that no longer leads in the same epoch; what is before its start
    is gone.
    """
    state = partition.state
    if state.role is None or state.status is not Status.ONLINE:
        return not_leading(state)
    if answer.leader_epoch != state.view.epoch:
        return fenced(state, answer.leader_epoch)
    if answer.offset < state.log.start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None
