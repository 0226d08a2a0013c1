"""The choices that a broker makes for one replica, named as in `spec/ReplicationRules.tla`.

Each rule is a small pure function, and actions choose only through the `Rules` that they are given.
So a mutant is one of them swapped: `attrs.evolve(Rules(), truncation_offset=wrong)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from protocol.replication.log import EpochEnd, Log, epoch_end, last_epoch
from protocol.replication.state import Progress, View
from protocol.types import BrokerEpoch, Epoch, NodeId, Offset


class FetchRequest(Protocol):
    """What the rules read of a follower's fetch."""

    @property
    def leader_epoch(self) -> Epoch: ...
    @property
    def offset(self) -> Offset: ...
    @property
    def last_epoch(self) -> Epoch: ...
    @property
    def high_watermark(self) -> Offset: ...
    @property
    def broker_epoch(self) -> BrokerEpoch: ...


class FetchAnswer(Protocol):
    """What the rules read of the answer to a fetch."""

    @property
    def leader_epoch(self) -> Epoch: ...
    @property
    def offset(self) -> Offset: ...
    @property
    def last_epoch(self) -> Epoch: ...


def epoch_is_current(view: View, request: FetchRequest) -> bool:
    """KIP-320. A leader answers a fetch of its own epoch only."""
    return request.leader_epoch == view.epoch


def same_incarnation(follower: Progress, request: FetchRequest) -> bool:
    """KIP-903. A late fetch of an earlier incarnation says nothing about the present one."""
    return request.broker_epoch >= follower.broker_epoch


def leader_epoch_end(log: Log, request: FetchRequest) -> EpochEnd:
    """KIP-101, KIP-279. What the leader knows of the epoch that the follower's last entry has."""
    return epoch_end(log, request.last_epoch)


def diverges(end: EpochEnd, request: FetchRequest) -> bool:
    """KIP-279. The logs differ before the offset asked for."""
    return end.epoch < request.last_epoch or end.offset < request.offset


def counts_as_progress(diverging: bool) -> bool:
    """KAFKA-13141. Only a fetch that agrees with the leader's log says what the follower has."""
    return not diverging


def high_watermark_isr(view: View) -> frozenset[NodeId]:
    """KIP-497. The maximal ISR: who is in sync, or may be so by now without the leader knowing."""
    return view.isr | view.pending


def may_advance_high_watermark(view: View, min_isr: int) -> bool:
    """KIP-966. Under min ISR the high watermark stands still."""
    return len(view.isr) >= min_isr


def acknowledged_up_to(end_offset: Offset, high_watermark: Offset) -> Offset:
    """With acks=all a record is acknowledged once it is under the high watermark."""
    del end_offset
    return high_watermark


def may_append(view: View, acks_all: bool, min_isr: int) -> bool:
    """acks=all is refused under min ISR; others ask for no more than the leader's own log."""
    return not acks_all or len(view.isr) >= min_isr


def may_join_isr(follower: Progress, high_watermark: Offset, epoch_start: Offset) -> bool:
    """KAFKA-7128. A follower joins at the high watermark and the start of the leader's epoch."""
    return follower.end_offset >= high_watermark and follower.end_offset >= epoch_start


def may_leave_isr(follower: Progress, end_offset: Offset) -> bool:
    """A follower that lags may be taken out of the ISR."""
    return follower.end_offset < end_offset


def kept_on_becoming_follower(log: Log, high_watermark: Offset) -> Offset:
    """KIP-101. A replica that starts to follow keeps all: only the leader can tell what differs."""
    del high_watermark
    return log.end_offset


def answer_is_current(view: View, log: Log, answer: FetchAnswer) -> bool:
    """KIP-320. A follower takes the answers of its current epoch only.

    And only the answer to what it asks now: a fetch may have been sent twice, which the spec does
    not have. An offset and the epoch before it identify a log.
    """
    return (
        answer.leader_epoch == view.epoch
        and answer.offset == log.end_offset
        and answer.last_epoch == last_epoch(log)
    )


def truncation_offset(log: Log, high_watermark: Offset, end: EpochEnd) -> Offset:
    """KIP-279. Both sides step down to the largest epoch that both know, and to its earlier end."""
    del high_watermark
    return min(end.offset, epoch_end(log, end.epoch).offset)


def follower_high_watermark(
    high_watermark: Offset, leader_high_watermark: Offset, end_offset: Offset
) -> Offset:
    """A follower takes over the leader's as far as its log goes, and never goes back."""
    return max(high_watermark, min(leader_high_watermark, end_offset))


def read_limit(log: Log, high_watermark: Offset) -> Offset:
    """KIP-392. Consumers read up to the high watermark of the replica they ask."""
    del log
    return high_watermark


@attrs.frozen
class Rules:
    """All rules of a replica; the defaults are the right ones."""

    epoch_is_current: Callable[[View, FetchRequest], bool] = epoch_is_current
    same_incarnation: Callable[[Progress, FetchRequest], bool] = same_incarnation
    leader_epoch_end: Callable[[Log, FetchRequest], EpochEnd] = leader_epoch_end
    diverges: Callable[[EpochEnd, FetchRequest], bool] = diverges
    counts_as_progress: Callable[[bool], bool] = counts_as_progress
    high_watermark_isr: Callable[[View], frozenset[NodeId]] = high_watermark_isr
    may_advance_high_watermark: Callable[[View, int], bool] = may_advance_high_watermark
    acknowledged_up_to: Callable[[Offset, Offset], Offset] = acknowledged_up_to
    may_append: Callable[[View, bool, int], bool] = may_append
    may_join_isr: Callable[[Progress, Offset, Offset], bool] = may_join_isr
    may_leave_isr: Callable[[Progress, Offset], bool] = may_leave_isr
    kept_on_becoming_follower: Callable[[Log, Offset], Offset] = kept_on_becoming_follower
    answer_is_current: Callable[[View, Log, FetchAnswer], bool] = answer_is_current
    truncation_offset: Callable[[Log, Offset, EpochEnd], Offset] = truncation_offset
    follower_high_watermark: Callable[[Offset, Offset, Offset], Offset] = follower_high_watermark
    read_limit: Callable[[Log, Offset], Offset] = read_limit
