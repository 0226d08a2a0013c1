"""What the controller has decided on its way into the quorum's log, a few proposals at a time.

The quorum refuses a leader that has too many writes under way, and a controller that is refused has
to resign. So what comes while enough is under way waits, and goes out as one proposal when there is
room, as long as that is not too large for one. All is in the order in which it was decided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

from protocol.controller.records import BrokerConfigRecord, ConfigRecord, Record, TopicRecord
from protocol.errors import ErrorCode
from protocol.types import Epoch, Offset

MAX_UNDER_WAY: Final = 8
MAX_MERGED_CHARS: Final = 1_000_000
"""About so much of several decisions goes out as one proposal. A decision is never cut in two."""

_USUAL_CHARS: Final = 300

Refused: TypeAlias = Callable[[Offset, ErrorCode], None]
"""Takes where a proposal was to begin, and why it was refused; all before it was not."""


class Proposer(Protocol):
    """The part of `net.metadata.node.QuorumNode` that takes records."""

    def propose(
        self,
        records: Sequence[Record],
        base_offset: Offset,
        epoch: Epoch,
        refused: Callable[[ErrorCode], None],
    ) -> None:
        """Append records, all or none; `refused` if they were not even begun."""


class Proposals:
    """The proposals of one time as the active controller."""

    def __init__(self, proposer: Proposer, epoch: Epoch, refused: Refused) -> None:
        self._proposer = proposer
        self.epoch = epoch
        self._refused = refused
        self._closed = False
        self._under_way: deque[Offset] = deque()
        self._waiting: deque[tuple[Offset, tuple[Record, ...]]] = deque()

    def add(self, base_offset: Offset, records: tuple[Record, ...]) -> None:
        """Propose these now, or when there is room."""
        if not self._closed:
            self._waiting.append((base_offset, records))
            self._propose()

    def committed(self, end_offset: Offset) -> None:
        """Hear that all before an offset is committed."""
        while self._under_way and self._under_way[0] <= end_offset:
            self._under_way.popleft()
        self._propose()

    def close(self) -> None:
        """Propose nothing more, and tell of no refusal."""
        self._closed = True
        self._waiting.clear()

    def _refuse(self, base_offset: Offset, error: ErrorCode) -> None:
        if not self._closed:
            self.close()
            self._refused(base_offset, error)

    def _propose(self) -> None:
        while self._waiting and len(self._under_way) < MAX_UNDER_WAY:
            base_offset, records = self._next()
            self._under_way.append(base_offset + len(records))
            refuse = partial(self._refuse, base_offset)
            self._proposer.propose(records, base_offset, self.epoch, refuse)

    def _next(self) -> tuple[Offset, Sequence[Record]]:
        base_offset, first = self._waiting.popleft()
        merged = list(first)
        chars = size_chars(first)
        while self._waiting:
            chars += size_chars(self._waiting[0][1])
            if chars > MAX_MERGED_CHARS:
                break
            merged.extend(self._waiting.popleft()[1])
        return base_offset, merged


def size_chars(records: Sequence[Record]) -> int:
    """Tell about how large records are: settings are what makes one large."""
    return sum(_USUAL_CHARS + _settings_chars(record) for record in records)


def _settings_chars(record: Record) -> int:
    if isinstance(record, TopicRecord | ConfigRecord):
        settings = record.config.other
    elif isinstance(record, BrokerConfigRecord):
        settings = record.settings
    else:
        return 0
    return sum(len(name) + len(value) for name, value in settings.items())
