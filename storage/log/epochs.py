"""Where in a log each leader epoch begins: what `leader-epoch-checkpoint` keeps.

It knows what the batches of the log say, and is told of every append and cut. It is not the
protocol's view, which `as_log` derives from it together with the bounds of the log.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import InvariantViolation
from protocol.replication.log import EpochStart, Log, epoch_end
from protocol.types import Epoch, Offset
from storage.checkpoint import MAX_INT32, MAX_INT64, decode_rows, encode_rows, number
from storage.disk.seam import Buffer
from storage.errors import DamagedFile

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"


class Epochs:
    """Epochs and their first offsets, both strictly ascending.

    `entries` is never changed, only exchanged, and `generation` grows with every exchange: a writer
    remembers the generation that it encoded and reports it to `saved` once it is durable.
    """

    __slots__ = ("_last_epoch", "_last_start", "_saved", "entries", "generation")

    def __init__(self, entries: tuple[EpochStart, ...] = ()) -> None:
        self.generation = 0
        self._saved = 1
        self._exchange(entries)

    @property
    def dirty(self) -> bool:
        """Whether the file, if there is one, has something else."""
        return self._saved != self.generation

    def saved(self, generation: int) -> None:
        """Hear that what was encoded at this generation is durable."""
        self._saved = max(self._saved, generation)

    def assign(self, epoch: Epoch, start_offset: Offset) -> None:
        """Hear of a batch of this epoch. All but the first of an epoch cost two comparisons.

        What is said last holds: entries that cannot stand before the new one are removed.
        """
        if epoch == self._last_epoch and start_offset >= self._last_start:
            return
        if not (0 <= epoch <= MAX_INT32 and 0 <= start_offset <= MAX_INT64):
            raise InvariantViolation("EpochInRange", self, f"epoch {epoch} at {start_offset}")
        kept = len(self.entries)
        while kept and (
            self.entries[kept - 1][0] >= epoch or self.entries[kept - 1][1] >= start_offset
        ):
            kept -= 1
        self._exchange((*self.entries[:kept], (epoch, start_offset)))

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Hear that the log was cut to this end: forget the epochs that begin there or later."""
        kept = len(self.entries)
        while kept and self.entries[kept - 1][1] >= end_offset:
            kept -= 1
        if kept < len(self.entries):
            self._exchange(self.entries[:kept])

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Hear that the log begins here now: the epoch that covers this offset begins here, too.

        It is kept even if the log is empty now, as Kafka does; `as_log` leaves it out then.
        """
        covering = -1
        for _, start in self.entries:
            if start > start_offset:
                break
            covering += 1
        if covering < 0 or (covering == 0 and self.entries[0][1] == start_offset):
            return
        first = (self.entries[covering][0], start_offset)
        self._exchange((first, *self.entries[covering + 1 :]))

    def _exchange(self, entries: tuple[EpochStart, ...]) -> None:
        self._last_epoch: Epoch | None
        self.entries = entries
        self.generation += 1
        self._last_epoch, self._last_start = entries[-1] if entries else (None, 0)

    def end_offset_for(
        self, epoch: Epoch, log_end: Offset, log_start: Offset = 0
    ) -> tuple[Epoch, Offset]:
        """Find the largest known epoch up to this one and its end, by the protocol's own rule."""
        found = epoch_end(self.as_log(log_start, log_end), epoch)
        return found.epoch, found.offset

    def as_log(self, start_offset: Offset, end_offset: Offset) -> Log:
        """Give the protocol's view of a log with these bounds: only epochs with entries."""
        ends = [*(start for _, start in self.entries[1:]), end_offset]
        epochs = tuple(
            (epoch, max(start, start_offset))
            for (epoch, start), end in zip(self.entries, ends, strict=False)
            if max(start, start_offset) < min(end, end_offset)
        )
        return Log(start_offset, end_offset, epochs)

    def encode(self) -> bytes:
        """Write `leader-epoch-checkpoint`: one row `epoch offset` each."""
        return encode_rows(f"{epoch} {start}" for epoch, start in self.entries)

    @classmethod
    def decode(cls, content: Buffer, file: str) -> Epochs:
        """Read `leader-epoch-checkpoint`; `DamagedFile` if it is none, or not in order."""
        entries: list[EpochStart] = []
        for line, (epoch, start) in decode_rows(content, file, columns=2):
            entry = number(epoch, MAX_INT32, file, line), number(start, MAX_INT64, file, line)
            if entries and not (entries[-1][0] < entry[0] and entries[-1][1] < entry[1]):
                raise DamagedFile(file, f"epoch {entry[0]} does not follow the row before", line)
            entries.append(entry)
        return cls(tuple(entries))
