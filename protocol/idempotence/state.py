"""What a partition's leader knows of its producers, and who waits for what.

`entries` mirrors `pstate`; the fold that makes it is in `fold`. A batch that was let through is
`pending` until storage has answered: the next one of its producer is checked as if it were written,
and falls with it if it is not.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import attrs
from immutables import Map

from protocol.idempotence.fold import (
    MAX_SEQUENCE,
    NOBODY,
    REMEMBERED,
    Entries,
    Entry,
    ProducerId,
)
from protocol.types import Correlation, Offset

EMPTY: Final[Map[Any, Any]] = Map()
NOT_WRITTEN: Final[Offset] = -1
UNKNOWN_OFFSET: Final[Offset] = -1
"""Where a batch is that was appended, but is not remembered any more."""


@attrs.frozen
class SequencesConfig:
    """Times and bounds. The first two are Kafka's; only models have smaller ones."""

    max_sequence: int = MAX_SEQUENCE
    remembered: int = REMEMBERED
    max_producers: int = 100_000
    """Beyond it, producers that are not known yet are refused until others have expired."""
    max_parked: int = 1_000
    """How many repeated batches may wait for the first one of theirs to be committed."""
    expiry_ms: int = 86_400_000
    """A producer that has not written for so long is forgotten. Must be longer than any client's
    delivery time-out and any request's life: a batch that comes again after it is a new one."""
    sweep_interval_ms: int = 600_000


@attrs.frozen
class Waiting:
    """Somebody who sent a batch again, and waits for the first one to be committed."""

    correlation: Correlation
    acks_all: bool
    expires_ms: int


class Pending(NamedTuple):
    """A batch that was let through and is not in the log yet.

    `known` is what it was checked against: what is remembered of its producer, counting those that
    were let through before it, which have no offset yet.
    """

    correlation: Correlation
    epoch: int
    first_sequence: int
    last_sequence: int
    known: Entry | None
    waiting: tuple[Waiting, ...] = ()


@attrs.frozen
class Parked:
    """A repeated batch whose first one is in the log, but not under the high watermark yet.

    `end_offset` is where that ends, or something after it if its place is unknown.
    """

    waiting: Waiting
    base_offset: Offset
    end_offset: Offset


PendingByProducer: TypeAlias = Map[ProducerId, tuple[Pending, ...]]


@attrs.frozen
class SequencesState:
    """Everything that the leader of one partition knows of its producers."""

    config: SequencesConfig = SequencesConfig()
    entries: Entries = NOBODY
    pending: PendingByProducer = EMPTY
    parked: tuple[Parked, ...] = ()
    end_offset: Offset = 0
    """Where the last batch of a producer ends."""
    high_watermark: Offset = 0
    sweep_ms: int | None = None
    """When to look for producers that have expired; None while there are none at all."""


def with_pending(state: SequencesState, pending: PendingByProducer) -> SequencesState:
    """Change what every batch changes. Built directly: `attrs.evolve` takes three times as long."""
    return SequencesState(
        state.config,
        state.entries,
        pending,
        state.parked,
        state.end_offset,
        state.high_watermark,
        state.sweep_ms,
    )


def count_parked(state: SequencesState) -> int:
    """Count who waits for a batch, written or not."""
    unwritten = sum(len(each.waiting) for queue in state.pending.values() for each in queue)
    return len(state.parked) + unwritten
