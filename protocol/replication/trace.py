"""Lines of a trace: what one event did, in the words of `spec/Replication.tla`.

A driver that wants its run to be checked (`hwmark validate`) gives each replica a `Tracer`, tells
it what the trace hook told, and writes the lines that come back, one JSON object each, in order.
`docs/traces.md` has the format; `protocol.controller.trace` has the controller's lines.

An event that is no step of the spec and sends nothing that others refer to has no line. One event
may be several steps: a fetch that is parked is, in the spec, answered with nothing at once, and
asked again when it is answered. Nothing here judges: a wrong step is written down as it happened.

A fetch or proposal has an id, by which the line that receives it names the line that sent it; an
answer goes by the id of what it answers. The driver chooses ids. The tracer learns a fetch's id at
the leader from its correlation, through `name`, and otherwise from the arguments of `line`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from protocol.machine import Effect, Event, Handled
from protocol.replication.effects import (
    Append,
    ProduceDone,
    Refuse,
    Reset,
    SendDivergence,
    SendEntries,
    SendFetch,
    SendProposal,
    Truncate,
)
from protocol.replication.events import (
    Appended,
    BecameFollower,
    BecameLeader,
    ConsumerFetchReceived,
    FetchAnswered,
    FetchReceived,
    FetchRefused,
    FollowerCaughtUp,
    FollowerLagged,
    IsrLearned,
    ProposalRefused,
    Truncated,
)
from protocol.replication.state import Follower, Leader, ReplicaState
from protocol.types import Correlation, NodeId

FORMAT = 1
"""The version of the format; a reader refuses lines of another one."""

Line: TypeAlias = dict[str, Any]
Step: TypeAlias = dict[str, Any]
Told: TypeAlias = Handled[ReplicaState]

_LEARNED = {
    BecameLeader: "BecomeLeader",
    BecameFollower: "BecomeFollower",
    IsrLearned: "LearnIsr",
    ProposalRefused: "RejectIsr",
}
_PROPOSED = {FollowerCaughtUp: "ExpandIsr", FollowerLagged: "ShrinkIsr"}


class Tracer:
    """Makes the lines of one incarnation of a replica, and numbers them."""

    def __init__(
        self, topic: str, partition: int, name: Callable[[Correlation], str] = str
    ) -> None:
        self._head = {"format": FORMAT, "topic": topic, "partition": partition}
        self._name = name
        self._seq = 0

    def restarted(self, state: ReplicaState) -> Line:
        """Make the first line: the broker is registered, and this is what its disk has kept."""
        return self._line(state, "Restart", [{"name": "Restart"}])

    def line(
        self, told: Told, received: str | None = None, sent: Iterable[str] = ()
    ) -> Line | None:
        """Make the line of an event, if it needs one.

        `received` is the id of the fetch or proposal that a `FetchAnswered` or `ProposalRefused`
        answers; `sent` are those of the fetches and proposals among the effects, in order.
        """
        steps = list(_steps(told, self._name))
        sent = list(sent)
        writing = _writing(told.effects)
        if not steps and not sent and writing is None:
            return None
        line = self._line(told.after, told.action.name, steps)
        if received is not None:
            line["received"] = received
        if sent:
            line["sent"] = sent
        if writing is not None:
            line["writing"] = writing
        if acked := _acked(told):
            line["acked"] = acked
        return line

    def _line(self, state: ReplicaState, action: str, steps: list[Step]) -> Line:
        line = {
            **self._head,
            "node": state.node,
            "incarnation": state.broker_epoch,
            "seq": self._seq,
            "action": action,
            "steps": steps,
        }
        if steps:
            line["state"] = projection(state)
        self._seq += 1
        return line


def messages(effects: Iterable[Effect]) -> list[SendFetch | SendProposal]:
    """List the effects that send a message with an id of its own, in order."""
    return [effect for effect in effects if isinstance(effect, SendFetch | SendProposal)]


def projection(state: ReplicaState) -> dict[str, Any]:
    """Give the part of a state that the spec has, as JSON; of a leader, also its followers'."""
    log, view, role = state.log, state.view, state.role
    followers = role.followers if isinstance(role, Leader) else ()
    return {
        "start": log.start_offset,
        "end": log.end_offset,
        "epochs": [list(run) for run in log.epochs],
        "hw": state.high_watermark,
        "view": {
            "leader": view.leader,
            "epoch": view.epoch,
            "version": view.version,
            "isr": sorted(view.isr),
            "pending": sorted(view.pending),
            "joiner": view.joiner,
        },
        "followers": {str(each.node): [each.end_offset, each.broker_epoch] for each in followers},
    }


