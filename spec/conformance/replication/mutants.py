"""The wrong rules of `mutants/ReplicationMutants.tla`, in Python and under their names.

Each is swapped for the rule that its mutant's .cfg names, by `attrs.evolve`, and nothing else is
changed: the machines contain no bug and no switch for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from protocol.controller import ControllerRules
from protocol.controller.state import Partition
from protocol.replication import EpochEnd, Log, Rules
from protocol.replication.log import epoch_end, last_epoch
from protocol.replication.rules import FetchRequest
from protocol.replication.state import Progress

Nodes = frozenset[int]


def epoch_end_without_own_epoch(log: Log, request: FetchRequest) -> EpochEnd:
    """A leader without an entry of its own epoch knows nothing of newer ones."""
    if request.last_epoch > last_epoch(log):
        return EpochEnd(0, request.high_watermark)
    return epoch_end(log, request.last_epoch)


def diverges_by_offset_alone(end: EpochEnd, request: FetchRequest) -> bool:
    """A single-round look-up does not notice that the answer is about an older epoch."""
    return end.offset < request.offset


def join_at_high_watermark(follower: Progress, high_watermark: int, epoch_start: int) -> bool:
    """The high watermark may be an old one."""
    return follower.end_offset >= high_watermark


def join_at_epoch_start(follower: Progress, high_watermark: int, epoch_start: int) -> bool:
    """What was committed since the epoch began is not looked at."""
    return follower.end_offset >= epoch_start


def eligible_forever(partition: Partition, isr: Nodes, lost: Nodes, min_isr: int) -> Nodes:
    """Whoever left stays eligible."""
    return ((partition.isr | partition.elr) - isr) - lost


def eligible_though_in_sync(partition: Partition, isr: Nodes, lost: Nodes, min_isr: int) -> Nodes:
    """Members of the ISR are eligible besides the ISR."""
    return frozenset() if len(isr) >= min_isr else (partition.isr | partition.elr) - lost


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


# The names of the TLA+ operators; lambdas where the name says it all.
WRONG_RULES: Mapping[str, Callable[..., Any]] = {
    # Whether this broker leads is asked before; so, as in the spec, only a leader answers.
    "AnyEpochOfLeader": _always,
    "AnyAnswer": _always,
    "NoAnswer": _never,
    "AnyIncarnation": _always,
    "EpochEndWithoutOwnEpoch": epoch_end_without_own_epoch,
    "DivergesByOffsetAlone": diverges_by_offset_alone,
    "EveryFetchIsProgress": _always,
    "NoFetchIsProgress": _never,
    "CommittedIsrAlone": lambda view: view.isr,
    "AlwaysAdvance": _always,
    "AcknowledgeOnAppend": lambda end_offset, high_watermark: end_offset,
    "AppendUnderMinIsr": _always,
    "JoinAtHighWatermark": join_at_high_watermark,
    "JoinAtEpochStart": join_at_epoch_start,
    "NeverJoin": _never,
    "AnyoneMayLeave": _always,
    "KeepToHighWatermark": lambda log, high_watermark: high_watermark,
    "TruncateToHighWatermark": lambda log, high_watermark, end: high_watermark,
    "TruncateToLeadersAnswer": lambda log, high_watermark, end: end.offset,
    "HighWatermarkBeyondLog": lambda own, leaders, end_offset: max(own, leaders),
    "HighWatermarkOfLeader": lambda own, leaders, end_offset: min(leaders, end_offset),
    "ReadToLogEnd": lambda log, high_watermark: log.end_offset,
    "SameEpoch": lambda epoch: epoch,
    "SameVersion": lambda version: version,
    "NobodyEligible": lambda partition, isr, lost, min_isr: frozenset(),
    "EligibleForever": eligible_forever,
    "EligibleThoughInSync": eligible_though_in_sync,
    "NobodyLosesEligibility": _never,
    "FencedMayBeAdded": _always,
    "AnyBrokerEpoch": _always,
    "AnyVersion": _always,
    "AnyoneAlive": lambda partition, fenced: frozenset(partition.replicas) - fenced,
    "FencedToo": lambda partition, fenced: partition.isr or partition.elr,
    "UncleanAlthoughCandidates": lambda allowed, leader, candidates: allowed and leader == -1,
    "IsrWithoutNewLeader": lambda partition, replica: partition.isr,
}


@attrs.frozen
class RuleSet:
    """The rules that a whole cluster lives by."""

    replica: Rules = attrs.field(factory=Rules)
    controller: ControllerRules = attrs.field(factory=ControllerRules)
