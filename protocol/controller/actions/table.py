"""The table of actions, and what all commands have in common: admission, records, the reply.

A command's function looks at the state and either returns an `Answer` (records to append, a value
to reply with) or raises `RefusedError`. It never touches the state itself, so a refused command
leaves the very same state behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
from immutables import Map

from protocol.controller.effects import AppendRecords, Refuse, Reply
from protocol.controller.elections import due_after
from protocol.controller.events import Command, Heartbeat
from protocol.controller.records import (
    BrokerRecord,
    PartitionRecord,
    Record,
    UnregisterBrokerRecord,
    apply,
)
from protocol.controller.rules import ControllerRules
from protocol.controller.state import ControllerState, Image, Partition, Pending
from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Actions, Effects
from protocol.types import NodeId

action = Actions[ControllerState, ControllerRules]()


class RefusedError(Exception):
    """A command cannot be done; never leaves this package."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Draft:
    """Records in the making, and the image that they lead to. Lives within one action."""

    __slots__ = ("image", "records")

    def __init__(self, image: Image) -> None:
        self.image = image
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        """Append a record; `image` is the one after it."""
        self.records.append(record)
        self.image = apply(self.image, record)

    def change(self, old: Partition, new: Partition) -> None:
        """Append a partition's new record, if it is a new one."""
        if new is not old:
            self.add(PartitionRecord(new))


@attrs.frozen
class Answer:
    """What a command leads to: records, and a reply once they are durable.

    `heard`: a broker that has thereby proved to be alive. `at_once`: the reply tells of nothing
    done, so it waits for nothing.
    """

    draft: Draft
    value: object
    heard: NodeId | None = None
    at_once: bool = False


C = TypeVar("C", bound=Command)
Body = Callable[[ControllerRules, ControllerState, C, int], Answer]


def command(
    name: str, event: type[C], *, mirrors: tuple[str, ...] = ()
) -> Callable[[Body[C]], Body[C]]:
    """Register the decorated function as the action of a command."""

    def register(body: Body[C]) -> Body[C]:
        @action(name, event, mirrors=mirrors)
        def run(
            rules: ControllerRules, state: ControllerState, event: C, now_ms: int
        ) -> tuple[ControllerState, Effects]:
            try:
                admit(state, event)
                answer = body(rules, state, event, now_ms)
            except RefusedError as refused:
                return state, (Refuse(event.correlation, refused.error, refused.message),)
            state, appends = commit(rules, state, answer.draft, now_ms)
            if answer.heard is not None and answer.heard in state.heard_ms:
                state = attrs.evolve(state, heard_ms=state.heard_ms.set(answer.heard, now_ms))
            state, replies = reply(state, event, answer)
            return state, appends + replies

        return body

    return register


def admit(state: ControllerState, event: Command) -> None:
    """Refuse what comes to the wrong controller, or to one that has more to do than it can."""
    if not state.active:
        raise RefusedError(ErrorCode.NOT_CONTROLLER, "this controller is not the active one")
    limit = state.config.max_pending_replies
    if isinstance(event, Heartbeat):
        # Refusing these because others ask too much would fence brokers that are well.
        limit += state.config.max_brokers
    if len(state.pending) >= limit:
        raise RefusedError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{len(state.pending)} replies are pending already"
        )


def commit(
    rules: ControllerRules, state: ControllerState, draft: Draft, now_ms: int
) -> tuple[ControllerState, Effects]:
    """Take a draft's records over: into the image at once, into the log by the driver."""
    if not draft.records:
        return state, NOTHING
    records = tuple(draft.records)
    base = state.next_offset
    state = attrs.evolve(
        state,
        image=draft.image,
        next_offset=base + len(records),
        heard_ms=_sessions(state.heard_ms, draft, now_ms),
        elections=due_after(rules, state.image, draft.image, state.elections, records),
        last_records=records,
    )
    return state, (AppendRecords(base, records),)


def reply(
    state: ControllerState, event: Command, answer: Answer
) -> tuple[ControllerState, Effects]:
    """Reply when all that the answer may be based on is durable, which may be now."""
    effect = Reply(event.correlation, answer.value)
    if answer.at_once or state.committed_offset >= state.next_offset:
        return state, (effect,)
    pending = (*state.pending, Pending(state.next_offset, effect))
    return attrs.evolve(state, pending=pending), NOTHING


def _sessions(heard_ms: Map[NodeId, int], draft: Draft, now_ms: int) -> Map[NodeId, int]:
    # A broker has a session exactly while it is not fenced.
    for record in draft.records:
        if isinstance(record, BrokerRecord):
            broker = record.registration
            if broker.fenced and broker.node in heard_ms:
                heard_ms = heard_ms.delete(broker.node)
            elif not broker.fenced and broker.node not in heard_ms:
                heard_ms = heard_ms.set(broker.node, now_ms)
        elif isinstance(record, UnregisterBrokerRecord) and record.node in heard_ms:
            heard_ms = heard_ms.delete(record.node)
    return heard_ms
