"""The choices of both halves, named as in `spec/IdempotenceRules.tla`.

Each rule is a small pure function, and actions choose only through the `Rules` that they are given.
So a mutant is one of them swapped: `attrs.evolve(Rules(), is_next=wrong)`. Leader and client take
the same value, because both count sequences by `next_sequence`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.client_state import ClientConfig, InFlight, Standing
from protocol.idempotence.fold import (
    Entries,
    Entry,
    ProducerEpoch,
    Remember,
    Sequence,
    Snapshot,
    Written,
    remember,
    replay,
)
from protocol.types import Offset

FIRST_SEQUENCE: Final[Sequence] = 0


class Request(Protocol):
    """What the rules read of a batch that arrives."""

    @property
    def epoch(self) -> ProducerEpoch: ...
    @property
    def first_sequence(self) -> Sequence: ...
    @property
    def last_sequence(self) -> Sequence: ...


class Reaction(enum.Enum):
    """What a client does about an error."""

    AGAIN = "again"
    BUMP = "bump"
    FAIL = "fail"


_GAPS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors of a moment, as Kafka's clients have them: the same batch may do better next time."""


def next_sequence(sequence: Sequence, max_sequence: Sequence) -> Sequence:
    """Sequence numbers start again after the last one."""
    return FIRST_SEQUENCE if sequence == max_sequence else sequence + 1


def epoch_is_current(entry: Entry, request: Request) -> bool:
    """KIP-98. An older epoch than the producer's is a zombie's, and fenced."""
    return request.epoch >= entry.epoch


def is_duplicate(entry: Entry, request: Request) -> bool:
    """One of the remembered batches comes again."""
    return (
        request.epoch == entry.epoch
        and entry.find(request.first_sequence, request.last_sequence) is not None
    )


def may_start(request: Request) -> bool:
    """A producer that is unknown, or has a new epoch, starts at the first sequence number.

    Kafka since KIP-360 takes any from an unknown one, and so the second batch of two that overtook
    the first.
    """
    return request.first_sequence == FIRST_SEQUENCE


def is_next(entry: Entry, request: Request, expected: Sequence) -> bool:
    """Otherwise its next batch follows the last one, without a gap: it begins as expected."""
    del entry
    return request.first_sequence == expected


def was_appended_before(entry: Entry, request: Request, max_sequence: Sequence) -> bool:
    """A batch that is not remembered any more comes again: it lies behind the last one.

    By less than half of the round, all of it. The sequences of an epoch have no gap, so it is in
    the log.
    """
    if request.epoch != entry.epoch or not entry.packed:
        return False
    if entry.find(request.first_sequence, request.last_sequence) is not None:
        return False
    every = max_sequence + 1
    behind = (entry.last_sequence - request.last_sequence) % every
    length = (request.last_sequence - request.first_sequence) % every
    return behind + length < every // 2


def duplicate_offset(entry: Entry, request: Request, end_offset: Offset) -> Offset:
    """A duplicate is told the offset at which the batch is in the log."""
    del end_offset
    offset = entry.find(request.first_sequence, request.last_sequence)
    if offset is None:
        raise ValueError(f"{request} is not remembered")
    return offset


def may_answer(end_offset: Offset, high_watermark: Offset) -> bool:
    """Whether first or duplicate, a batch is acknowledged once it is committed (acks=all)."""
    return end_offset <= high_watermark


def keeps_snapshot(snapshot: Snapshot, end_offset: Offset) -> bool:
    """A snapshot from beyond the end of a log that was cut tells of batches that are gone."""
    return snapshot.offset <= end_offset


def state_after_truncation(
    entries: Entries, snapshot: Snapshot, written: Written, keep: Remember, limit: int
) -> Entries:
    """KAFKA-12153. What a log that was cut says, from a snapshot on that it still covers."""
    del entries
    return replay(snapshot, written, keep, limit)


