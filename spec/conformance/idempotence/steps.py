"""The steps of the explored world: each is an action of `Idempotence.tla`, under its name.

Whether a step can be taken is for the machines to say: an event that changes nothing is no step.
Written out here is only what is the environment's: the budgets, the log's commit and cuts, and what
becomes of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence import Rules, Snapshot
from protocol.idempotence.client_events import (
    AnswerReceived,
    BatchReady,
    Delivered,
    DeliveryExpired,
    EpochGranted,
    RequestLost,
    SendBatch,
)
from protocol.idempotence.client_state import Standing
from protocol.idempotence.effects import AlreadyAppended, DropSnapshot, Refuse
from protocol.idempotence.events import (
    BatchArrived,
    HighWatermarkAdvanced,
    LeadershipBegun,
    ProducerIdle,
    RequestAbandoned,
)
from protocol.idempotence.fold import NO_SNAPSHOT, thin
from protocol.idempotence.state import UNKNOWN_OFFSET
from protocol.machine import Effects
from protocol.types import Correlation
from spec.conformance.idempotence.constants import Constants
from spec.conformance.idempotence.machines import (
    FOREVER_MS,
    NOW_MS,
    ClientReaction,
    LeaderReaction,
    Machines,
)
from spec.conformance.idempotence.world import (
    Answer,
    Client,
    Known,
    Leader,
    Message,
    Request,
    Sender,
    Used,
    World,
    number_of,
    sender,
)
from spec.conformance.system import Label

Successors: TypeAlias = Iterator[tuple[Label, World]]
Messages: TypeAlias = frozenset[Message]

RESULTS = {
    ErrorCode.NONE: "ok",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "duplicate",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "notLeader",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "outOfOrder",
    ErrorCode.UNKNOWN_PRODUCER_ID: "unknownProducer",
    ErrorCode.INVALID_PRODUCER_EPOCH: "fenced",
}
ERRORS = {result: error for error, result in RESULTS.items()}
_REFUSALS = {
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "OlderDuplicate",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "RejectOutOfOrder",
    ErrorCode.UNKNOWN_PRODUCER_ID: "RejectUnknown",
    ErrorCode.INVALID_PRODUCER_EPOCH: "RejectFenced",
}


class Steps:
    """All steps of a world with these constants and rules."""

    def __init__(self, constants: Constants, rules: Rules) -> None:
        self.constants = constants
        self.machines = Machines(constants, rules)
        self.rules = rules
        self._numbers = range(1, len(constants.producers) + 1)

    def successors(self, world: World) -> Successors:
        """Yield every step that can be taken: its label, and the state it leads to."""
        yield from self._commit(world)
        yield from self._leader_change(world)
        yield from self._take_snapshot(world)
        yield from self._restart(world)
        for number in self._numbers:
            yield from self._send(world, number)
            yield from self._retry(world, number)
            yield from self._give_up(world, number)
            yield from self._answers(world, number)
            yield from self._init_epoch(world, number)
            yield from self._arrivals(world, number)
            yield from self._expire(world, number)

    def _may_fail(self, world: World, kind: str) -> bool:
        return kind in self.constants.faults and world.used.faults < self.constants.max_faults

    def _send(self, world: World, number: int) -> Successors:
        client = world.client(number)
        if client.sent >= self.constants.max_batches:
            return
        # No request lives for a whole round of sequence numbers.
        state = client.state
        following = self.rules.next_sequence(state.next_sequence, self.constants.max_sequence)
        if any(m.epoch == state.epoch and m.sequence == following for m in world.requests(number)):
            return
        reaction = self.machines.client(state, BatchReady(client.sent + 1, 1))
        if reaction.state != state:
            sent = Client(state, client.sent + 1)
            after = _reacted(world, number, sent, reaction, world.messages)
            yield ("Send", (number,)), after

    def _retry(self, world: World, number: int) -> Successors:
        client = world.client(number)
        for each in client.state.in_flight:
            batch = number_of(each.batch)
            in_time = world.is_under_way(number, batch)
            if each.standing is not Standing.WAITS:
                continue
            if in_time and not self._may_fail(world, "timeout"):
                continue
            reaction = self.machines.client(client.state, RequestLost(batch))
            for messages, delays in self._stop_waiting(world, number, batch):
                used = attrs.evolve(world.used, faults=world.used.faults + in_time, delays=delays)
                leader = self._abandoned(world.leader, number, batch)
                after = _reacted(
                    world, number, client, reaction, messages, used=used, leader=leader
                )
                yield ("Retry", (number,)), after

    def _give_up(self, world: World, number: int) -> Successors:
        client = world.client(number)
        if not client.state.in_flight or not self._may_fail(world, "giveUp"):
            return
        batch = number_of(client.state.in_flight[0].batch)
        reaction = self.machines.client(client.state, DeliveryExpired(), FOREVER_MS)
        for messages, delays in self._stop_waiting(world, number, batch):
            used = attrs.evolve(world.used, faults=world.used.faults + 1, delays=delays)
            after = _reacted(
                world,
                number,
                client,
                reaction,
                messages,
                used=used,
                leader=self._abandoned(world.leader, number, batch),
                gave_up=world.gave_up | {number},
            )
            yield ("GiveUp", (number,)), after

    def _stop_waiting(
        self, world: World, number: int, batch: int
    ) -> Iterator[tuple[Messages, int]]:
        """Mirrors `StopWaiting`: the request is lost or, within the budget, late."""
        sent = {m for m in world.requests(number) if m.batch == batch and not m.late}
        answers = {m for m in world.answers(number) if m.batch == batch}
        rest = world.messages - sent - answers
        yield rest, world.used.delays
        if sent and world.used.delays < self.constants.max_delays:
            late = {m._replace(late=True) for m in sent}
            yield rest | late, world.used.delays + 1

    def _abandoned(self, leader: Leader, number: int, batch: int) -> Leader:
        """Let the leader know that nobody hears the answer any more."""
        leader = self.machines.leader(leader, RequestAbandoned(Sender(number, batch))).leader
        gone = {each for each in leader.waiting if each[:2] == (number, batch)}
        return attrs.evolve(leader, waiting=leader.waiting - gone) if gone else leader

    def _answers(self, world: World, number: int) -> Successors:
        client = world.client(number)
        for answer in world.answers(number):
            event = AnswerReceived(answer.batch, ERRORS[answer.result], answer.offset)
            reaction = self.machines.client(client.state, event)
            if reaction == ClientReaction(client.state, ()):
                # Nobody waits for it.
                continue
            messages = world.messages - {answer}
            after = _reacted(world, number, client, reaction, messages)
            yield ("HandleAnswer", (number,)), after

    def _init_epoch(self, world: World, number: int) -> Successors:
        client = world.client(number)
        if client.state.epoch >= self.constants.max_epoch:
            return
        event = EpochGranted(number, client.state.epoch + 1)
        reaction = self.machines.client(client.state, event)
        if reaction.state != client.state:
            after = _reacted(world, number, client, reaction, world.messages)
            yield ("InitEpoch", (number,)), after

    def _arrivals(self, world: World, number: int) -> Successors:
        for request in world.requests(number):
            event = BatchArrived(
                Sender(number, request.batch, request.late),
                number,
                request.epoch,
                request.sequence,
                request.sequence,
            )
            reaction = self.machines.leader(world.leader, event)
            refused = [each for each in reaction.effects if isinstance(each, Refuse)]
            name = "AppendBatch" if reaction.appended else _repeated(reaction, event.correlation)
            name = _REFUSALS[refused[0].error] if refused else name
            yield (name, (number,)), self._arrived(world, request, reaction)

    def _arrived(self, world: World, request: Request, reaction: LeaderReaction) -> World:
        leader, messages = reaction.leader, world.messages - {request}
        if request.late:
            # Nobody hears what comes of it.
            gone = RequestAbandoned(Sender(request.producer, request.batch, late=True))
            leader = self.machines.leader(leader, gone).leader
            return attrs.evolve(world, leader=leader, messages=messages)
        answers = _answers(reaction.effects)
        if reaction.appended:
            offset = len(world.leader.log)
            if self.rules.may_answer(offset + 1, leader.state.high_watermark):
                answers = {Answer(request.producer, request.batch, "ok", offset)}
            else:
                known = Known(request.producer, request.batch, offset)
                leader = attrs.evolve(leader, waiting=leader.waiting | {known})
        return attrs.evolve(world, leader=leader, messages=messages | answers)

    def _expire(self, world: World, number: int) -> Successors:
        if not self._may_fail(world, "expiry"):
            return
        # A producer's time is over when nothing of it can come any more, and not before.
        quiet = not world.client(number).state.in_flight and not world.requests(number)
        now_ms = FOREVER_MS if quiet else NOW_MS
        leader = self.machines.leader(world.leader, ProducerIdle(number), now_ms).leader
        if leader != world.leader:
            yield (
                ("Expire", (number,)),
                attrs.evolve(
                    world,
                    leader=leader,
                    used=_one_fault(world.used),
                    forgotten=world.forgotten | {number},
                ),
            )

    def _commit(self, world: World) -> Successors:
        leader = world.leader
        if leader.state.high_watermark == len(leader.log):
            return
        high_watermark = leader.state.high_watermark + 1
        reaction = self.machines.leader(leader, HighWatermarkAdvanced(high_watermark))
        done = {
            each
            for each in leader.waiting
            if self.rules.may_answer(each.offset + 1, high_watermark)
        }
        answers = {Answer(each.producer, each.batch, "ok", each.offset) for each in done}
        after = attrs.evolve(
            world,
            leader=attrs.evolve(reaction.leader, waiting=leader.waiting - done),
            messages=world.messages | answers | _answers(reaction.effects),
        )
        yield ("Commit", ()), after

    def _leader_change(self, world: World) -> Successors:
        if not self._may_fail(world, "change"):
            return
        leader = world.leader
        hw = leader.state.high_watermark
        told = {Answer(each.producer, each.batch, "notLeader") for each in leader.waiting}
        for kept in range(hw, len(leader.log) + 1):
            event = LeadershipBegun(world.snapshot, leader.batches(kept), kept, hw)
            reaction = self.machines.leader(leader, event)
            dropped = any(isinstance(effect, DropSnapshot) for effect in reaction.effects)
            after = attrs.evolve(
                world,
                leader=Leader(reaction.leader.state, leader.log[:kept]),
                snapshot=NO_SNAPSHOT if dropped else world.snapshot,
                messages=world.messages | told | _answers(reaction.effects),
                used=_one_fault(world.used),
            )
            yield ("LeaderChange", ()), after

    def _take_snapshot(self, world: World) -> Successors:
        end_offset = len(world.leader.log)
        if world.used.snapshots >= self.constants.max_snapshots:
            return
        if world.snapshot.offset < end_offset:
            used = attrs.evolve(world.used, snapshots=world.used.snapshots + 1)
            snapshot = Snapshot(end_offset, thin(world.leader.state.entries))
            yield ("TakeSnapshot", ()), attrs.evolve(world, snapshot=snapshot, used=used)

    def _restart(self, world: World) -> Successors:
        if self._may_fail(world, "restart"):
            leader = self.machines.restarted(world)
            yield ("Restart", ()), attrs.evolve(world, leader=leader, used=_one_fault(world.used))


def _one_fault(used: Used) -> Used:
    return attrs.evolve(used, faults=used.faults + 1)


def _answers(effects: Effects) -> set[Message]:
    """Give the answers that a leader has sent."""
    answers: set[Message] = set()
    for effect in effects:
        if isinstance(effect, AlreadyAppended | Refuse):
            who = sender(effect.correlation)
            if isinstance(effect, Refuse):
                answers.add(Answer(who.producer, who.batch, RESULTS[effect.error]))
            else:
                answers.add(Answer(who.producer, who.batch, "ok", effect.base_offset))
    return answers


def _reacted(
    world: World,
    number: int,
    client: Client,
    reaction: ClientReaction,
    messages: Messages,
    **changes: Any,
) -> World:
    """Take over what a client did: its requests are on their way, its acknowledgements history."""
    acked, sent = world.acked, messages
    for effect in reaction.effects:
        if isinstance(effect, SendBatch):
            batch = number_of(effect.batch)
            sent |= {Request(number, effect.epoch, effect.first_sequence, batch)}
        elif isinstance(effect, Delivered):
            acked |= {Known(number, number_of(effect.batch), effect.base_offset)}
    clients = list(world.clients)
    clients[number - 1] = Client(reaction.state, client.sent)
    return attrs.evolve(world, clients=tuple(clients), messages=sent, acked=acked, **changes)


def _repeated(reaction: LeaderReaction, correlation: Correlation) -> str:
    """Name the step of a batch that is known, and whose sender may have to wait."""
    for each in reaction.leader.state.parked:
        if each.waiting.correlation == correlation and each.base_offset == UNKNOWN_OFFSET:
            return "OlderDuplicate"
    return "DuplicateAck"
