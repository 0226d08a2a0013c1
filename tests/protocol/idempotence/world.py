"""Clients, a leader and its log, and a bad network between them: real constants, whole batches.

Unlike the explored world of `spec/conformance/idempotence`, batches have many records, five are in
flight, sequences go round at 2**31 - 1, and a write takes its time or is refused. What must hold of
it is in `promises`, what may happen to it in `steps`.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence import (
    ClientConfig,
    LogBatch,
    ProducerClient,
    Rules,
    Sequences,
    SequencesConfig,
    Snapshot,
)
from protocol.idempotence.client_events import (
    AnswerReceived,
    AskForEpoch,
    BatchReady,
    Delivered,
    EpochGranted,
    Failed,
    NotYet,
    RequestLost,
    SendBatch,
)
from protocol.idempotence.client_state import Standing
from protocol.idempotence.effects import Accept, AlreadyAppended, DropSnapshot, Refuse
from protocol.idempotence.events import (
    AppendsRefused,
    BatchAppended,
    BatchArrived,
    BatchRefused,
    HighWatermarkAdvanced,
    LeadershipBegun,
    ProducerIdle,
    RequestAbandoned,
)
from protocol.idempotence.fold import NO_SNAPSHOT, thin
from protocol.idempotence.state import UNKNOWN_OFFSET
from protocol.machine import Effects, Event

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FEW = 2**28
"""Of all sequence numbers an eighth."""
LIFE = 10
"""A request that its client has left behind arrives at most so many batches late."""


class BrokenError(AssertionError):
    """Something that was promised does not hold."""


@attrs.frozen
class Request:
    """A batch on its way; `token` is its own, so that an answer finds back to this very request."""

    token: int
    producer: int
    name: int
    send: SendBatch


@attrs.frozen
class Written:
    """A batch in the log."""

    name: int
    batch: LogBatch
    end_offset: int


@attrs.define
class Sender:
    """A client, and what became of its batches."""

    machine: ProducerClient
    offered: int = 0
    live: dict[int, int] = attrs.Factory(dict)
    """By batch, the token of the request whose answer is waited for."""
    delivered: dict[int, int] = attrs.Factory(dict)
    failed: dict[int, bool] = attrs.Factory(dict)
    """By batch, whether it may be in the log all the same."""
    unheard: int = 0
    """How many records were sent since a batch was delivered."""


class World:
    """All of it. Methods are steps; one that cannot be taken now does nothing."""

    def __init__(self, producers: int = 2, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.now_ms = 1_000
        self.senders = {
            number: Sender(
                ProducerClient.started(number, rules=rules, config=ClientConfig(retry_backoff_ms=0))
            )
            for number in range(1, producers + 1)
        }
        self.leader = Sequences.restarted(config=SequencesConfig(), rules=rules)
        self.log: list[Written] = []
        self.high_watermark = 0
        self.snapshot: Snapshot = NO_SNAPSHOT
        self.requests: list[Request] = []
        self.answers: list[tuple[Request, ErrorCode, int]] = []
        self.writing: list[Request] = []
        self.waiting: list[tuple[Request, int, int]] = []
        self.forgotten: set[int] = set()
        self.rounds: set[tuple[int, int]] = set()
        self.tokens = 0
        self.known: dict[object, Request] = {}

    @property
    def end_offset(self) -> int:
        """Where the log ends."""
        return self.log[-1].end_offset if self.log else 0

    @property
    def is_busy(self) -> bool:
        """Whether anything that was sent may still come."""
        in_flight = any(sender.machine.state.in_flight for sender in self.senders.values())
        return in_flight or bool(self.requests or self.writing)

    # The clients.

    def send(self, producer: int, records: int) -> None:
        """Offer a client its next batch."""
        sender = self.senders[producer]
        if sender.unheard > FEW:
            # Whoever gives up half of a round in one epoch looks as if it came from behind.
            records = 1
        event = BatchReady(sender.offered + 1, records)
        if not sender.machine.may_send:
            before = sender.machine.state
            assert sender.machine.handle(event, self.now_ms) == (NotYet(event.batch),)
            assert sender.machine.state is before
            return
        sender.offered += 1
        sender.unheard += records
        self.now_ms += 1
        # What is so old does not arrive any more.
        self.requests = [
            each
            for each in self.requests
            if each.producer != producer or each.name > sender.offered - LIFE
        ]
        self.tell(producer, event)

    def near_round(self, producer: int, left: int) -> None:
        """Come to rest a few sequence numbers before the last one, once in an epoch.

        By then the first ones of this round are neither remembered nor under way.
        """
        self.heal()
        state = self.senders[producer].machine.state
        following, once = state.next_sequence, (producer, state.epoch)
        if 5 <= following < 2**30 and once not in self.rounds:
            self.send(producer, 2**31 - 5 - left - following)
            self.heal()
            for _ in range(5):
                self.send(producer, 1)
                self.heal()
            # If the leader had forgotten the producer, all this was in a new epoch.
            self.rounds |= {once, (producer, self.senders[producer].machine.state.epoch)}

    def tell(self, producer: int, event: Event) -> None:
        """Let a client handle an event, and do what it wants done."""
        machine = self.senders[producer].machine
        self._done(producer, machine.handle(event, self.now_ms))
        self.tick()

    def tick(self) -> None:
        """Let every client do what is due by now."""
        for number, sender in self.senders.items():
            while due := sender.machine.due(self.now_ms):
                assert (sender.machine.next_deadline() or 0) <= self.now_ms
                for event in due:
                    self._done(number, sender.machine.handle(event, self.now_ms))

    def _done(self, producer: int, effects: Effects) -> None:
        sender = self.senders[producer]
        for effect in effects:
            if isinstance(effect, SendBatch):
                self.tokens += 1
                assert isinstance(effect.batch, int)
                self.requests.append(Request(self.tokens, producer, effect.batch, effect))
                sender.live[effect.batch] = self.tokens
            elif isinstance(effect, Delivered):
                self._delivered(producer, effect)
            elif isinstance(effect, Failed):
                assert isinstance(effect.batch, int)
                sender.failed[effect.batch] = effect.unknown
                self.leave(producer, effect.batch)
            elif isinstance(effect, AskForEpoch):
                granted = EpochGranted(effect.producer_id, effect.epoch + 1)
                self.tell(producer, granted)

    def _delivered(self, producer: int, effect: Delivered) -> None:
        assert isinstance(effect.batch, int)
        self.senders[producer].delivered[effect.batch] = effect.base_offset
        self.senders[producer].unheard = 0
        found = [
            each.batch.base_offset
            for each in self.log
            if (each.batch.producer_id, each.name) == (producer, effect.batch)
            and each.end_offset <= self.high_watermark
        ]
        told = found if effect.base_offset == UNKNOWN_OFFSET else [effect.base_offset]
        if found != told or len(found) != 1:
            raise BrokenError(f"{effect} of {producer}, which is committed at {found}")

    def leave(self, producer: int, name: int) -> None:
        """A client hears no answer to this batch's request any more."""
        token = self.senders[producer].live.pop(name, None)
        self.answers = [each for each in self.answers if each[0].token != token]
        self.waiting = [each for each in self.waiting if each[0].token != token]
        self.lead(RequestAbandoned(token))

    def time_out(self, producer: int, which: int, *, late: bool) -> None:
        """A request's time is over; it is lost or, if late, still arrives."""
        sender = self.senders[producer]
        waits = [b for b in sender.machine.state.in_flight if b.standing is Standing.WAITS]
        if not waits:
            return
        name = waits[which % len(waits)].batch
        assert isinstance(name, int)
        if not late:
            token = sender.live[name]
            self.requests = [each for each in self.requests if each.token != token]
        self.leave(producer, name)
        self.tell(producer, RequestLost(name))

    def give_up(self, producer: int) -> None:
        """The delivery time-out of the first batch in flight has passed."""
        machine = self.senders[producer].machine
        if machine.state.in_flight:
            self.now_ms = max(self.now_ms, machine.state.in_flight[0].expires_ms)
            self.tick()

    def hear(self, which: int) -> None:
        """An answer arrives."""
        if not self.answers:
            return
        request, error, offset = self.answers.pop(which % len(self.answers))
        sender = self.senders[request.producer]
        if sender.live.get(request.name) == request.token:
            del sender.live[request.name]
            self.tell(request.producer, AnswerReceived(request.name, error, offset))

    # The leader.

    def lead(self, event: Event) -> Effects:
        """Let the leader handle an event, and send what it answers."""
        effects = self.leader.handle(event, self.now_ms)
        for effect in effects:
            if isinstance(effect, AlreadyAppended):
                self.answer(effect.correlation, ErrorCode.NONE, effect.base_offset)
            elif isinstance(effect, Refuse):
                self.answer(effect.correlation, effect.error)
            elif isinstance(effect, DropSnapshot):
                assert effect.offset == self.snapshot.offset
                self.snapshot = NO_SNAPSHOT
        return effects

    def answer(self, token: object, error: ErrorCode, offset: int = -1) -> None:
        """Send an answer, if anybody hears it."""
        request = self.known[token]
        if self.senders[request.producer].live.get(request.name) == token:
            self.answers.append((request, error, offset))

    def arrive(self, which: int) -> None:
        """A request arrives at the leader."""
        if not self.requests:
            return
        request = self.requests.pop(which % len(self.requests))
        self.known[request.token] = request
        send = request.send
        event = BatchArrived(
            request.token, send.producer_id, send.epoch, send.first_sequence, send.last_sequence
        )
        if Accept(request.token) in self.lead(event):
            self.writing.append(request)

    def written(self) -> None:
        """The first write is done."""
        if not self.writing:
            return
        request = self.writing.pop(0)
        send, base = request.send, self.end_offset
        records = (send.last_sequence - send.first_sequence) % 2**31 + 1
        batch = LogBatch(
            send.producer_id,
            send.epoch,
            send.first_sequence,
            send.last_sequence,
            base,
            self.now_ms,
        )
        self.log.append(Written(request.name, batch, base + records))
        self.lead(BatchAppended(send.producer_id, base))
        self.waiting.append((request, base, base + records))

    def no_room(self) -> None:
        """Nothing of what is being written gets there."""
        refused, self.writing = self.writing, []
        self.lead(AppendsRefused())
        for request in refused:
            self.answer(request.token, ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse_last(self) -> None:
        """The replica does not take the last batch that was let through."""
        if self.writing:
            request = self.writing.pop()
            self.lead(BatchRefused(request.send.producer_id, request.token))
            self.answer(request.token, ErrorCode.NOT_ENOUGH_REPLICAS)

    def commit(self) -> None:
        """One batch more is committed."""
        after = [each.end_offset for each in self.log if each.end_offset > self.high_watermark]
        if not after:
            return
        self.high_watermark = after[0]
        self.lead(HighWatermarkAdvanced(self.high_watermark))
        done = [each for each in self.waiting if each[2] <= self.high_watermark]
        self.waiting = [each for each in self.waiting if each[2] > self.high_watermark]
        for request, base, _ in done:
            self.answer(request.token, ErrorCode.NONE, base)

    def change_leader(self, lost: int) -> None:
        """Another leads: some of what is not committed is gone, and all that was being written."""
        uncommitted = sum(each.end_offset > self.high_watermark for each in self.log)
        keep = len(self.log) - (lost % (uncommitted + 1))
        self.log = self.log[:keep]
        told = [each[0] for each in self.waiting] + self.writing
        self.waiting, self.writing = [], []
        batches = tuple(each.batch for each in self.log)
        self.lead(LeadershipBegun(self.snapshot, batches, self.end_offset, self.high_watermark))
        for request in told:
            self.answer(request.token, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def restart(self) -> None:
        """The leader crashes and comes back; what was being written is lost, as is who waited."""
        self.writing, self.waiting = [], []
        self.leader = Sequences.restarted(
            snapshot=self.snapshot,
            written=[each.batch for each in self.log],
            end_offset=self.end_offset,
            high_watermark=self.high_watermark,
            now_ms=self.now_ms,
            rules=self.rules,
        )

    def take_snapshot(self) -> None:
        """Write down of what the leader remembers the last batch of each producer."""
        if not self.writing:
            self.snapshot = Snapshot(self.end_offset, thin(self.leader.state.entries))

    def expire(self, producer: int) -> None:
        """A quiet day passes, if nothing is on its way; then who has not written is forgotten."""
        if not self.is_busy:
            self.now_ms += DAY_MS
        known = producer in self.leader.state.entries
        self.lead(ProducerIdle(producer))
        if known and producer not in self.leader.state.entries:
            self.forgotten.add(producer)

    def heal(self) -> None:
        """Let everything come to rest: nothing is lost any more."""
        for _ in range(5_000):
            if self.requests or self.writing or self.answers:
                self.arrive(0)
                self.written()
                self.hear(0)
            elif self.high_watermark < self.end_offset:
                self.commit()
            else:
                busy = [each for each, one in self.senders.items() if one.machine.state.in_flight]
                if not busy:
                    return
                self.time_out(busy[0], 0, late=False)
        raise BrokenError("no rest after five thousand rounds")