def state_after_restart(
    snapshot: Snapshot, written: Written, keep: Remember, limit: int
) -> Entries:
    """What the snapshot has, and then what the log has after it."""
    return replay(snapshot, written, keep, limit)


def may_expire(entry: Entry, now_ms: int, expiry_ms: int) -> bool:
    """A producer is forgotten when nothing of it can come any more: by the time that has passed."""
    return now_ms - entry.timestamp_ms >= expiry_ms


def may_send(
    in_flight: tuple[InFlight, ...], number: int, following: Sequence, config: ClientConfig
) -> bool:
    """From the first batch in flight to the following one are no more than a leader remembers.

    Counting those in flight is not enough: others may have been answered before the first. And the
    first sequence number is alone in flight, because a leader that has forgotten the producer takes
    it for a start: it would overtake those before it. `number` is that of the following batch.
    """
    if not in_flight:
        return True
    distance = (number - in_flight[0].number) % (config.max_sequence + 1)
    return distance < config.max_in_flight and following != FIRST_SEQUENCE


def retry_sequence(batch: InFlight, following: Sequence) -> Sequence:
    """A batch that is sent again keeps its sequence number, whatever the next new one will get."""
    del following
    return batch.first_sequence


def reaction(error: ErrorCode, first: bool) -> Reaction:
    """KIP-360. What to do about an error.

    A gap is conclusive for a batch that was sent as the first in flight: all before it were
    answered or given up, so nothing will fill it. For another the gap is what is still under way.
    """
    if error in RETRIABLE:
        return Reaction.AGAIN
    if error in _GAPS:
        return Reaction.BUMP if first else Reaction.AGAIN
    return Reaction.FAIL


def is_refusal(error: ErrorCode) -> bool:
    """An error says that the batch is not in the log.

    A leader that lost its office while the batch waited does not know.
    """
    return error in _GAPS


def may_bump(in_flight: tuple[InFlight, ...]) -> bool:
    """The epoch changes when no answer is waited for: one may say that its batch is in the log."""
    return all(batch.standing is not Standing.WAITS for batch in in_flight)


def may_renumber(batch: InFlight) -> bool:
    """A batch goes over into the new epoch if it is not in the log, and cannot come there."""
    return batch.standing is Standing.REFUSED and not batch.loose


StateAfterTruncation: TypeAlias = Callable[[Entries, Snapshot, Written, Remember, int], Entries]


@attrs.frozen
class Rules:
    """All rules of idempotence; the defaults are the right ones."""

    next_sequence: Callable[[Sequence, Sequence], Sequence] = next_sequence
    epoch_is_current: Callable[[Entry, Request], bool] = epoch_is_current
    is_duplicate: Callable[[Entry, Request], bool] = is_duplicate
    may_start: Callable[[Request], bool] = may_start
    is_next: Callable[[Entry, Request, Sequence], bool] = is_next
    remember: Remember = remember
    duplicate_offset: Callable[[Entry, Request, Offset], Offset] = duplicate_offset
    was_appended_before: Callable[[Entry, Request, Sequence], bool] = was_appended_before
    may_answer: Callable[[Offset, Offset], bool] = may_answer
    keeps_snapshot: Callable[[Snapshot, Offset], bool] = keeps_snapshot
    state_after_truncation: StateAfterTruncation = state_after_truncation
    state_after_restart: Callable[[Snapshot, Written, Remember, int], Entries] = state_after_restart
    may_expire: Callable[[Entry, int, int], bool] = may_expire
    may_send: Callable[[tuple[InFlight, ...], int, Sequence, ClientConfig], bool] = may_send
    retry_sequence: Callable[[InFlight, Sequence], Sequence] = retry_sequence
    reaction: Callable[[ErrorCode, bool], Reaction] = reaction
    is_refusal: Callable[[ErrorCode], bool] = is_refusal
    may_bump: Callable[[tuple[InFlight, ...]], bool] = may_bump
    may_renumber: Callable[[InFlight], bool] = may_renumber
