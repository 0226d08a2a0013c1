"""The wrong rules of `mutants/IdempotenceMutants.tla`, in Python and under their names.

Each is swapped for the rule that its mutant's .cfg names, by `attrs.evolve`, and nothing else is
changed: the machines contain no bug and no switch for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence import ClientConfig, Entry, InFlight, Reaction, Rules, Standing
from protocol.idempotence.rules import FIRST_SEQUENCE, Request


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def round_to_one(sequence: int, max_sequence: int) -> int:
    """The first sequence number is left out after the first round."""
    return 1 if sequence == max_sequence else sequence + 1


def duplicate_of_any_epoch(entry: Entry, request: Request) -> bool:
    """The sequences alone are compared."""
    return entry.find(request.first_sequence, request.last_sequence) is not None


def next_without_round(entry: Entry, request: Request, expected: int) -> bool:
    """Nothing comes after the last sequence number."""
    del expected
    return request.first_sequence == entry.last_sequence + 1


def anything_was_before(entry: Entry, request: Request, max_sequence: int) -> bool:
    """What is not remembered is taken for older, also where it is newer."""
    del max_sequence
    if request.epoch != entry.epoch or not entry.packed:
        return False
    return entry.find(request.first_sequence, request.last_sequence) is None


def remember_one(known: int, batches: bytes, epoch: int, batch: bytes, limit: int) -> bytes:
    """KAFKA-5494. The last batch is thought to be enough."""
    del known, batches, epoch, limit
    return batch


def remember_across_epochs(
    known: int, batches: bytes, epoch: int, batch: bytes, limit: int
) -> bytes:
    """Batches of an older epoch are kept beside those of the new one."""
    del known, epoch
    return (batches + batch)[-limit * len(batch) :]


def count_in_flight(
    in_flight: tuple[InFlight, ...], number: int, following: int, config: ClientConfig
) -> bool:
    """Those that were answered before the first in flight are not counted."""
    del number
    return len(in_flight) < config.max_in_flight and (not in_flight or following != FIRST_SEQUENCE)


def pipeline_round(
    in_flight: tuple[InFlight, ...], number: int, following: int, config: ClientConfig
) -> bool:
    """The first sequence number does not wait for those before it."""
    del following
    if not in_flight:
        return True
    return (number - in_flight[0].number) % (config.max_sequence + 1) < config.max_in_flight


def bump_for_any_gap(error: ErrorCode, first: bool) -> Reaction:
    """A gap that others will fill counts as one that nothing will."""
    del first
    return Reaction.AGAIN if error is ErrorCode.NOT_LEADER_OR_FOLLOWER else Reaction.BUMP


def fail_without_leader(error: ErrorCode, first: bool) -> Reaction:
    """A batch fails when its leader has lost its office."""
    if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
        return Reaction.BUMP if first else Reaction.AGAIN
    return Reaction.FAIL


# The names of the TLA+ operators; lambdas where the name says it all. A batch of the spec is one
# record: what ends before an offset there begins before it.
WRONG_RULES: Mapping[str, Callable[..., Any]] = {
    "SequencesWithoutEnd": lambda sequence, max_sequence: sequence + 1,
    "RoundToOne": round_to_one,
    "AnyProducerEpoch": _always,
    "NothingIsDuplicate": _never,
    "DuplicateOfAnyEpoch": duplicate_of_any_epoch,
    "StartAnywhere": _always,
    "GapsAreFine": _always,
    "NextWithoutRound": next_without_round,
    "NothingWasBefore": _never,
    "AnythingWasBefore": anything_was_before,
    "RememberOne": remember_one,
    "RememberAcrossEpochs": remember_across_epochs,
    "DuplicateAtLogEnd": lambda entry, request, end_offset: end_offset,
    "AnswerOnAppend": _always,
    "AnswerAtCommitOnly": lambda end_offset, high_watermark: end_offset == high_watermark,
    "KeepsAnySnapshot": _always,
    "StateLeftBehind": lambda entries, snapshot, written, keep, limit: entries,
    "SnapshotAlone": lambda snapshot, written, keep, limit: snapshot.entries,
    "ExpireAnyTime": _always,
    "CountInFlight": count_in_flight,
    "PipelineRound": pipeline_round,
    "SequenceOfNext": lambda batch, following: following,
    "BumpForAnyGap": bump_for_any_gap,
    "FailWithoutLeader": fail_without_leader,
    "NeverBump": lambda error, first: Reaction.AGAIN,
    "AnyErrorIsRefusal": _always,
    "BumpAtOnce": _always,
    "RenumberLoose": lambda batch: batch.standing is Standing.REFUSED,
    "RenumberUnsure": lambda batch: not batch.loose,
    "RenumberNothing": _never,
}


@attrs.frozen
class RuleSet:
    """The rules that leader and clients live by."""

    idempotence: Rules = attrs.field(factory=Rules)
