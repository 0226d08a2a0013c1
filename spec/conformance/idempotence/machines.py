"""The machines of the explored world, with a log in memory that is written at once.

The spec's step is over when storage has answered and a batch that is to be sent again has been, so
`Machines` hands completions and what is due back until only effects for others are left.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.idempotence import (
    ClientConfig,
    ClientState,
    ProducerClient,
    Rules,
    Sequences,
    SequencesConfig,
    SequencesState,
)
from protocol.idempotence.client_events import RetryDue
from protocol.idempotence.effects import Accept
from protocol.idempotence.events import BatchAppended, BatchArrived
from protocol.machine import Effects, Event
from spec.conformance.idempotence.constants import Constants
from spec.conformance.idempotence.world import Client, Leader, World, Written, sender

NOW_MS = 0
# Late enough for every timer: in the spec, what may happen in time may happen at any time.
FOREVER_MS = 1 << 40


class LenientSequences(Sequences):
    """The same machine, but it goes on where a broker would stop.

    For worlds with a wrong rule: the explorer looks for itself what is broken.
    """

    __slots__ = ()

    def admit(self, event: Event) -> None:
        """Take what a client with a wrong rule sends."""

    def check(self, event: Event, before: SequencesState, after: SequencesState) -> None:
        """Leave the judgement to the properties that are explored."""


class LenientClient(ProducerClient):
    """The same for clients."""

    __slots__ = ()

    def check(self, event: Event, before: ClientState, after: ClientState) -> None:
        """Leave the judgement to the properties that are explored."""


class ClientReaction(NamedTuple):
    """What came of an event at a client: its state, and what it wants done."""

    state: ClientState
    effects: Effects


class LeaderReaction(NamedTuple):
    """What came of an event at the leader; `appended`: the batch that arrived is in its log."""

    leader: Leader
    effects: Effects
    appended: bool


class Machines:
    """Lets machines with these rules handle events; the same in the same state gives the same."""

    def __init__(self, constants: Constants, rules: Rules) -> None:
        lenient = rules != Rules()
        self.rules = rules
        self._client_type = LenientClient if lenient else ProducerClient
        self._leader_type = LenientSequences if lenient else Sequences
        self._client_config = ClientConfig(
            max_in_flight=constants.max_in_flight,
            retry_backoff_ms=0,
            max_sequence=constants.max_sequence,
        )
        self._leader_config = SequencesConfig(
            max_sequence=constants.max_sequence, remembered=constants.remembered
        )
        self._count = len(constants.producers)
        self._clients: dict[tuple[ClientState, Event, int], ClientReaction] = {}
        self._leaders: dict[tuple[Leader, Event, int], LeaderReaction] = {}

    def first(self) -> World:
        """Mirrors `Init`: every client has an id, and nothing is written yet."""
        numbers = range(1, self._count + 1)
        clients = [ProducerClient.started(each, config=self._client_config) for each in numbers]
        leader = Sequences.restarted(config=self._leader_config)
        return World(tuple(Client(each.state) for each in clients), Leader(leader.state))

    def restarted(self, world: World) -> Leader:
        """Start the leader anew, from the snapshot and its log."""
        leader = world.leader
        machine = self._leader_type.restarted(
            snapshot=world.snapshot,
            written=leader.batches(),
            end_offset=len(leader.log),
            high_watermark=leader.state.high_watermark,
            config=self._leader_config,
            rules=self.rules,
        )
        return Leader(machine.state, leader.log)

    def client(self, state: ClientState, event: Event, now_ms: int = NOW_MS) -> ClientReaction:
        """Let a client handle an event, and send again at once what it wants to."""
        key = (state, event, now_ms)
        reaction = self._clients.get(key)
        if reaction is None:
            machine = self._client_type(state, self.rules)
            effects = machine.handle(event, now_ms)
            if machine.state.resend_ms is not None:
                effects += machine.handle(RetryDue(), machine.state.resend_ms)
            reaction = self._clients[key] = ClientReaction(machine.state, effects)
        return reaction

    def leader(self, leader: Leader, event: Event, now_ms: int = NOW_MS) -> LeaderReaction:
        """Let the leader handle an event, and its log take at once what it lets through."""
        key = (leader, event, now_ms)
        reaction = self._leaders.get(key)
        if reaction is None:
            reaction = self._leaders[key] = self._led(leader, event, now_ms)
        return reaction

    def _led(self, leader: Leader, event: Event, now_ms: int) -> LeaderReaction:
        machine = self._leader_type(leader.state, self.rules)
        effects = machine.handle(event, now_ms)
        log = leader.log
        appended = isinstance(event, BatchArrived) and any(
            isinstance(effect, Accept) for effect in effects
        )
        if isinstance(event, BatchArrived) and appended:
            batch = sender(event.correlation).batch
            entry = Written(event.producer_id, event.epoch, event.first_sequence, batch)
            effects = machine.handle(BatchAppended(event.producer_id, len(log)), now_ms)
            log = (*log, entry)
        return LeaderReaction(Leader(machine.state, log, leader.waiting), effects, appended)
