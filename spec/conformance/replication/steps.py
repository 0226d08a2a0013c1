"""The steps of the explored cluster: each is an action of `Replication.tla`, under its name.

Whether a step can be taken is for the machines to say: an event that a machine refuses, or that
changes nothing, is no step. Written out here is only what is the environment's: the budgets, and
what becomes of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs

from protocol.controller import ControllerRules
from protocol.errors import ErrorCode
from protocol.machine import Event
from protocol.replication import PartitionRecord, Rules, event_for
from protocol.replication.effects import ProduceDone, SendDivergence, SendEntries, SendFetch
from protocol.replication.events import (
    ACKS_ALL,
    BecameLeader,
    ConsumerFetchReceived,
    FollowerCaughtUp,
    FollowerLagged,
    IsrLearned,
    ProduceReceived,
    ProposalRefused,
)
from spec.conformance.replication.cluster import Cluster
from spec.conformance.replication.constants import Constants
from spec.conformance.replication.controller import Decided, Decisions, first_decided
from spec.conformance.replication.messages import (
    Answer,
    LateProposal,
    LateRequest,
    Message,
    answer_event,
    fetch_event,
)
from spec.conformance.replication.node import FOREVER_MS, NOW_MS, Node, Reaction, handle, started
from spec.conformance.system import Label

Successors: TypeAlias = Iterator[tuple[Label, Cluster]]


class Steps:
    """All steps of a cluster with these constants and rules."""

    def __init__(
        self, constants: Constants, rules: Rules, controller_rules: ControllerRules
    ) -> None:
        self.constants = constants
        self.rules = rules
        # With a wrong rule anywhere, machines must not stop at what they would not stand for.
        self._lenient = (rules, controller_rules) != (Rules(), ControllerRules())
        self.decisions = Decisions(controller_rules, lenient=self._lenient)
        self._numbers = range(1, len(constants.replicas) + 1)
        self._replicas = frozenset(self._numbers)
        # The machines are pure, and brokers have far fewer states than clusters.
        self._reactions: dict[tuple[Node, Event, int], Reaction] = {}
        self._known: dict[Node, Node] = {}

    def initial(self) -> Cluster:
        """Mirrors `Init`: every broker knows the first record."""
        decided = first_decided(self.constants)
        nodes = [started(number, 1, (), 0, self.constants.min_isr) for number in self._numbers]
        cluster = Cluster(tuple(nodes), decided)
        informed = tuple(self._informed(cluster, number)[1].node for number in self._numbers)
        return attrs.evolve(cluster, nodes=informed)

    def successors(self, cluster: Cluster) -> Successors:
        """Yield every step that can be taken: its label, and the state it leads to."""
        for number in self._numbers:
            yield from self._produce(cluster, number)
            yield from self._fetch(cluster, number)
            yield from self._late_fetches(cluster, number)
            yield from self._answers(cluster, number)
            yield from self._metadata(cluster, number)
            yield from self._consume(cluster, number)
            yield from self._isr_changes(cluster, number)
            yield from self._proposal(cluster, number)
            yield from self._late_proposals(cluster, number)
            yield from self._elections(cluster, number)
            yield from self._unfence(cluster, number)
            yield from self._faults(cluster, number)

    def react(self, node: Node, event: Event, now_ms: int = NOW_MS) -> Reaction:
        """Let a broker handle an event; the same event in the same state gives the same."""
        key = (node, event, now_ms)
        reaction = self._reactions.get(key)
        if reaction is None:
            reaction = handle(self.rules, node, event, now_ms, lenient=self._lenient)
            # One object for each state of a broker: then most comparisons end at its identity.
            known = self._known.setdefault(reaction.node, reaction.node)
            reaction = self._reactions[key] = Reaction(known, reaction.effects)
        return reaction

    def _produce(self, cluster: Cluster, number: int) -> Successors:
        record = cluster.used.records + 1
        if record > self.constants.max_records:
            return
        acks = 1 if record in self.constants.acks_one else ACKS_ALL
        event = ProduceReceived(record, acks, (record,), 1, 1)
        reaction = self.react(cluster.node(number), event)
        if not reaction.refused:
            used = attrs.evolve(cluster.used, records=record)
            yield ("Produce", (number,)), self._led(cluster, number, reaction, used=used)

    def _fetch(self, cluster: Cluster, number: int) -> Successors:
        request = cluster.node(number).request
        if request is None:
            return
        if any(answer.epoch == request.leader_epoch for answer in cluster.answers_to(number)):
            return
        reaction = self.react(cluster.node(request.leader), fetch_event(number, request))
        if reaction.refused:
            return
        for answer in _answers(number, request, reaction):
            messages = cluster.messages | {answer}
            after = self._led(cluster, request.leader, reaction, messages=messages)
            yield ("LeaderHandleFetch", (number,)), after

    def _late_fetches(self, cluster: Cluster, number: int) -> Successors:
        for late in cluster.messages:
            if isinstance(late, LateRequest) and late.request.leader == number:
                event = fetch_event(late.sender, late.request)
                reaction = self.react(cluster.node(number), event)
                messages = cluster.messages - {late}
                after = attrs.evolve(cluster, messages=messages)
                if not reaction.refused:
                    after = self._led(cluster, number, reaction, messages=messages)
                yield ("LeaderHandleLateFetch", (number,)), after

    def _answers(self, cluster: Cluster, number: int) -> Successors:
        for answer in cluster.answers_to(number):
            reaction = self.react(cluster.node(number), answer_event(answer))
            messages = cluster.messages - {answer}
            after = _with_node(cluster, number, reaction.node, messages=messages)
            yield ("FollowerHandleAnswer", (number,)), after

    def _informed(self, cluster: Cluster, number: int) -> tuple[Event, Reaction]:
        """Let a broker learn the newest record."""
        node, partition = cluster.node(number), cluster.decided.partition
        record = PartitionRecord(
            partition.leader,
            partition.leader_epoch,
            partition.version,
            partition.isr,
            self._replicas,
        )
        event = event_for(node.state, record)
        return event, self.react(node, event)

    def _metadata(self, cluster: Cluster, number: int) -> Successors:
        event, reaction = self._informed(cluster, number)
        if reaction.node == cluster.node(number):
            return
        leads = isinstance(event, BecameLeader | IsrLearned)
        name = "BecomeLeader" if isinstance(event, BecameLeader) else "BecomeFollower"
        name = "LearnIsr" if isinstance(event, IsrLearned) else name
        for messages, delays in self._moved_on(cluster, number, answers_survive=not leads):
            used = attrs.evolve(cluster.used, delays=delays)
            if leads:
                after = self._led(cluster, number, reaction, messages=messages, used=used)
            else:
                after = _with_node(cluster, number, reaction.node, messages=messages, used=used)
            yield (name, (number,)), after

    def _moved_on(
        self, cluster: Cluster, number: int, *, answers_survive: bool
    ) -> Iterator[tuple[frozenset[Message], int]]:
        """Mirrors `MoveOn`: what was in flight is dropped, or within the budget arrives late."""
        node, answers = cluster.node(number), frozenset(cluster.answers_to(number))
        rest = cluster.messages - answers
        yield rest, cluster.used.delays
        left: frozenset[Message] = frozenset()
        if answers:
            left = answers if answers_survive else left
        elif node.request is not None:
            left = frozenset({LateRequest(number, node.request)})
        elif node.proposal is not None:
            left = frozenset({LateProposal(number, node.proposal)})
        if left and cluster.used.delays < self.constants.max_delays:
            yield rest | left, cluster.used.delays + 1

    def _consume(self, cluster: Cluster, number: int) -> Successors:
        reaction = self.react(cluster.node(number), ConsumerFetchReceived(0, 0))
        for effect in reaction.effects:
            if isinstance(effect, SendEntries) and effect.end_offset > 0:
                yield ("Consume", (number,)), _with_node(cluster, number, reaction.node)

    def _isr_changes(self, cluster: Cluster, number: int) -> Successors:
        for follower in self._numbers:
            if follower != number:
                yield from self._expand(cluster, number, follower)
                if cluster.used.shrinks < self.constants.max_shrinks:
                    yield from self._shrink(cluster, number, follower)

    def _expand(self, cluster: Cluster, number: int, follower: int) -> Successors:
        node = cluster.node(number)
        reaction = self.react(node, FollowerCaughtUp(follower), FOREVER_MS)
        if reaction.node != node:
            yield ("ExpandIsr", (number, follower)), _with_node(cluster, number, reaction.node)

    def _shrink(self, cluster: Cluster, number: int, follower: int) -> Successors:
        node = cluster.node(number)
        reaction = self.react(node, FollowerLagged(follower), FOREVER_MS)
        if reaction.node != node:
            used = attrs.evolve(cluster.used, shrinks=cluster.used.shrinks + 1)
            after = _with_node(cluster, number, reaction.node, used=used)
            yield ("ShrinkIsr", (number, follower)), after

    def _proposal(self, cluster: Cluster, number: int) -> Successors:
        node = cluster.node(number)
        if node.proposal is None:
            return
        verdict = self.decisions.propose(cluster.decided, number, node.proposal)
        if verdict.error is ErrorCode.NONE:
            yield ("CommitIsr", (number,)), attrs.evolve(cluster, decided=verdict.decided)
        elif verdict.error is ErrorCode.INELIGIBLE_REPLICA:
            event = ProposalRefused(node.proposal.version, verdict.error)
            reaction = self.react(node, event)
            yield ("RejectIsr", (number,)), self._led(cluster, number, reaction)

    def _late_proposals(self, cluster: Cluster, number: int) -> Successors:
        for late in cluster.messages:
            if isinstance(late, LateProposal) and late.sender == number:
                verdict = self.decisions.propose(cluster.decided, number, late.proposal)
                messages = cluster.messages - {late}
                after = attrs.evolve(cluster, messages=messages, decided=verdict.decided)
                yield ("HandleLateProposal", (number,)), after

    def _elections(self, cluster: Cluster, number: int) -> Successors:
        partition = cluster.decided.partition
        leaderless = partition.leader < 0
        after = None
        if leaderless or partition.leader_epoch < self.constants.max_epoch:
            after = self.decisions.elect(cluster.decided, number)
        if after is not None:
            yield ("ElectLeader", (number,)), attrs.evolve(cluster, decided=after)
        if self.constants.unclean_election and leaderless:
            after = self.decisions.elect_uncleanly(cluster.decided, number)
            if after is not None:
                yield ("ElectUncleanLeader", (number,)), attrs.evolve(cluster, decided=after)

    def _unfence(self, cluster: Cluster, number: int) -> Successors:
        after = self.decisions.unfence(cluster.decided, number)
        if after is not None:
            yield ("UnfenceBroker", (number,)), attrs.evolve(cluster, decided=after)

    def _faults(self, cluster: Cluster, number: int) -> Successors:
        partition = cluster.decided.partition
        if cluster.used.faults >= self.constants.max_faults:
            return
        if partition.leader == number and partition.leader_epoch >= self.constants.max_epoch:
            return
        used = attrs.evolve(cluster.used, faults=cluster.used.faults + 1)
        for decided in self.decisions.fence(cluster.decided, number):
            yield ("FenceBroker", (number,)), attrs.evolve(cluster, decided=decided, used=used)
        length = len(cluster.node(number).entries)
        for after in self._restart(cluster, number, length, clean=True):
            yield ("CleanRestart", (number,)), after
        for kept in range(length + 1):
            for after in self._restart(cluster, number, kept, clean=False):
                yield ("LossyRestart", (number,)), after

    def _restart(
        self, cluster: Cluster, number: int, kept: int, *, clean: bool
    ) -> Iterator[Cluster]:
        node = cluster.node(number)
        for decided in self.decisions.register(cluster.decided, number, clean):
            fresh = self._started(node, decided, kept)
            for messages, delays in self._moved_on(cluster, number, answers_survive=False):
                used = attrs.evolve(cluster.used, faults=cluster.used.faults + 1, delays=delays)
                yield _with_node(
                    cluster, number, fresh, decided=decided, messages=messages, used=used
                )

    def _started(self, node: Node, decided: Decided, kept: int) -> Node:
        number = node.state.node
        epoch = decided.image.brokers[number].epoch
        high_watermark = min(node.state.high_watermark, kept)
        entries = node.entries[:kept]
        return started(number, epoch, entries, high_watermark, self.constants.min_isr)

    def _led(self, cluster: Cluster, number: int, reaction: Reaction, **changes: Any) -> Cluster:
        """Take over what a leader did, and write its acknowledgements into the history."""
        node, committed = reaction.node, cluster.committed
        under = node.entries[: node.state.high_watermark]
        if committed[: len(under)] != under:
            committed = under
        done = {
            effect.correlation for effect in reaction.effects if isinstance(effect, ProduceDone)
        }
        acked = cluster.acked | {record for record in done if isinstance(record, int)}
        acked -= self.constants.acks_one
        return _with_node(cluster, number, node, committed=committed, acked=acked, **changes)


def _with_node(cluster: Cluster, number: int, node: Node, **changes: Any) -> Cluster:
    nodes = cluster.nodes
    if nodes[number - 1] is not node:
        nodes = (*nodes[: number - 1], node, *nodes[number:])
    return attrs.evolve(cluster, nodes=nodes, **changes)


def _answers(to: int, request: SendFetch, reaction: Reaction) -> Iterator[Answer]:
    """Any number of the entries that follow may fit into an answer, but at least one does."""
    asked = (to, request.leader_epoch, request.offset, request.last_epoch)
    for effect in reaction.effects:
        if isinstance(effect, SendDivergence):
            yield Answer(*asked, end=effect.end)
        elif isinstance(effect, SendEntries):
            available = reaction.node.entries[effect.offset : effect.end_offset]
            for count in range(1, len(available) + 1) if available else (0,):
                entries = available[:count]
                yield Answer(*asked, high_watermark=effect.high_watermark, entries=entries)
