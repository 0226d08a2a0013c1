"""The choices that a node of the quorum makes, named as in `spec/QuorumRules.tla`.

Each rule is a small pure function, and actions choose only through the `Rules` that they are given.
So a mutant is one of them swapped: `attrs.evolve(Rules(), may_commit=wrong)`. How a follower cuts
its log, and what it takes for committed, is the same here as in replication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from protocol.quorum.log import SnapshotId, holds
from protocol.quorum.state import NOBODY
from protocol.replication.log import EpochEnd, Log, last_epoch
from protocol.replication.rules import follower_high_watermark, truncation_offset
from protocol.types import Epoch, NodeId, Offset

Vote: TypeAlias = tuple[Epoch, NodeId]
LogEnd: TypeAlias = tuple[Epoch, Offset]
"""Where a log ends: the epoch of its last entry, and its end offset."""


class FetchRequest(Protocol):
    """What the rules read of a fetch."""

    @property
    def epoch(self) -> Epoch: ...
    @property
    def offset(self) -> Offset: ...
    @property
    def last_epoch(self) -> Epoch: ...


def has_majority(count: int, voters: int) -> bool:
    """Elections and commits take more than half of the voters."""
    return 2 * count > voters


def epoch_after(epoch: Epoch) -> Epoch:
    """A candidate stands in an epoch of its own."""
    return epoch + 1


def is_newer_epoch(theirs: Epoch, mine: Epoch) -> bool:
    """A node learns of later epochs; what it hears of earlier ones is old."""
    return theirs > mine


def request_is_current(requested: Epoch, mine: Epoch) -> bool:
    """A vote is asked for in the voter's epoch or a later one."""
    return requested >= mine


def log_is_up_to_date(candidate: LogEnd, voter: LogEnd) -> bool:
    """Raft 5.4.1. A candidate's log ends in a later epoch, or in the same and is not shorter."""
    return candidate >= voter


def may_grant_pre_vote(knows_leader: bool, up_to_date: bool) -> bool:
    """KIP-996. Nobody who hears from a leader helps to replace it."""
    return not knows_leader and up_to_date


def may_grant_vote(voted: NodeId, candidate: NodeId, knows_leader: bool, up_to_date: bool) -> bool:
    """Raft 5.2. One vote in an epoch, and none once it has a leader."""
    return voted in (NOBODY, candidate) and not knows_leader and up_to_date


def voted_after_move(voted: NodeId, same_epoch: bool) -> NodeId:
    """A node that moves within its epoch does not forget for whom it has voted."""
    return voted if same_epoch else NOBODY


def persisted_vote(epoch: Epoch, voted: NodeId) -> Vote:
    """Raft 5.2. What a restart has to remember: the epoch, and the vote given in it."""
    return epoch, voted


def records_on_election(epoch: Epoch) -> tuple[Epoch, ...]:
    """Raft 8. A new leader appends a record of its epoch, so that all before can be committed."""
    return (epoch,)


def counts_as_progress(agrees: bool) -> bool:
    """KAFKA-13141. Only a fetch that agrees with the leader's log says what the follower has."""
    return agrees


def counts(node: NodeId, voters: frozenset[NodeId]) -> bool:
    """Only voters count towards a majority; observers merely read."""
    return node in voters


def may_commit(entry_epoch: Epoch, epoch: Epoch) -> bool:
    """Raft 5.4.2. By counting, a leader commits only what is of its own epoch."""
    return entry_epoch == epoch


def needs_snapshot(start: SnapshotId, request: FetchRequest) -> bool:
    """KIP-630. What the node lacks, or what would show where it differs, is in the snapshot."""
    return request.offset < start.end_offset or request.last_epoch < start.epoch


def diverges(end: EpochEnd, request: FetchRequest) -> bool:
    """KIP-279. The logs differ before the offset asked for."""
    return end.epoch < request.last_epoch or end.offset < request.offset


def answer_is_current(follows: bool, epoch: Epoch, log: Log, answer: FetchRequest) -> bool:
    """A follower acts on the answers of the epoch in which it follows.

    And only on the answer to what it asks now: a fetch may have been sent twice, which the spec
    does not have. An offset and the epoch before it identify a log.
    """
    return (
        follows
        and answer.epoch == epoch
        and answer.offset == log.end_offset
        and answer.last_epoch == last_epoch(log)
    )


def kept_after_snapshot(log: Log, snapshot: SnapshotId) -> bool:
    """KIP-630. A log that has the snapshot's last entry keeps all that follows it."""
    return holds(log, snapshot)


def snapshot_offset(high_watermark: Offset, end_offset: Offset) -> Offset:
    """A snapshot is taken of what is committed."""
    del end_offset
    return high_watermark


def must_resign(reaches_majority: bool) -> bool:
    """Check-quorum. A leader that a majority does not fetch from steps down."""
    return not reaches_majority


@attrs.frozen
class Rules:
    """All rules of a node; the defaults are the right ones."""

    has_majority: Callable[[int, int], bool] = has_majority
    epoch_after: Callable[[Epoch], Epoch] = epoch_after
    is_newer_epoch: Callable[[Epoch, Epoch], bool] = is_newer_epoch
    request_is_current: Callable[[Epoch, Epoch], bool] = request_is_current
    log_is_up_to_date: Callable[[LogEnd, LogEnd], bool] = log_is_up_to_date
    may_grant_pre_vote: Callable[[bool, bool], bool] = may_grant_pre_vote
    may_grant_vote: Callable[[NodeId, NodeId, bool, bool], bool] = may_grant_vote
    voted_after_move: Callable[[NodeId, bool], NodeId] = voted_after_move
    persisted_vote: Callable[[Epoch, NodeId], Vote] = persisted_vote
    records_on_election: Callable[[Epoch], tuple[Epoch, ...]] = records_on_election
    must_resign: Callable[[bool], bool] = must_resign
    needs_snapshot: Callable[[SnapshotId, FetchRequest], bool] = needs_snapshot
    diverges: Callable[[EpochEnd, FetchRequest], bool] = diverges
    counts_as_progress: Callable[[bool], bool] = counts_as_progress
    counts: Callable[[NodeId, frozenset[NodeId]], bool] = counts
    may_commit: Callable[[Epoch, Epoch], bool] = may_commit
    answer_is_current: Callable[[bool, Epoch, Log, FetchRequest], bool] = answer_is_current
    truncation_offset: Callable[[Log, Offset, EpochEnd], Offset] = truncation_offset
    follower_high_watermark: Callable[[Offset, Offset, Offset], Offset] = follower_high_watermark
    kept_after_snapshot: Callable[[Log, SnapshotId], bool] = kept_after_snapshot
    snapshot_offset: Callable[[Offset, Offset], Offset] = snapshot_offset
