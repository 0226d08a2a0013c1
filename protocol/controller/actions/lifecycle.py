"""Becoming the active controller, ceasing to be it, and learning what has become durable."""

from __future__ import annotations

import attrs
from immutables import Map

from protocol.controller.actions.table import action
from protocol.controller.effects import Refuse
from protocol.controller.elections import all_due
from protocol.controller.events import BecameActive, RecordsCommitted, Resigned
from protocol.controller.rules import ControllerRules
from protocol.controller.state import ControllerState
from protocol.errors import ErrorCode, InvariantViolation
from protocol.machine import NOTHING, Effects


@action("BecomeActive", BecameActive, mirrors=())
def become_active(
    rules: ControllerRules, state: ControllerState, event: BecameActive, now_ms: int
) -> tuple[ControllerState, Effects]:
    """Start from the image; every broker that is not fenced gets a whole session to be heard in."""
    _, refusals = resign(rules, state, Resigned(), now_ms)
    alive = (broker for broker in event.image.brokers.values() if not broker.fenced)
    active = ControllerState(
        config=state.config,
        active=True,
        image=event.image,
        next_offset=event.next_offset,
        committed_offset=event.next_offset,
        heard_ms=Map((broker.node, now_ms) for broker in alive),
        elections=all_due(rules, event.image),
    )
    return active, refusals


@action("Resign", Resigned, mirrors=())
def resign(
    rules: ControllerRules,  # noqa: ARG001 - every action is given the same
    state: ControllerState,
    event: Resigned,  # noqa: ARG001
    now_ms: int,  # noqa: ARG001
) -> tuple[ControllerState, Effects]:
    """Refuse all who wait: what they asked for may yet be committed, by another, or never."""
    if not state.active:
        return state, NOTHING
    refusals = tuple(
        Refuse(
            pending.reply.correlation,
            ErrorCode.NOT_CONTROLLER,
            "this controller has resigned before the change was durable; it may last or not",
        )
        for pending in state.pending
    )
    return ControllerState(config=state.config), refusals


@action("LearnCommitted", RecordsCommitted, mirrors=())
def learn_committed(
    rules: ControllerRules,  # noqa: ARG001
    state: ControllerState,
    event: RecordsCommitted,
    now_ms: int,  # noqa: ARG001
) -> tuple[ControllerState, Effects]:
    """Send the replies that waited for this."""
    if not state.active or event.end_offset <= state.committed_offset:
        return state, NOTHING
    if event.end_offset > state.next_offset:
        raise InvariantViolation(
            "CommittedWasAppended", event, f"only {state.next_offset} records were appended"
        )
    ready = sum(pending.offset <= event.end_offset for pending in state.pending)
    replies = tuple(pending.reply for pending in state.pending[:ready])
    state = attrs.evolve(state, committed_offset=event.end_offset, pending=state.pending[ready:])
    return state, replies
