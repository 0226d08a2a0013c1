"""One node of the explored quorum: its machine, and a disk in memory that is written at once.

The spec's step is over when storage has answered, so `handle` carries out the writes that an event
asks for and hands the completions back, until only effects for others are left. What a node asks
for is kept as it sent it last: in the spec, requests are derived from its state.

Time stands still: after each step all times are 0. So what could be due in time is due at once, and
the explorer chooses when it happens, as the spec does.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.machine import Effect, Event
from protocol.quorum import (
    NOBODY,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Quorum,
    QuorumConfig,
    QuorumState,
    Rules,
    Unattached,
)
from protocol.quorum.effects import (
    Append,
    FetchSnapshot,
    InstallSnapshot,
    LeaderChange,
    Refuse,
    SaveVote,
    SendFetch,
    SendVoteRequest,
    Truncate,
    WriteSnapshot,
)
from protocol.quorum.events import (
    Appended,
    FetchAnswered,
    FetchDue,
    SnapshotFetched,
    SnapshotInstalled,
    SnapshotTaken,
    Truncated,
    VoteSaved,
)
from protocol.quorum.state import Progress, Role
from protocol.replication.log import Log, appended
from protocol.types import Epoch, NodeId

NOW_MS = 0
# One attempt is like the other where nothing is left to chance.
CONFIG = QuorumConfig(jitter_rounds=1, election_jitter_ms=0)
_FETCH_DUE = FetchDue()

Entry: TypeAlias = tuple[Epoch, int]
"""An entry of the spec's log: its epoch and the id of its record; 0 for an epoch's first."""
Vote: TypeAlias = tuple[Epoch, NodeId]


class LenientQuorum(Quorum):
    """The same machine, but it goes on where a node would stop.

    For quorums with a wrong rule: the explorer looks for itself what is broken.
    """

    __slots__ = ()

    def admit(self, event: Event) -> None:
        """Take what another machine with a wrong rule sends."""

    def check(self, event: Event, before: QuorumState, after: QuorumState) -> None:
        """Leave the judgement to the properties that are explored."""


@attrs.frozen(cache_hash=True)
class Node:
    """A node: its machine's state, its disk, and what it asks for.

    The entries are its whole history; those before the log's start are in a snapshot by now.
    """

    state: QuorumState
    disk: Vote
    entries: tuple[Entry, ...] = ()
    fetch: SendFetch | None = None
    ballot: SendVoteRequest | None = None


@attrs.frozen
class Reaction:
    """What came of an event: the node after it, and the effects that concern others."""

    node: Node
    effects: tuple[Effect, ...]

    @property
    def refused(self) -> bool:
        """Whether the event was a request, and was refused."""
        return any(isinstance(effect, Refuse) for effect in self.effects)


def started(number: NodeId, voters: frozenset[NodeId], disk: Vote, node: Node | None) -> Node:
    """Make a node that has just started with what is on its disk."""
    entries = node.entries if node is not None else ()
    log = node.state.log if node is not None else Log()
    machine = Quorum.restarted(number, voters, epoch=disk[0], voted=disk[1], log=log, config=CONFIG)
    return Node(at_rest(machine.state), disk, entries)


def leading(number: NodeId, voters: frozenset[NodeId], rules: Rules) -> Node:
    """Make the node that leads in the first epoch."""
    log, first = Log(), rules.records_on_election(1)
    for epoch in first:
        log = appended(log, epoch, log.end_offset + 1)
    others = tuple(Progress(voter) for voter in sorted(voters - {number}))
    leader = Leader(0, log.end_offset, others)
    state = QuorumState(number, voters, CONFIG, 1, number, number, leader, log)
    return Node(at_rest(state), (1, number), tuple((epoch, 0) for epoch in first))


def following(number: NodeId, voters: frozenset[NodeId], leader: NodeId, rules: Rules) -> Node:
    """Make a node that follows in the first epoch."""
    state = QuorumState(number, voters, CONFIG, 1, NOBODY, leader, Follower())
    # It asks at once.
    return handle(rules, Node(state, (1, NOBODY)), _FETCH_DUE).node


def handle(rules: Rules, node: Node, event: Event, *, lenient: bool = False) -> Reaction:
    """Let a node handle an event, and storage do at once what it asks for."""
    machine = (LenientQuorum if lenient else Quorum)(node.state, rules)
    disk = Disk(node.disk, node.entries)
    fetch, ballot, others = node.fetch, node.ballot, list[Effect]()
    todo = list(machine.handle(event, NOW_MS))
    while todo or (todo := _next_fetch(machine)):
        effect = todo.pop(0)
        done = disk.answer(effect)
        if done is not None:
            todo += machine.handle(done, NOW_MS)
        elif isinstance(effect, FetchSnapshot):
            payload = event.payload if isinstance(event, FetchAnswered) else None
            todo += machine.handle(SnapshotFetched(effect.snapshot, payload), NOW_MS)
        elif isinstance(effect, SendFetch):
            fetch = effect
        elif isinstance(effect, SendVoteRequest):
            ballot = attrs.evolve(effect, to=NOBODY)
        else:
            others.append(effect)
    state = at_rest(machine.state)
    after = Node(
        state,
        disk.vote,
        disk.entries,
        fetch if isinstance(state.role, Follower) else None,
        ballot if isinstance(state.role, Prospective | Candidate) else None,
    )
    return Reaction(node if after == node else after, tuple(others))


@attrs.define
class Disk:
    """A disk that does at once what it is asked for."""

    vote: Vote
    entries: tuple[Entry, ...]

    def answer(self, effect: Effect) -> Event | None:
        """Carry out a write and give its completion; None for what is no write."""
        if isinstance(effect, SaveVote):
            self.vote = (effect.epoch, effect.voted)
            return VoteSaved()
        if isinstance(effect, Append):
            self.entries = (*self.entries, *_written(effect))
            return Appended(effect.end_offset)
        if isinstance(effect, Truncate):
            self.entries = self.entries[: effect.end_offset]
            return Truncated(effect.end_offset)
        if isinstance(effect, InstallSnapshot):
            if not effect.keeps_log:
                self.entries = _entries(effect.payload)
            return SnapshotInstalled()
        if isinstance(effect, WriteSnapshot):
            return SnapshotTaken(effect.end_offset)
        return None


def _written(append: Append) -> tuple[Entry, ...]:
    """Give the entries of a write: a leader's get their epoch here, fetched ones have theirs."""
    if isinstance(append.payload, LeaderChange):
        return ((append.epoch, 0),) * (append.end_offset - append.base_offset)
    entries = _entries(append.payload)
    return tuple((append.epoch, record) for _, record in entries) if append.epoch else entries


