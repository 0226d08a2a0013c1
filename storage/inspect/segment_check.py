"""Read a segment to its end, past whatever is wrong in it, and say what is wrong where.

Reading is `storage.log.scan`; this goes on behind a fault as long as a length field can be
believed. Base offset and leader epoch lie outside a batch's checksum: they are judged by their
order alone. A batch that leaps ahead and is followed by one that goes on where it had leapt from is
the wrong one of the two, although `scan` stumbles only over its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import attrs

from storage.batch.header import HEADER_BYTES, Header, read_header, structural_fault
from storage.disk.seam import Disk
from storage.errors import InvalidBatch
from storage.log.scan import Fault, Visit, scan

MAX_FAULTS: Final = 20
"""How many are told of one segment: after so many, the next says nothing new."""
_TELL_BYTES: Final = 4 * 1024 * 1024


class Limit(NamedTuple):
    """An offset that no batch of the segment may reach, and why, up to the number.

    If it is not `firm`, it only speaks against a batch that leaps ahead: what follows without a gap
    is more credible than the name of the next file.
    """

    offset: int
    because: str
    firm: bool


class _Unsound(Exception):  # noqa: N818 - it ends a scan, and is caught around it
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


@attrs.define
class SegmentCheck:
    """One segment's file. `visit` hears of sound batches, `visit_behind` of those after a fault."""

    disk: Disk
    path: str
    base_offset: int
    limit: Limit | None
    epoch: int
    """No batch has a smaller one; that of the last batch, after reading."""
    visit: Visit
    visit_behind: Visit
    on_bytes: Callable[[int], None]
    size_bytes: int = 0
    end_offset: int = 0
    """Behind the last batch before the first fault."""
    faults: list[Fault] = attrs.Factory(list)
    _expected: int = 0
    _told_bytes: int = 0

    def read(self) -> None:
        """Read all of it."""
        self.size_bytes = self.disk.size(self.path)
        self._expected = self.base_offset
        position = 0
        while len(self.faults) < MAX_FAULTS:
            fault = self._scan(position)
            if not self.faults:
                self.end_offset = self._expected
            if fault is None:
                break
            self.faults.append(fault)
            following = self._behind(fault)
            if following is None:
                break
            position = following
        self._tell(self.size_bytes)

    def _scan(self, position: int) -> Fault | None:
        end, expected, epoch = self.size_bytes, self._expected, self.epoch
        try:
            return scan(self.disk, self.path, position, end, expected, epoch, self._hear)
        except _Unsound as unsound:
            return unsound.fault

    def _hear(self, position: int, header: Header, view: memoryview) -> None:
        if fault := self._order_fault(position, header):
            raise _Unsound(Fault(position, self._expected, fault))
        if self.faults:
            self.visit_behind(position, header, view)
        else:
            try:
                self.visit(position, header, view)
            except InvalidBatch as invalid:
                raise _Unsound(Fault(position, self._expected, invalid.reason)) from invalid
        self._expected = header.end_offset
        self.epoch = header.leader_epoch
        if position - self._told_bytes > _TELL_BYTES:
            self._tell(position)

    def _tell(self, position: int) -> None:
        self.on_bytes(position - self._told_bytes)
        self._told_bytes = position

    def _order_fault(self, position: int, header: Header) -> str | None:
        """Say why the offset or the epoch of a batch cannot be right, judged by what follows."""
        limit, leaps = self.limit, header.base_offset != self._expected
        if limit is not None and header.end_offset > limit.offset and (leaps or limit.firm):
            return (
                f"a batch with the offsets {header.base_offset} to {header.last_offset}, although"
                f" {limit.because} {limit.offset}"
            )
        if not leaps and header.leader_epoch == self.epoch:
            return None
        following = self._header_at(position + header.size_bytes)
        if following is None or following.magic != header.magic:
            return None
        if self._expected <= following.base_offset < header.end_offset:
            return f"a batch at offset {header.base_offset}, before one at {following.base_offset}"
        if self.epoch <= following.leader_epoch < header.leader_epoch:
            return (
                f"a batch of epoch {header.leader_epoch}, between epoch {self.epoch} and"
                f" epoch {following.leader_epoch}"
            )
        return None

    def _header_at(self, position: int) -> Header | None:
        if position + HEADER_BYTES > self.size_bytes:
            return None
        found = self.disk.read(self.path, position, HEADER_BYTES)
        return read_header(found) if len(found) == HEADER_BYTES else None

    def _behind(self, fault: Fault) -> int | None:
        """Where the batch ends that is at fault, if it can be told."""
        header = self._header_at(fault.position)
        if header is None or structural_fault(header):
            return None
        end = fault.position + header.size_bytes
        return end if end <= self.size_bytes else None
