"""Runs a small quorum of the machines in virtual time and records its trace, from a seed.

It is a driver like any other, made of a heap of events: messages take their time and get lost,
writes complete later, nodes stop and come back with what their disks had, and are cut off for a
while. The same seed gives the same lines. What it makes is for `tracing` to judge; it judges
nothing itself.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from protocol.errors import InvariantViolation
from protocol.machine import Effect, Event, Handled
from protocol.quorum import Leader, Quorum, QuorumConfig, QuorumState, Rules
from protocol.quorum import effects as e
from protocol.quorum import events as ev
from protocol.quorum.trace import Line, Tracer, first_line
from protocol.types import Epoch, NodeId
from spec.conformance.quorum.wires import Asked, answer, completion, request


@attrs.frozen
class Plan:
    """What a run is made of: how large, how fast, and how much goes wrong."""

    seed: int = 1
    voters: int = 3
    observers: int = 1
    lines: int = 200
    delay_ms: tuple[int, int] = (1, 30)
    write_ms: tuple[int, int] = (1, 10)
    record_every_ms: tuple[int, int] = (80, 400)
    fault_every_ms: tuple[int, int] = (100, 800)
    lost_in_a_thousand: int = 10
    rules: Rules = attrs.field(factory=Rules)


@attrs.define
class _Node:
    """A node of the run: its machine, what storage has, and what storage is doing."""

    number: NodeId
    machine: Quorum
    tracer: Tracer
    incarnation: int = 1
    entries: list[Epoch] = attrs.field(factory=list)
    disk: tuple[Epoch, NodeId] = (0, -1)
    storage_free_ms: int = 0
    waking_ms: int = -1


class Recording:
    """A run in the making: `lines` is its trace."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now_ms = 0
        self._random = random.Random(plan.seed)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._links: dict[tuple[NodeId, NodeId], int] = {}
        self._cut: set[NodeId] = set()
        self._told: list[Handled[QuorumState]] = []
        self._voters = frozenset(range(1, plan.voters + 1))
        numbers = range(1, plan.voters + plan.observers + 1)
        self.lines: list[Line] = [first_line(self._voters, set(numbers) - self._voters)]
        self._nodes: dict[NodeId, _Node] = {}
        for number in numbers:
            self._nodes[number] = node = _Node(number, self._machine(number), Tracer(number, 1))
            self.lines.append(node.tracer.started(node.machine.state))
            self._wake(node)
        self._every(plan.record_every_ms, self._propose)
        self._every(plan.fault_every_ms, self._fault)

    def run(self) -> list[Line]:
        """Let time pass until there are enough lines, or an invariant stops a machine."""
        try:
            while self._heap and len(self.lines) < self.plan.lines:
                self.now_ms, _, todo = heapq.heappop(self._heap)
                todo()
        except InvariantViolation:
            pass
        return self.lines

    def _machine(self, number: NodeId, node: _Node | None = None) -> Quorum:
        config = QuorumConfig(
            election_timeout_ms=200,
            election_jitter_ms=200,
            fetch_timeout_ms=300,
            check_quorum_ms=450,
            request_retry_ms=60,
            fetch_wait_ms=50,
            jitter_seed=self._random.randrange(1 << 30),
        )
        epoch, voted = node.disk if node else (0, -1)
        return Quorum.restarted(
            number,
            self._voters,
            epoch=epoch,
            voted=voted,
            log=node.machine.state.log if node else None,
            now_ms=self.now_ms,
            config=config,
            rules=self.plan.rules,
            trace=self._told.append,
        )

    def _draw(self, between: tuple[int, int]) -> int:
        return self._random.randint(*between)

    def _at(self, time_ms: int, todo: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (time_ms, self._count, todo))

    def _every(self, between: tuple[int, int], todo: Callable[[], None]) -> None:
        def again() -> None:
            todo()
            self._every(between, todo)

        self._at(self.now_ms + self._draw(between), again)

    def _handle(self, node: _Node, incarnation: int, event: Event) -> None:
        """Let a node handle an event, write down what that did, and begin its effects."""
        if node.incarnation != incarnation:
            return
        effects = node.machine.handle(event, self.now_ms)
        line = node.tracer.line(self._told.pop())
        if line is not None:
            self.lines.append(line)
        for effect in effects:
            self._begin(node, effect)
        self._wake(node)

    def _wake(self, node: _Node) -> None:
        """Come back when the node has something to do by itself."""
        due_ms = node.machine.next_deadline()
        if due_ms is not None and due_ms != node.waking_ms:
            node.waking_ms = due_ms
            at_ms = max(due_ms, self.now_ms)
            self._at(at_ms, partial(self._due, node, node.incarnation, due_ms))

    def _due(self, node: _Node, incarnation: int, due_ms: int) -> None:
        if node.incarnation != incarnation or node.waking_ms != due_ms:
            return
        node.waking_ms = -1
        for event in node.machine.due(self.now_ms):
            self._handle(node, incarnation, event)
        self._wake(node)

    def _begin(self, node: _Node, effect: Effect) -> None:
        if (done := completion(effect)) is not None:
            node.storage_free_ms = max(node.storage_free_ms, self.now_ms) + self._draw(
                self.plan.write_ms
            )
            write = partial(self._written, node, node.incarnation, effect, done)
            self._at(node.storage_free_ms, write)
        elif (asked := request(node.number, node.incarnation, effect)) is not None:
            to, event = asked
            self._send(node.number, to, event)
        elif (told := answer(node.number, effect, self._entries_of(node))) is not None:
            asker, event = told
            self._send(node.number, asker.sender, event, asker)
        elif isinstance(effect, e.WriteSnapshot):
            taken = ev.SnapshotTaken(effect.end_offset)
            at_ms = self.now_ms + self._draw(self.plan.write_ms)
            self._at(at_ms, partial(self._handle, node, node.incarnation, taken))

    def _entries_of(self, node: _Node) -> Callable[[int, int], tuple[Epoch, ...]]:
        """Read entries as a disk would: one at least, and then as many as happen to fit."""

        def read(offset: int, end_offset: int) -> tuple[Epoch, ...]:
            available = node.entries[offset:end_offset]
            count = self._random.randint(1, len(available)) if available else 0
            return tuple(available[:count])

        return read

    def _written(self, node: _Node, incarnation: int, effect: Effect, done: Event) -> None:
        if node.incarnation != incarnation:
            return
        match effect:
            case e.SaveVote(epoch, voted):
                node.disk = (epoch, voted)
            case e.Append(base, end, epoch, payload):
                fetched: Any = payload
                node.entries[base:] = [epoch] * (end - base) if epoch else fetched
            case e.Truncate(end):
                del node.entries[end:]
            case e.InstallSnapshot(_, False, content):
                whole: Any = content
                node.entries[:] = whole
        self._handle(node, incarnation, done)

    def _send(self, sender: NodeId, to: NodeId, event: Event, asker: Asked | None = None) -> None:
        """Put a message on its link: it may get lost, but does not overtake another."""
        cut = sender in self._cut or to in self._cut
        if cut or self._random.randrange(1000) < self.plan.lost_in_a_thousand:
            return
        earliest = self._links.get((sender, to), 0)
        arrives_ms = max(earliest, self.now_ms + self._draw(self.plan.delay_ms))
        self._links[sender, to] = arrives_ms
        node = self._nodes[to]
        # An answer comes over the connection of its question, which a restart ends.
        incarnation = asker.incarnation if asker else None

        def arrive() -> None:
            if sender not in self._cut and to not in self._cut:
                self._handle(node, incarnation or node.incarnation, event)

        self._at(arrives_ms, arrive)

    def _propose(self) -> None:
        """Let the active leader, if there is one, append a record or two; or take a snapshot."""
        for node in self._nodes.values():
            state = node.machine.state
            if self._random.randrange(12) == 0:
                self._handle(node, node.incarnation, ev.SnapshotWanted())
            elif isinstance(state.role, Leader) and state.role.active:
                base = state.role.reserved_end
                count = self._random.randint(1, 2)
                proposed = ev.RecordsProposed("client", state.epoch, base, count, None)
                self._handle(node, node.incarnation, proposed)

    def _fault(self) -> None:
        """Stop a node and start it again, or cut one off for a while."""
        node = self._random.choice(list(self._nodes.values()))
        if self._random.randrange(2):
            self._restart(node)
        elif not self._cut:
            self._cut.add(node.number)
            rejoin = partial(self._cut.discard, node.number)
            self._at(self.now_ms + self._random.randint(100, 1_200), rejoin)

    def _restart(self, node: _Node) -> None:
        node.incarnation += 1
        node.machine = self._machine(node.number, node)
        node.tracer = Tracer(node.number, node.incarnation)
        node.storage_free_ms, node.waking_ms = self.now_ms, -1
        self.lines.append(node.tracer.started(node.machine.state))
        self._wake(node)
