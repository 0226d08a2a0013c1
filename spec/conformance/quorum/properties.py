"""What must hold of the quorum: the properties of `QuorumProperties.tla`, under their names.

An invariant looks at a state, an action property at a step. Liveness is in `liveness`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from protocol.quorum import NOBODY, Candidate, Leader, Prospective, Unattached
from protocol.types import Epoch, Offset
from spec.conformance.quorum.constants import Constants
from spec.conformance.quorum.node import Entry, Node
from spec.conformance.quorum.world import Answer, Vote, World

Invariant = Callable[[Constants, World], bool]
ActionProperty = Callable[[Constants, World, World], bool]


def _is_majority(constants: Constants, count: int) -> bool:
    return 2 * count > len(constants.voters)


def _is_prefix(shorter: tuple[Entry, ...], longer: tuple[Entry, ...]) -> bool:
    return longer[: len(shorter)] == shorter


def _voters(constants: Constants, world: World) -> list[Node]:
    return [world.node(number) for number in sorted(constants.voters)]


def type_ok(constants: Constants, world: World) -> bool:
    """Offsets, epochs and roles are within the bounds that the model allows."""
    longest = constants.max_records + constants.max_epoch
    return (
        all(_node_ok(constants, node, longest) for node in world.nodes)
        and _log_ok(constants, world.committed, longest)
        and all(_vote_ok(world, each) for each in world.messages if isinstance(each, Vote))
    )


def _log_ok(constants: Constants, entries: tuple[Entry, ...], longest: int) -> bool:
    return len(entries) <= longest and all(
        1 <= epoch <= constants.max_epoch and 0 <= record <= constants.max_records
        for epoch, record in entries
    )


def _node_ok(constants: Constants, node: Node, longest: int) -> bool:
    state, role = node.state, node.state.role
    observes = state.node not in constants.voters
    remote = [each.end_offset for each in role.followers] if isinstance(role, Leader) else []
    return (
        0 <= state.epoch <= constants.max_epoch
        and _log_ok(constants, node.entries, longest)
        and all(0 <= end <= longest for end in (state.high_watermark, *remote))
        and isinstance(role, Leader) == (state.leader == state.node)
        and isinstance(role, Unattached | Prospective | Candidate) == (state.leader == NOBODY)
        and not (observes and isinstance(role, Prospective | Candidate | Leader))
        and not (observes and state.voted != NOBODY)
    )


def _vote_ok(world: World, vote: Vote) -> bool:
    state = world.node(vote.to).state
    return isinstance(state.role, Candidate) and state.epoch == vote.epoch


def one_leader_per_epoch(constants: Constants, world: World) -> bool:
    """Two nodes are never elected in the same epoch."""
    epochs = [epoch for epoch, _ in world.elected]
    return len(epochs) == len(set(epochs))


def one_vote_per_epoch(constants: Constants, world: World) -> bool:
    """Nobody votes for two candidates in the same epoch, not even after a restart."""
    votes = [(voter, epoch) for voter, epoch, _ in world.cast]
    return len(votes) == len(set(votes))


def vote_is_durable(constants: Constants, world: World) -> bool:
    """What a node acts on, and has told others, is on its disk."""
    return all(node.disk == (node.state.epoch, node.state.voted) for node in world.nodes)


def minority_does_not_disrupt(constants: Constants, world: World) -> bool:
    """While fewer than a majority are disturbed, the first leader's epoch goes on."""
    if world.disturbed == constants.voters:
        return True
    first = 0 if constants.first_leader == NOBODY else 1
    return all(node.state.epoch <= first for node in world.nodes)


def log_matching(constants: Constants, world: World) -> bool:
    """The same epoch at the same offset means the same log up to there."""
    for one, other in combinations(world.nodes, 2):
        pairs = zip(one.entries, other.entries, strict=False)
        for offset, (mine, theirs) in enumerate(pairs, start=1):
            if mine[0] == theirs[0] and one.entries[:offset] != other.entries[:offset]:
                return False
    return True


def hw_in_log_range(constants: Constants, world: World) -> bool:
    """A high watermark and a snapshot are within the log."""
    return all(
        max(node.state.high_watermark, node.state.log.start_offset) <= len(node.entries)
        for node in world.nodes
    )


