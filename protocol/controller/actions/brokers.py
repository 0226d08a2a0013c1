"""Brokers come, stay, stop and fail: registration, heartbeats, sessions.

Who may register under an id that is taken? A broker whose session is alive is not pushed out by
another process that happens to be configured with its id: that one is refused until the session
ends (DUPLICATE_BROKER_REGISTRATION). But a broker that restarts faster than its session runs out
need not wait: it proves to be the same by the broker epoch on its disk. One whose disk was wiped
has no such proof, and waits.

A shutdown counts as clean only if it was that of the latest incarnation, told by the same epoch: a
disk from before that lacks what the incarnations in between have written.
"""

from __future__ import annotations

import attrs

from protocol.controller.actions.table import Answer, Draft, RefusedError, action, command, commit
from protocol.controller.decisions import depart
from protocol.controller.effects import HeartbeatAnswer, Registered
from protocol.controller.events import Heartbeat, RegisterBroker, SessionExpired
from protocol.controller.records import BrokerRecord
from protocol.controller.rules import ControllerRules
from protocol.controller.state import NOBODY, ControllerState, Nodes, Registration
from protocol.errors import ErrorCode
from protocol.machine import NOTHING, Effects
from protocol.types import NO_LEADER, BrokerEpoch, NodeId


def known_broker(state: ControllerState, node: NodeId) -> Registration:
    """Return a broker's registration, or refuse."""
    broker = state.image.brokers.get(node)
    if broker is None:
        raise RefusedError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {node}; register it first"
        )
    return broker


def session_is_alive(state: ControllerState, node: NodeId, now_ms: int) -> bool:
    """Whether a broker has been heard of lately enough."""
    heard_ms = state.heard_ms.get(node)
    return heard_ms is not None and now_ms < heard_ms + state.config.session_timeout_ms


@command("RegisterBroker", RegisterBroker, mirrors=("CleanRestart", "LossyRestart"))
def register_broker(
    rules: ControllerRules, state: ControllerState, event: RegisterBroker, now_ms: int
) -> Answer:
    """Give a new incarnation a new epoch; it is fenced at first and in no ISR."""
    draft = Draft(state.image)
    old = state.image.brokers.get(event.node)
    if old is not None and old.incarnation == event.incarnation:
        return Answer(draft, Registered(old.node, old.epoch))
    _may_register(state, event, old, now_ms)
    previous: BrokerEpoch = old.epoch if old else state.image.floor.broker_epoch
    broker = Registration(
        node=event.node,
        epoch=previous + 1,
        incarnation=event.incarnation,
        decommissioning=old is not None and old.decommissioning,
        endpoints=event.endpoints,
        rack=event.rack,
    )
    clean = event.clean_shutdown and event.previous_broker_epoch == previous
    lost = frozenset({event.node}) if rules.loses_eligibility(clean) else NOBODY
    draft.add(BrokerRecord(broker))
    depart_everywhere(rules, draft, event.node, lost)
    return Answer(draft, Registered(broker.node, broker.epoch))


def _may_register(
    state: ControllerState, event: RegisterBroker, old: Registration | None, now_ms: int
) -> None:
    if event.node < 0 or not event.incarnation:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, "a broker needs an id from 0 on and an incarnation"
        )
    if old is None:
        if len(state.image.brokers) >= state.config.max_brokers:
            raise RefusedError(
                ErrorCode.POLICY_VIOLATION, f"there are {len(state.image.brokers)} brokers already"
            )
        return
    if event.previous_broker_epoch != old.epoch and session_is_alive(state, event.node, now_ms):
        raise RefusedError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {event.node} is alive as incarnation {old.incarnation}; try again when its "
            "session has ended",
        )


def depart_everywhere(rules: ControllerRules, draft: Draft, node: NodeId, lost: Nodes) -> None:
    """Take a broker, which is fenced by now, out of every ISR and leadership."""
    for partition in draft.image.assigned_to(node):
        fenced = draft.image.unavailable(partition)
        min_isr = draft.image.min_isr(partition)
        draft.change(partition, depart(rules, partition, node, lost, fenced, min_isr))


@action("FenceBroker", SessionExpired)
def fence_broker(
    rules: ControllerRules, state: ControllerState, event: SessionExpired, now_ms: int
) -> tuple[ControllerState, Effects]:
    """Fence a broker that was not heard of; it may well be alive, and lead."""
    if event.node not in state.heard_ms or session_is_alive(state, event.node, now_ms):
        return state, NOTHING
    draft = Draft(state.image)
    broker = state.image.brokers[event.node]
    draft.add(BrokerRecord(attrs.evolve(broker, fenced=True, shutting_down=False)))
    depart_everywhere(rules, draft, event.node, NOBODY)
    return commit(rules, state, draft, now_ms)


@command("UnfenceBroker", Heartbeat, mirrors=("UnfenceBroker",))
def heartbeat(
    rules: ControllerRules,
    state: ControllerState,
    event: Heartbeat,
    now_ms: int,  # noqa: ARG001 - the table notes when a broker was heard
) -> Answer:
    """Keep a session alive; unfence a broker that has caught up, let one go that wants to stop."""
    broker = known_broker(state, event.node)
    if event.broker_epoch != broker.epoch:
        raise RefusedError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {event.node} has epoch {broker.epoch}, not {event.broker_epoch}",
        )
    draft = Draft(state.image)
    if event.wants_shutdown:
        return Answer(draft, _shut_down(rules, state, draft, broker), heard=event.node)
    if broker.fenced and event.caught_up:
        broker = attrs.evolve(broker, fenced=False)
        draft.add(BrokerRecord(broker))
    return Answer(draft, HeartbeatAnswer(broker.fenced), heard=event.node)


def _shut_down(
    rules: ControllerRules, state: ControllerState, draft: Draft, broker: Registration
) -> HeartbeatAnswer:
    # A fenced broker leads nothing and is in no ISR already.
    if broker.fenced:
        return HeartbeatAnswer(fenced=True, may_stop=True)
    if not broker.shutting_down:
        draft.add(BrokerRecord(attrs.evolve(broker, shutting_down=True)))
    moved = stranded = 0
    for partition in draft.image.assigned_to(broker.node):
        if broker.node not in partition.isr and broker.node != partition.leader:
            continue
        if moved == state.config.max_items_per_command:
            return HeartbeatAnswer(fenced=False, may_stop=False, stranded=stranded)
        fenced = draft.image.unavailable(partition)
        min_isr = draft.image.min_isr(partition)
        left = depart(rules, partition, broker.node, NOBODY, fenced, min_isr)
        if left.leader == NO_LEADER:
            stranded += 1
            continue
        draft.change(partition, left)
        moved += 1
    return HeartbeatAnswer(fenced=False, may_stop=True, stranded=stranded)
