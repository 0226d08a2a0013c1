"""What a log says of itself beside its batches: epochs, producers and aborted transactions.

All of it can be made again from the batches, and some of it may lag behind them after a crash. It
is compared only as far as the next start would believe it: see `storage.log.recovery`.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

import attrs

from storage import checkpoint
from storage.batch.control import MarkerKind, read_marker
from storage.batch.header import Batch, Header
from storage.disk.seam import Disk
from storage.errors import DamagedFile
from storage.log import aborted
from storage.log.aborted import AbortedTransaction
from storage.log.epochs import LEADER_EPOCHS, Epochs
from storage.log.producer_snapshot import ProducerEntry
from storage.log.producers import Producers


@attrs.define
class EpochCheck:
    """`leader-epoch-checkpoint` against the batches."""

    path: str
    epochs: Epochs | None
    """`None`: the file is not there, or does not read."""
    reason: str | None = None

    @classmethod
    def load(cls, disk: Disk, folder: str) -> EpochCheck:
        """Read the file of a partition."""
        path = f"{folder}/{LEADER_EPOCHS}"
        if not disk.exists(path):
            return cls(path, None)
        try:
            return cls(path, Epochs.decode(checkpoint.read_whole(disk, path), path))
        except DamagedFile as damage:
            return cls(path, None, f"line {damage.line}: {damage.reason}")

    def batch(self, header: Header, log_start: int) -> None:
        """Hear of a batch of which the file was told; it begins where the log does."""
        if self.epochs is None or self.reason is not None:
            return
        entries = self.epochs.entries
        offset = max(header.base_offset, log_start)
        at = bisect_right(entries, offset, key=itemgetter(1)) - 1
        said = entries[at][0] if at >= 0 else None
        if said != header.leader_epoch:
            self.reason = (
                f"offset {offset:,} has epoch {'none' if said is None else said}, where"
                f" its batch has {header.leader_epoch}"
            )


@attrs.define
class ProducerCheck:
    """The producers as the batches tell them, for snapshots and indexes of aborted transactions."""

    producers: Producers
    complete: bool
    """Whether nothing ever was before the first batch. Else what a broker remembers depends on
    when it last read the log, and not only on what the log has now."""
    ended: list[AbortedTransaction] = attrs.Factory(list)
    """Aborted in the current segment, as far as the batches show it."""
    abort_markers: dict[int, int] = attrs.Factory(dict)
    """Producer ids by the offset of their abort marker in the current segment."""
    compacted: bool = False
    """Whether records are missing between others: then not all that was told is left."""

    def batch(self, header: Header, view: memoryview) -> None:
        """Hear of a batch; `InvalidBatch` if it is a marker that nobody can read."""
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.producers.observe(header)
            return
        marker = read_marker(Batch(header, view))
        if marker is None:
            return
        if marker.kind is MarkerKind.ABORT:
            self.abort_markers[header.base_offset] = header.producer_id
        ended = self.producers.observe_marker(header, marker.kind, marker.coordinator_epoch)
        if ended is not None:
            self.ended.append(ended)

    def next_segment(self) -> None:
        """Hear that another segment begins."""
        self.ended = []
        self.abort_markers = {}

    def index_fault(
        self, found: list[AbortedTransaction], base: int, end: int, limit: int | None
    ) -> str | None:
        """Say why this cannot be the current segment's index of aborted ones, below `limit`."""
        by_marker = {each.last_offset: each for each in found}
        for entry in found:
            if not base <= entry.last_offset < end:
                return f"{entry} ended outside of its segment"
            if (
                self.abort_markers.get(entry.last_offset) != entry.producer_id
                and not self.compacted
            ):
                return f"{entry} has no marker in the log"
        if not self._exact:
            return None
        for expected in self.ended:
            there = by_marker.get(expected.last_offset)
            if limit is not None and expected.last_offset >= limit:
                break
            if there is None:
                return f"{expected} is missing"
            if there != expected:
                return f"{there}, where the log has {expected}"
        return None

    @property
    def _exact(self) -> bool:
        return self.complete and not self.compacted

    def snapshot_fault(self, known: Producers, offset: int, *, here: bool) -> str | None:
        """Say why this cannot be a snapshot at this offset; `here`: the batches are at it now."""
        for entry in known.entries.values():
            latest = max(entry.last_offset, entry.transaction_first_offset or 0)
            if latest >= offset:
                return f"producer {entry.producer_id} wrote offset {latest:,}, which is later"
            told = self.producers.entries.get(entry.producer_id)
            if here and self._exact and told is not None and _essence(told) != _essence(entry):
                return f"producer {entry.producer_id} is not as its batches say"
        return None


def _essence(entry: ProducerEntry) -> tuple[int, int, int, int | None]:
    return entry.epoch, entry.last_sequence, entry.last_offset, entry.transaction_first_offset


def read_aborted(disk: Disk, path: str, limit: int | None) -> list[AbortedTransaction]:
    """Read an index of aborted transactions, below `limit` if it may be torn above."""
    if not disk.exists(path):
        return []
    content = checkpoint.read_whole(disk, path)
    if limit is not None:
        content = content[: aborted.count_below(content, limit) * aborted.ENTRY_BYTES]
    return aborted.decode(content, path)
