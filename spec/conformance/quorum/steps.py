"""All steps that the explored quorum can take, under the names of the spec's actions.

Each asks the machines: a step exists if one of them does something about the event. What is added
here are the bounds of the spec's models and what its environment may do: who can talk to whom,
which messages outlive what they were for, who is cut off or restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from protocol.machine import Event
from protocol.quorum import NOBODY, Candidate, Follower, Leader, Prospective, Rules
from protocol.quorum.effects import SendVoteAnswer
from protocol.quorum.events import (
    ElectionDue,
    EpochLearned,
    FetchTimedOut,
    LeaderAnnounced,
    QuorumLost,
    RecordsProposed,
    SnapshotFetched,
    SnapshotWanted,
    VoteAnswered,
)
from protocol.types import NodeId
from spec.conformance.quorum.consequences import Nodes, disturbed, outcomes, written
from spec.conformance.quorum.constants import Constants
from spec.conformance.quorum.messages import (
    answer_event,
    answers,
    fetch_event,
    snapshot_id,
    vote_event,
    vote_request,
)
from spec.conformance.quorum.node import (
    CONFIG,
    NOW_MS,
    Node,
    Reaction,
    following,
    handle,
    heard,
    leading,
    started,
)
from spec.conformance.quorum.world import Message, Snapshot, Used, Vote, World
from spec.conformance.system import Label

Successors: TypeAlias = Iterator[tuple[Label, World]]


class Steps:
    """All steps of a quorum with these constants and rules."""

    def __init__(self, constants: Constants, rules: Rules) -> None:
        self.constants = constants
        self.rules = rules
        # With a wrong rule, machines must not stop at what they would not stand for.
        self._lenient = rules != Rules()
        self._numbers = range(1, len(constants.nodes) + 1)
        self._voters = constants.voters
        # The machines are pure, and nodes have far fewer states than quorums.
        self._reactions: dict[tuple[Node, Event], Reaction] = {}
        self._known: dict[Node, Node] = {}
        self._checked: dict[tuple[Node, frozenset[NodeId]], Node] = {}

    def initial(self) -> World:
        """Mirrors `Init`."""
        first, voters = self.constants.first_leader, self._voters
        if first == NOBODY:
            blank = (started(each, voters, (0, NOBODY), None) for each in self._numbers)
            return World(tuple(map(self._one, blank)), disturbed=voters)
        first_nodes = (
            leading(each, voters, self.rules)
            if each == first
            else following(each, voters, first, self.rules)
            for each in self._numbers
        )
        nodes = tuple(map(self._one, first_nodes))
        return World(nodes, elected=frozenset({(1, first)}), cast=frozenset({(first, 1, first)}))

    def successors(self, world: World) -> Successors:
        """Yield every step that can be taken: its label, and the state it leads to."""
        for number in self._numbers:
            yield from self._time_out(world, number)
            yield from self._votes(world, number)
            yield from self._learn(world, number)
            yield from self._resign(world, number)
            yield from self._append(world, number)
            yield from self._fetch(world, number)
            yield from self._answers(world, number)
            yield from self._late_snapshots(world, number)
            yield from self._take_snapshot(world, number)
            yield from self._restart(world, number)
            yield from self._isolate(world, number)
            for voter in sorted(self._voters - {number}):
                yield from self._pre_vote(world, number, voter)
                yield from self._vote_request(world, voter, number)

    def react(self, node: Node, event: Event) -> Reaction:
        """Let a node handle an event; the same event in the same state gives the same."""
        key = (node, event)
        reaction = self._reactions.get(key)
        if reaction is None:
            reaction = handle(self.rules, node, event, lenient=self._lenient)
            reaction = Reaction(self._one(reaction.node), reaction.effects)
            self._reactions[key] = reaction
        return reaction

    def _outcomes(
        self, world: World, nodes: Nodes, sent: frozenset[Message], used: Used
    ) -> Iterator[World]:
        return outcomes(world, nodes, sent, used, self.constants.max_delays)

    def _one(self, node: Node) -> Node:
        """Give one object for each state of a node, so that these are compared by identity."""
        return self._known.setdefault(node, node)

    # Elections.

    def _time_out(self, world: World, number: NodeId) -> Successors:
        node = world.node(number)
        event = FetchTimedOut() if isinstance(node.state.role, Follower) else ElectionDue()
        after = self.react(node, event).node
        if after is node:
            return
        used = world.used
        if self.is_premature(world, number):
            used = attrs.evolve(used, timeouts=used.timeouts + 1)
        allowed = self._stood(world, number, after, used)
        if used.timeouts > self.constants.max_timeouts or allowed is None:
            return
        if isinstance(node.state.role, Follower):
            world = disturbed(world, self._voters, number)
        for reached in self._outcomes(world, {number: after}, world.messages, allowed):
            yield ("TimeOut", (number,)), reached

    def is_premature(self, world: World, number: NodeId) -> bool:
        """Mirrors `Premature`: the node gives up although it need not."""
        return self._hears_leader(world, number) or self._has_hope(world, number)

    def _hears_leader(self, world: World, number: NodeId) -> bool:
        state = world.node(number).state
        if not isinstance(state.role, Follower) or not world.connected(number, state.leader):
            return False
        leader = world.node(state.leader).state
        return isinstance(leader.role, Leader) and leader.epoch == state.epoch

    def _has_hope(self, world: World, number: NodeId) -> bool:
        if not isinstance(world.node(number).state.role, Candidate) or number in world.cut:
            return False
        if world.votes_for(number):
            return True
        voters = self._voters - {number}
        return any(any(self._vote_request(world, voter, number)) for voter in voters)

    def _stood(self, world: World, number: NodeId, after: Node, used: Used) -> Used | None:
        """Mirrors `MayStand` and `AfterStanding`: what standing costs; None if it may not be."""
        if not isinstance(after.state.role, Candidate | Leader):
            return used
        before = world.node(number).state.epoch
        if self.rules.epoch_after(before) > self.constants.max_epoch:
            return None
        if not self._is_contested(world, number):
            return used
        if used.contests >= self.constants.max_contests:
            return None
        return attrs.evolve(used, contests=used.contests + 1)

    def _is_contested(self, world: World, number: NodeId) -> bool:
        epoch = world.node(number).state.epoch
        others = (world.node(each).state for each in self._voters - {number} - world.cut)
        return any(
            isinstance(other.role, Candidate | Leader) and other.epoch >= epoch for other in others
        )

    def _pre_vote(self, world: World, number: NodeId, voter: NodeId) -> Successors:
        node, other = world.node(number), world.node(voter)
        if node.ballot is None or not isinstance(node.state.role, Prospective):
            return
        if not world.connected(number, voter):
            return
        reaction = self.react(other, vote_request(number, node.ballot))
        after = node
        for effect in reaction.effects:
            if isinstance(effect, SendVoteAnswer) and effect.granted:
                # What a refusal tells is learned in a step of its own.
                granted = VoteAnswered(voter, effect.epoch, NOBODY, granted=True, pre_vote=True)
                after = self.react(node, granted).node
        if reaction.node is other and after is node:
            return
        used = self._stood(world, number, after, world.used)
        if used is None:
            return
        nodes = {number: after, voter: reaction.node}
        for reached in self._outcomes(world, nodes, world.messages, used):
            yield ("PreVote", (number, voter)), reached

    def _vote_request(self, world: World, voter: NodeId, number: NodeId) -> Successors:
        node, other = world.node(number), world.node(voter)
        role = node.state.role
        if node.ballot is None or not isinstance(role, Candidate) or voter in role.votes:
            return
        if not world.connected(number, voter):
            return
        if any(vote.sender == voter for vote in world.votes_for(number)):
            return
        reaction = self.react(other, vote_request(number, node.ballot))
        votes = {
            Vote(voter, number, effect.epoch)
            for effect in reaction.effects
            if isinstance(effect, SendVoteAnswer) and effect.granted
        }
        if reaction.node is other and not votes:
            return
        messages = world.messages | votes
        for reached in self._outcomes(world, {voter: reaction.node}, messages, world.used):
            yield ("HandleVoteRequest", (voter, number)), reached

    def _votes(self, world: World, number: NodeId) -> Successors:
        if number in world.cut:
            return
        for vote in world.votes_for(number):
            after = self.react(world.node(number), vote_event(vote)).node
            messages = world.messages - {vote}
            for reached in self._outcomes(world, {number: after}, messages, world.used):
                yield ("HandleVote", (number,)), reached

    def _learn(self, world: World, number: NodeId) -> Successors:
        node = world.node(number)
        for source in self._numbers:
            if source == number or not world.connected(number, source):
                continue
            known = world.node(source).state
            event: Event = EpochLearned(source, known.epoch, known.leader)
            if known.leader == source:
                event = LeaderAnnounced(0, known.epoch, known.leader)
            after = self.react(node, event).node
            if after is node:
                continue
            name = "LearnEpoch" if known.leader == NOBODY else "LearnLeader"
            for reached in self._outcomes(world, {number: after}, world.messages, world.used):
                yield (name, (number,)), reached

    def _resign(self, world: World, number: NodeId) -> Successors:
        node = world.node(number)
        if not isinstance(node.state.role, Leader):
            return
        silent = frozenset(self._numbers) - {number} if number in world.cut else world.cut
        after = self._unheard(node, silent)
        if isinstance(after.state.role, Leader):
            return
        for reached in self._outcomes(world, {number: after}, world.messages, world.used):
            yield ("Resign", (number,)), reached

    def _unheard(self, node: Node, silent: frozenset[NodeId]) -> Node:
        """Let a leader check its quorum when these have not fetched for too long, others have."""
        role = node.state.role
        if not isinstance(role, Leader):
            return node
        found = self._checked.get((node, silent))
        if found is None:
            silent_ms = NOW_MS - CONFIG.check_quorum_ms
            followers = tuple(
                heard(each, silent_ms if each.node in silent else NOW_MS) for each in role.followers
            )
            role = attrs.evolve(role, followers=followers)
            timed = attrs.evolve(node, state=attrs.evolve(node.state, role=role))
            found = self._checked[node, silent] = self.react(timed, QuorumLost()).node
        return found

    # The log.

    def _append(self, world: World, number: NodeId) -> Successors:
        node, record = world.node(number), world.used.records + 1
        role = node.state.role
        if record > self.constants.max_records or not isinstance(role, Leader):
            return
        event = RecordsProposed(0, node.state.epoch, role.reserved_end, 1, ((0, record),))
        reaction = self.react(node, event)
        if not reaction.refused:
            used = attrs.evolve(world.used, records=record)
            after = written(world, {number: reaction.node}, used=used)
            yield ("AppendRecord", (number,)), after

    def _fetch(self, world: World, number: NodeId) -> Successors:
        fetch = world.node(number).fetch
        if fetch is None or not world.connected(number, fetch.to):
            return
        if any(answer.epoch == fetch.epoch for answer in world.answers_to(number)):
            return
        leader = world.node(fetch.to)
        reaction = self.react(leader, fetch_event(number, fetch))
        if reaction.refused:
            return
        told = list(answers(number, fetch, reaction))
        for sent in [{answer} for answer in told] or [set()]:
            if sent or reaction.node is not leader:
                messages = world.messages | sent
                after = written(world, {fetch.to: reaction.node}, messages=messages)
                yield ("LeaderHandleFetch", (number,)), after

    def _answers(self, world: World, number: NodeId) -> Successors:
        node = world.node(number)
        if number in world.cut:
            return
        for answer in world.answers_to(number):
            if isinstance(answer, Snapshot) and answer.epoch != node.state.epoch:
                continue
            after = self.react(node, answer_event(answer)).node
            messages = world.messages - {answer}
            reached = written(world, {number: after}, messages=messages)
            yield ("FollowerHandleAnswer", (number,)), reached

    def _late_snapshots(self, world: World, number: NodeId) -> Successors:
        node = world.node(number)
        if number in world.cut:
            return
        for late in world.answers_to(number):
            if not isinstance(late, Snapshot) or late.epoch >= node.state.epoch:
                continue
            fetched = SnapshotFetched(snapshot_id(late), late.entries)
            after = self.react(node, fetched).node
            # An answer that was made for another log is of no use any more.
            useless = {late} if after.entries == node.entries else world.answers_to(number)
            messages = world.messages - frozenset(useless)
            reached = written(world, {number: after}, messages=messages)
            yield ("HandleLateSnapshot", (number,)), reached

    def _take_snapshot(self, world: World, number: NodeId) -> Successors:
        node = world.node(number)
        if world.used.snapshots >= self.constants.max_snapshots:
            return
        after = self.react(node, SnapshotWanted()).node
        if after is not node:
            used = attrs.evolve(world.used, snapshots=world.used.snapshots + 1)
            yield ("TakeSnapshot", (number,)), written(world, {number: after}, used=used)

    # Faults.

    def _restart(self, world: World, number: NodeId) -> Successors:
        if world.used.restarts >= self.constants.max_restarts:
            return
        node = world.node(number)
        after = self._one(started(number, self._voters, node.disk, node))
        messages = frozenset(each for each in world.messages if each.to != number)
        used = attrs.evolve(world.used, restarts=world.used.restarts + 1)
        world = disturbed(world, self._voters, number)
        reached = written(world, {number: after}, messages=messages, used=used)
        yield ("Restart", (number,)), reached

    def _isolate(self, world: World, number: NodeId) -> Successors:
        if number in world.cut:
            yield ("Rejoin", (number,)), attrs.evolve(world, cut=world.cut - {number})
            return
        cut = world.cut | {number}
        reached = len(self._voters - cut)
        if world.used.cuts < self.constants.max_cuts and 2 * reached > len(self._voters):
            used = attrs.evolve(world.used, cuts=world.used.cuts + 1)
            world = disturbed(world, self._voters, number)
            yield ("Isolate", (number,)), attrs.evolve(world, cut=cut, used=used)