def _steps(told: Told, name: Callable[[Correlation], str]) -> Iterator[Step]:
    event, before, after = told.event, told.before, told.after
    if isinstance(event, FetchReceived):
        yield from _fetch_steps(told, event, name)
    elif isinstance(event, Appended) and isinstance(before.role, Leader):
        write = before.role.writes[0]
        yield {
            "name": "Produce",
            "base": before.log.end_offset,
            "end": event.end_offset,
            "all": write.acks_all,
        }
    elif isinstance(event, Appended | Truncated):
        if isinstance(before.role, Follower):
            yield {"name": "FollowerHandleAnswer"}
    elif isinstance(event, FetchAnswered):
        if after is not before and _writing(told.effects) is None:
            yield {"name": "FollowerHandleAnswer"}
    elif isinstance(event, ConsumerFetchReceived):
        yield from _reads(told.effects, [event.correlation])
    elif type(event) in _LEARNED and after.view != before.view:
        yield {"name": _LEARNED[type(event)]}
    elif isinstance(event, FollowerCaughtUp | FollowerLagged) and after.view != before.view:
        yield {"name": _PROPOSED[type(event)], "follower": event.follower}
    elif isinstance(event, FetchRefused) and any(isinstance(e, Reset) for e in told.effects):
        yield {"name": "Reset"}
    yield from _parked_steps(told, event, name)


def _fetch_steps(
    told: Told, event: FetchReceived, name: Callable[[Correlation], str]
) -> Iterator[Step]:
    if any(_refuses(effect, event.correlation) for effect in told.effects):
        return
    step = {
        "name": "LeaderHandleFetch",
        "follower": event.follower,
        "request": name(event.correlation),
        "offset": event.offset,
        "epoch": event.leader_epoch,
        "incarnation": event.broker_epoch,
    }
    if _answers_at_once(told, event):
        yield step
    else:
        yield {**step, "parked": True}


def _answers_at_once(told: Told, event: FetchReceived) -> bool:
    """Whether this fetch was answered without being parked.

    An answer at once has the high watermark from before this fetch was counted. A fetch that is
    parked had that one already, so if it is answered in the same step, then with a newer one.
    """
    for effect in told.effects:
        if isinstance(effect, SendDivergence) and effect.correlation == event.correlation:
            return True
        if isinstance(effect, SendEntries) and effect.correlation == event.correlation:
            return effect.high_watermark == told.before.high_watermark
    return False


def _parked_steps(told: Told, event: Event, name: Callable[[Correlation], str]) -> Iterator[Step]:
    """List the fetches, parked before or by this very event, that are answered now."""
    followers: dict[Correlation, NodeId] = {
        each.correlation: each.follower for each in told.before.parked if each.follower is not None
    }
    if isinstance(event, FetchReceived) and not _answers_at_once(told, event):
        followers[event.correlation] = event.follower
    for effect in told.effects:
        if isinstance(effect, SendEntries) and effect.correlation in followers:
            yield {
                "name": "LeaderHandleFetch",
                "follower": followers[effect.correlation],
                "request": name(effect.correlation),
                "offset": effect.offset,
                "again": True,
            }
    yield from _reads(
        told.effects, [each.correlation for each in told.before.parked if each.follower is None]
    )


def _reads(effects: Iterable[Effect], consumers: list[Correlation]) -> Iterator[Step]:
    for effect in effects:
        if not isinstance(effect, SendEntries) or effect.correlation not in consumers:
            continue
        if effect.end_offset > effect.offset:
            yield {"name": "Consume", "end": effect.end_offset}


def _refuses(effect: Effect, correlation: Correlation) -> bool:
    return isinstance(effect, Refuse) and effect.correlation == correlation


def _writing(effects: Iterable[Effect]) -> int | None:
    """Tell where the log will end when storage has done what it was just asked for."""
    for effect in effects:
        if isinstance(effect, Append | Truncate):
            return effect.end_offset
    return None


def _acked(told: Told) -> list[int]:
    """List the base offsets of the batches of acks=all that were acknowledged."""
    role = told.before.role
    if not isinstance(role, Leader):
        return []
    waiting = {each.correlation: each for each in (*role.waiting, *role.writes) if each.acks_all}
    return [
        effect.base_offset
        for effect in told.effects
        if isinstance(effect, ProduceDone) and effect.correlation in waiting
    ]