def _entries(payload: object) -> tuple[Entry, ...]:
    if not isinstance(payload, tuple):
        raise TypeError(f"{payload!r} is nothing that this quorum replicates")
    return payload


def _next_fetch(machine: Quorum) -> list[Effect]:
    """Let a follower ask, if it has nothing else to do."""
    role = machine.state.role
    if not isinstance(role, Follower) or role.awaited or _FETCH_DUE not in machine.due(NOW_MS):
        return []
    return list(machine.handle(_FETCH_DUE, NOW_MS))


def at_rest(state: QuorumState) -> QuorumState:
    """Give the state without what only time and waiting change."""
    role = _timeless(state.role, state.voters)
    if role is state.role and not state.parked:
        return state
    return attrs.evolve(state, role=role, parked=())


def _timeless(role: Role, voters: frozenset[NodeId]) -> Role:
    if isinstance(role, Unattached):
        return Unattached()
    if isinstance(role, Follower):
        return Follower(awaited=role.awaited)
    if isinstance(role, Prospective | Candidate):
        return type(role)(role.votes)
    # An observer that has nothing yet is like one that was never heard of.
    known = [each for each in role.followers if each.end_offset or each.node in voters]
    followers = tuple(heard(each, NOW_MS) for each in sorted(known, key=lambda each: each.node))
    return Leader(role.start_offset, role.reserved_end, followers)


def heard(progress: Progress, heard_ms: int) -> Progress:
    """Give what a leader knows of a node, heard of at that time."""
    return Progress(progress.node, progress.end_offset, heard_ms)
