"""Lines of a trace: what a node's state is after each event that changed it, in the spec's words.

A driver that wants its run to be checked (`hwmark validate`) gives each incarnation of a node a
`Tracer`, tells it what the trace hook told, and writes the lines that come back, one JSON object
each, in order. `docs/traces.md` has the format. Nothing here judges: a wrong step is written down
as it happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from protocol.machine import Handled
from protocol.quorum.state import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumState,
    Unattached,
)
from protocol.types import NodeId

FORMAT = 1
"""The version of the format; a reader refuses lines of another one."""

Line: TypeAlias = dict[str, Any]
_ROLES: dict[type, str] = {
    Unattached: "unattached",
    Follower: "follower",
    Prospective: "prospective",
    Candidate: "candidate",
    Leader: "leader",
}


def first_line(voters: Iterable[NodeId], observers: Iterable[NodeId]) -> Line:
    """Make the line that a trace begins with: whose it is."""
    nodes = {"voters": sorted(voters), "observers": sorted(observers)}
    return {"format": FORMAT, "spec": "Quorum", **nodes}


class Tracer:
    """Makes the lines of one incarnation of a node, and numbers them."""

    def __init__(self, node: NodeId, incarnation: int) -> None:
        self._head = {"node": node, "incarnation": incarnation}
        self._seq = 0
        self._last: Line | None = None

    def started(self, state: QuorumState) -> Line:
        """Make the first line: this is what the node's disk has kept."""
        return self._line("Restart", projection(state))

    def line(self, told: Handled[QuorumState]) -> Line | None:
        """Make the line of an event; `None` if nothing has changed that the spec knows of."""
        state = projection(told.after)
        return None if state == self._last else self._line(told.action.name, state)

    def _line(self, action: str, state: Line) -> Line:
        line = {**self._head, "seq": self._seq, "action": action, "state": state}
        self._seq += 1
        self._last = state
        return line


def projection(state: QuorumState) -> Line:
    """Give what the spec knows of a node; -1 is nobody."""
    role, log = state.role, state.log
    granted = role.votes if isinstance(role, Prospective | Candidate) else ()
    followers = role.followers if isinstance(role, Leader) else ()
    return {
        "epoch": state.epoch,
        "voted": state.voted,
        "role": _ROLES[type(role)],
        "leader": state.leader,
        "votes": sorted(granted),
        "start": log.start_offset,
        "end": log.end_offset,
        "epochs": [list(each) for each in log.epochs],
        "hw": state.high_watermark,
        "followers": {str(each.node): each.end_offset for each in followers},
    }
