"""What a client knows of one partition that it writes to: mirrors `client[p]`."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from protocol.idempotence.fold import (
    MAX_SEQUENCE,
    REMEMBERED,
    ProducerEpoch,
    ProducerId,
    Sequence,
)
from protocol.types import Correlation

MAX_EPOCH: Final[ProducerEpoch] = 2**15 - 1
"""After the largest epoch a producer needs a new id."""


@attrs.frozen
class ClientConfig:
    """Kafka's settings of a producer, and its defaults. Only models have other sequences."""

    max_in_flight: int = REMEMBERED
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    max_sequence: Sequence = MAX_SEQUENCE


class Standing(enum.Enum):
    """How it stands with a batch in flight.

    WAITS: a request is under way, and its answer is waited for. REFUSED: the last answer said that
    the batch is not in the log. UNSURE: nobody knows.
    """

    WAITS = "waits"
    REFUSED = "refused"
    UNSURE = "unsure"


@attrs.frozen
class InFlight:
    """A batch that was sent, and of which it is not known yet what became of it."""

    batch: Correlation
    number: int
    """How many batches of this epoch were sent before it; they go round as sequences do."""
    first_sequence: Sequence
    record_count: int
    standing: Standing
    first: bool
    """It was the first in flight when it was last sent."""
    loose: bool
    """A request went without an answer: it may arrive still."""
    doubtful: bool
    """Some request of it, of this epoch, may have brought it into the log."""
    expires_ms: int


@attrs.frozen
class ClientState:
    """Everything that a client keeps for one partition."""

    producer_id: ProducerId
    config: ClientConfig = ClientConfig()
    epoch: ProducerEpoch = 0
    next_sequence: Sequence = 0
    next_number: int = 0
    in_flight: tuple[InFlight, ...] = ()
    """The oldest first."""
    bump: bool = False
    """The epoch is to change."""
    resend_ms: int | None = None
    """When to send the first in flight again, if it is to be."""
