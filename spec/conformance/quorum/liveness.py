"""What must happen in the end in a quorum, and which of its steps do not wait for ever."""

from __future__ import annotations

from collections.abc import Callable

from protocol.quorum import Leader
from protocol.types import NodeId
from spec.conformance.quorum.steps import Steps
from spec.conformance.quorum.world import World
from spec.conformance.system import Label

# The actions that `Fairness` of Quorum.tla names; TimeOut only of who has nothing to wait for.
_FAIR = frozenset(
    {
        "TimeOut",
        "HandleVote",
        "LearnLeader",
        "LearnEpoch",
        "Resign",
        "LeaderHandleFetch",
        "FollowerHandleAnswer",
        "HandleLateSnapshot",
        "PreVote",
        "HandleVoteRequest",
    }
)


def _together(world: World) -> list[NodeId]:
    return [number for number in range(1, len(world.nodes) + 1) if number not in world.cut]


def _leads(world: World, number: NodeId) -> bool:
    leader = world.node(number).state
    return isinstance(leader.role, Leader) and all(
        (state.leader, state.epoch) == (number, leader.epoch)
        for state in (world.node(each).state for each in _together(world))
    )


def leader_emerges(world: World) -> bool:
    """Whoever is not cut off follows one leader."""
    return any(_leads(world, number) for number in _together(world))


def commits_in_the_end(world: World) -> bool:
    """All that this leader has is committed, and known to be so."""
    for number in _together(world):
        if _leads(world, number):
            entries = world.node(number).entries
            for each in map(world.node, _together(world)):
                if each.entries != entries or each.state.high_watermark != len(entries):
                    return False
    return True


def cut_off_leader_resigns(world: World) -> bool:
    """Who is cut off does not go on to lead."""
    return not any(isinstance(world.node(each).state.role, Leader) for each in world.cut)


LIVENESS: dict[str, Callable[[World], bool]] = {
    "LeaderEmerges": leader_emerges,
    "CommitsInTheEnd": commits_in_the_end,
    "CutOffLeaderResigns": cut_off_leader_resigns,
}


def is_fair(steps: Steps, label: Label, world: World) -> bool:
    """Whether a step is one that `Fairness` gives its turn."""
    if label[0] == "TimeOut" and steps.is_premature(world, label[1][0]):
        return False
    return label[0] in _FAIR
