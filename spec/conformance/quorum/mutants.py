"""The wrong rules of `mutants/QuorumMutants.tla`, in Python and under their names.

Each is swapped for the rule that its mutant's .cfg names, by `attrs.evolve`, and nothing else is
changed: the machine contains no bug and no switch for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from protocol.quorum import NOBODY, Rules


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


# The names of the TLA+ operators; lambdas, because the name says it all.
WRONG_RULES: Mapping[str, Callable[..., Any]] = {
    "HalfIsEnough": lambda count, voters: 2 * count >= voters,
    "StandInSameEpoch": lambda epoch: epoch,
    "AnyOtherEpoch": lambda theirs, mine: theirs != mine,
    "AnyVoteRequest": _always,
    "AnyLog": _always,
    "AnyLogWins": _always,
    "LongerLog": lambda candidate, voter: candidate[1] >= voter[1],
    "EncourageAnyone": lambda knows_leader, up_to_date: up_to_date,
    "NeverEncourage": _never,
    "VoteForEveryone": lambda voted, candidate, knows_leader, up_to_date: (
        not knows_leader and up_to_date
    ),
    "ForgetVoteOnMove": lambda voted, same_epoch: NOBODY,
    "PersistEpochAlone": lambda epoch, voted: (epoch, NOBODY),
    "PersistNothing": lambda epoch, voted: (0, NOBODY),
    "NoRecordOnElection": lambda epoch: (),
    "RecordWithoutEpoch": lambda epoch: (0,),
    "NeverResign": _never,
    "SnapshotByOffsetAlone": lambda start, request: request.offset < start.end_offset,
    "NeverSnapshot": _never,
    "NeverDiverges": _never,
    "EveryFetchIsProgress": _always,
    "ObserversCount": _always,
    "CommitByCountingAlone": _always,
    "AnyAnswer": _always,
    "NoAnswer": _never,
    "TruncateToHighWatermark": lambda log, high_watermark, end: high_watermark,
    "HighWatermarkBeyondLog": lambda own, leaders, end_offset: max(own, leaders),
    "HighWatermarkOfLeader": lambda own, leaders, end_offset: min(leaders, end_offset),
    "HighWatermarkAtLogEnd": lambda own, leaders, end_offset: end_offset,
    "SnapshotReplacesLog": _never,
    "KeepLongerLog": lambda log, snapshot: snapshot.end_offset <= log.end_offset,
    "SnapshotToLogEnd": lambda high_watermark, end_offset: end_offset,
}


@attrs.frozen
class RuleSet:
    """The rules that a whole quorum lives by."""

    quorum: Rules = attrs.field(factory=Rules)