def hw_is_committed(constants: Constants, world: World) -> bool:
    """What is under any high watermark is committed."""
    return all(
        _is_prefix(node.entries[: node.state.high_watermark], world.committed)
        for node in world.nodes
    )


def snapshot_is_committed(constants: Constants, world: World) -> bool:
    """What is in any snapshot is committed."""
    return all(
        _is_prefix(node.entries[: node.state.log.start_offset], world.committed)
        for node in world.nodes
    )


def committed_not_lost(constants: Constants, world: World) -> bool:
    """A majority of the voters holds what was ever committed."""
    holders = [
        each for each in _voters(constants, world) if _is_prefix(world.committed, each.entries)
    ]
    return _is_majority(constants, len(holders))


def leader_completeness(constants: Constants, world: World) -> bool:
    """A leader of the newest epoch has all that was ever committed."""
    newest = max((epoch for epoch, _ in world.elected), default=0)
    return all(
        _is_prefix(world.committed, node.entries)
        for node in world.nodes
        if isinstance(node.state.role, Leader) and node.state.epoch >= newest
    )


def electable_completeness(constants: Constants, world: World) -> bool:
    """So has everyone who could be elected next."""
    voters = _voters(constants, world)
    return all(
        _is_prefix(world.committed, node.entries)
        for node in voters
        if _is_majority(constants, sum(_end(node) >= _end(voter) for voter in voters))
    )


def _end(node: Node) -> tuple[Epoch, Offset]:
    return (node.entries[-1][0] if node.entries else 0), len(node.entries)


def committed_append_only(constants: Constants, before: World, after: World) -> bool:
    """What is committed only grows."""
    return _is_prefix(before.committed, after.committed)


def epoch_monotonic(constants: Constants, before: World, after: World) -> bool:
    """No node goes back to an earlier epoch, not even by a restart."""
    pairs = zip(before.nodes, after.nodes, strict=True)
    return all(new.state.epoch >= old.state.epoch for old, new in pairs)


def hw_monotonic(constants: Constants, before: World, after: World) -> bool:
    """A node's high watermark goes back only when it restarts, and then it knows none."""
    restarted = after.used.restarts > before.used.restarts
    return all(
        new.state.high_watermark >= old.state.high_watermark
        or (new.state.high_watermark == 0 and restarted)
        for old, new in zip(before.nodes, after.nodes, strict=True)
    )


def serves_what_it_has(constants: Constants, before: World, after: World) -> bool:
    """A leader speaks only of what it still has, not of what a snapshot has replaced."""
    return all(
        _serves(before, message)
        for message in after.messages - before.messages
        if isinstance(message, Answer)
    )


def _serves(world: World, answer: Answer) -> bool:
    follower = world.node(answer.to)
    start = world.node(follower.state.leader).state.log.start_offset
    served = len(follower.entries) if answer.end is None else answer.end.offset
    return served >= start


def refines_metadata(constants: Constants, before: World, after: World) -> bool:
    """Every step is one of `Metadata`: decisions stay, and a node forgets all of them or none."""
    return committed_append_only(constants, before, after) and all(
        new.state.high_watermark in (0, max(old.state.high_watermark, new.state.high_watermark))
        for old, new in zip(before.nodes, after.nodes, strict=True)
    )


INVARIANTS: dict[str, Invariant] = {
    "TypeOk": type_ok,
    "OneLeaderPerEpoch": one_leader_per_epoch,
    "OneVotePerEpoch": one_vote_per_epoch,
    "VoteIsDurable": vote_is_durable,
    "MinorityDoesNotDisrupt": minority_does_not_disrupt,
    "LogMatching": log_matching,
    "HwInLogRange": hw_in_log_range,
    "HwIsCommitted": hw_is_committed,
    "SnapshotIsCommitted": snapshot_is_committed,
    "CommittedNotLost": committed_not_lost,
    "LeaderCompleteness": leader_completeness,
    "ElectableCompleteness": electable_completeness,
}
ACTION_PROPERTIES: dict[str, ActionProperty] = {
    "CommittedAppendOnly": committed_append_only,
    "EpochMonotonic": epoch_monotonic,
    "HwMonotonic": hw_monotonic,
    "ServesWhatItHas": serves_what_it_has,
    "RefinesMetadata": refines_metadata,
}
