"""A partition's ISR and leader: proposals by leaders, elections by operators and by themselves.

A proposal is judged by the spec's three rules alone: `proposal_is_current`, `may_be_added` and
`broker_epoch_is_current`. That its sender leads, in this epoch, as this incarnation, follows from
the version being the current one, since each change of these is a new version; so they are looked
at only to explain a refusal. In front of the rules stands what no replica sends under any rules.
"""

from __future__ import annotations

from protocol.controller.actions.table import Answer, Draft, RefusedError, action, command, commit
from protocol.controller.decisions import (
    change_isr,
    elect,
    elect_uncleanly,
    finish_reassignment,
    first_of,
)
from protocol.controller.effects import ItemResult, Results
from protocol.controller.events import (
    AlterPartition,
    ElectionKind,
    ElectLeaders,
    LeaderlessDue,
    UncleanDue,
)
from protocol.controller.rules import ControllerRules
from protocol.controller.state import NOBODY, ControllerState, Image, Key, Partition
from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effects
from protocol.types import NO_LEADER, NodeId


def known_partition(image: Image, key: Key) -> Partition:
    """Return a partition's record, or refuse."""
    partition = image.partitions.get(key)
    if partition is None:
        raise RefusedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key[0]}-{key[1]}"
        )
    return partition


@command("CommitIsr", AlterPartition, mirrors=("CommitIsr", "RejectIsr", "HandleLateProposal"))
def commit_isr(
    rules: ControllerRules,
    state: ControllerState,
    event: AlterPartition,
    now_ms: int,  # noqa: ARG001 - every action is given the same
) -> Answer:
    """Set the ISR that a leader proposes; the reply is the partition's new record.

    It may have another leader than the one who asked, when this ends a reassignment.
    """
    partition = known_partition(state.image, (event.topic, event.index))
    _is_sane(partition, event)
    if not rules.proposal_is_current(partition, event.version):
        raise _not_current(state.image, partition, event)
    for node in sorted(event.isr - partition.isr):
        _is_eligible(rules, state.image, node, event)
    fenced = state.image.unavailable(partition)
    min_isr = state.image.min_isr(partition)
    changed = change_isr(rules, partition, event.isr, NOBODY, min_isr)
    changed = finish_reassignment(rules, changed, fenced, min_isr)
    draft = Draft(state.image)
    draft.change(partition, changed)
    return Answer(draft, changed)


def _is_sane(partition: Partition, event: AlterPartition) -> None:
    if not event.isr:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "an ISR is never empty")
    if strangers := event.isr.difference(partition.replicas):
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{sorted(strangers)} are no replicas")
    leaving = partition.isr - event.isr
    if event.version == partition.version and partition.leader in leaving:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "a leader does not leave its own ISR")
    # An epoch has one leader, so nobody else can have been told that it leads in it.
    if event.leader_epoch == partition.leader_epoch and event.node != partition.leader:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"in epoch {event.leader_epoch} broker {partition.leader} leads, not {event.node}",
        )


def _not_current(image: Image, partition: Partition, event: AlterPartition) -> RefusedError:
    """Find the best explanation why a proposal is not made from the newest record."""
    sender = image.brokers.get(event.node)
    if sender is None or sender.epoch != event.broker_epoch:
        return RefusedError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {event.node} has registered anew since"
        )
    if event.leader_epoch < partition.leader_epoch:
        return RefusedError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"the leader epoch is {partition.leader_epoch}, not {event.leader_epoch}",
        )
    return RefusedError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"the version is {partition.version}, not {event.version}",
    )


def _is_eligible(rules: ControllerRules, image: Image, node: NodeId, event: AlterPartition) -> None:
    registered = image.brokers.get(node)
    if not rules.may_be_added(not image.is_available(node)):
        raise RefusedError(
            ErrorCode.INELIGIBLE_REPLICA, f"broker {node} is fenced, shutting down or gone"
        )
    epoch = registered.epoch if registered else 0
    if not rules.broker_epoch_is_current(epoch, event.joiner_epoch):
        raise RefusedError(
            ErrorCode.INELIGIBLE_REPLICA,
            f"broker {node} has epoch {epoch}, but caught up with {event.joiner_epoch}",
        )


@action("ElectLeader", LeaderlessDue)
def elect_leader(
    rules: ControllerRules, state: ControllerState, event: LeaderlessDue, now_ms: int
) -> tuple[ControllerState, Effects]:
    """Elect the first candidate of a partition that has no leader."""
    partition = state.image.partitions.get((event.topic, event.index))
    if partition is None or partition.leader != NO_LEADER:
        return state, NOTHING
    draft = Draft(state.image)
    _elect_first(rules, draft, partition)
    return commit(rules, state, draft, now_ms)


@action("ElectUncleanLeader", UncleanDue)
def elect_unclean_leader(
    rules: ControllerRules, state: ControllerState, event: UncleanDue, now_ms: int
) -> tuple[ControllerState, Effects]:
    """Let the first replica that is alive lead, where the topic allows it and nobody else can."""
    partition = state.image.partitions.get((event.topic, event.index))
    if partition is None:
        return state, NOTHING
    allowed = state.image.topics[event.topic].config.unclean_election
    draft = Draft(state.image)
    _elect_anybody(rules, draft, partition, allowed)
    return commit(rules, state, draft, now_ms)


def _elect(rules: ControllerRules, draft: Draft, partition: Partition, replica: NodeId) -> None:
    min_isr = draft.image.min_isr(partition)
    elected = elect(rules, partition, replica, min_isr)
    fenced = draft.image.unavailable(partition)
    draft.change(partition, finish_reassignment(rules, elected, fenced, min_isr))


def _elect_first(rules: ControllerRules, draft: Draft, partition: Partition) -> bool:
    candidates = rules.candidates(partition, draft.image.unavailable(partition))
    replica = first_of(partition.replicas, candidates)
    if replica != NO_LEADER:
        _elect(rules, draft, partition, replica)
    return replica != NO_LEADER


def _elect_anybody(
    rules: ControllerRules, draft: Draft, partition: Partition, allowed: bool
) -> bool:
    fenced = draft.image.unavailable(partition)
    candidates = rules.candidates(partition, fenced)
    replica = first_of(partition.replicas, frozenset(partition.replicas) - fenced)
    may = rules.may_elect_uncleanly(allowed, partition.leader, candidates)
    if not may or replica == NO_LEADER:
        return False
    elected = elect_uncleanly(rules, partition, replica)
    min_isr = draft.image.min_isr(partition)
    draft.change(partition, finish_reassignment(rules, elected, fenced, min_isr))
    return True


@command("ElectLeaders", ElectLeaders, mirrors=("ElectLeader", "ElectUncleanLeader"))
def elect_leaders(
    rules: ControllerRules,
    state: ControllerState,
    event: ElectLeaders,
    now_ms: int,  # noqa: ARG001 - every action is given the same
) -> Answer:
    """Elect as an operator wants it, partition by partition; the reply is the `Results`.

    An unclean one happens only where the topic allows it, as in the spec: who wants it elsewhere
    has to switch it on first. (Kafka takes the command itself for the permission.)
    """
    limit = state.config.max_items_per_command
    if event.partitions is not None and len(event.partitions) > limit:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"more than {limit} partitions at once")
    if event.partitions is None:
        return _elect_everywhere(rules, state, event.kind)
    draft = Draft(state.image)
    results = tuple(_election(rules, draft, key, event.kind) for key in event.partitions)
    return Answer(draft, Results(results), at_once=not draft.records)


def _elect_everywhere(rules: ControllerRules, state: ControllerState, kind: ElectionKind) -> Answer:
    # Bounded by the elections, not by those that fail: the same ones would fail again next time.
    draft = Draft(state.image)
    limit = state.config.max_items_per_command
    done: list[ItemResult] = []
    failed: list[ItemResult] = []
    for key in sorted(state.image.partitions):
        if len(done) == limit:
            break
        result = _election(rules, draft, key, kind)
        if result.error == ErrorCode.NONE:
            done.append(result)
        elif result.error != ErrorCode.ELECTION_NOT_NEEDED:
            failed.append(result)
    results = Results((*done, *failed[:limit]), complete=len(done) < limit)
    return Answer(draft, results, at_once=not draft.records)


def _election(rules: ControllerRules, draft: Draft, key: Key, kind: ElectionKind) -> ItemResult:
    try:
        _elect_as_wanted(rules, draft, key, kind)
    except RefusedError as refused:
        return ItemResult(key, refused.error, refused.message)
    return ItemResult(key)


def _elect_as_wanted(rules: ControllerRules, draft: Draft, key: Key, kind: ElectionKind) -> None:
    partition = known_partition(draft.image, key)
    if kind is ElectionKind.PREFERRED:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred} leads already")
        if preferred not in rules.candidates(partition, draft.image.unavailable(partition)):
            raise RefusedError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"broker {preferred} is not alive and in sync",
            )
        _elect(rules, draft, partition, preferred)
        return
    # The rule is asked first: by the right one, only what cannot be done cleanly is left to it.
    allowed = draft.image.topics[partition.topic].config.unclean_election
    if _elect_anybody(rules, draft, partition, allowed):
        return
    if partition.leader == NO_LEADER and _elect_first(rules, draft, partition):
        return
    if partition.leader != NO_LEADER:
        raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads")
    reason = "no replica is alive" if allowed else "its topic allows no unclean election"
    raise RefusedError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"nobody can be elected cleanly, and {reason}"
    )
