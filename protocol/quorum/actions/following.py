"""A follower's actions: ask the leader, and let the log become what it answers.

An observer without a leader asks voters in turn; who is not the leader names it.
"""

from __future__ import annotations

import attrs

from protocol.errors import RemoteProtocolError
from protocol.machine import NOTHING, Effect, Effects
from protocol.quorum.actions.epochs import Known, is_news, learn
from protocol.quorum.actions.table import action, deferred
from protocol.quorum.effects import (
    Append,
    AskForLeader,
    Committed,
    DeleteBefore,
    FetchSnapshot,
    InstallSnapshot,
    SendFetch,
    Truncate,
    WriteSnapshot,
)
from protocol.quorum.events import (
    FetchAnswered,
    FetchDue,
    FetchRefused,
    SnapshotArriving,
    SnapshotFetched,
    SnapshotLost,
    SnapshotTaken,
    SnapshotWanted,
)
from protocol.quorum.log import compacted
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    Appending,
    Cutting,
    Follower,
    Installing,
    QuorumState,
    Unattached,
    is_writing,
)
from protocol.replication.log import last_epoch
from protocol.types import NodeId


def fetch_due_ms(state: QuorumState) -> int | None:
    """Tell when this node asks next; None while it writes or has nobody to ask.

    A download of which nothing comes any more is given up.
    """
    role = state.role
    if is_writing(state) or state.deferred or state.failed:
        return None
    if isinstance(role, Follower):
        return role.fetch_ms if role.snapshot is None else role.lost_ms
    if isinstance(role, Unattached) and not state.is_voter:
        return role.due_ms
    return None


@action("FetchFromLeader", FetchDue, mirrors=())
def fetch_from_leader(
    rules: Rules, state: QuorumState, event: FetchDue, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Ask, or ask again when an answer has not come in time."""
    del rules, event
    due_ms, role = fetch_due_ms(state), state.role
    if due_ms is None or due_ms > now_ms:
        return state, NOTHING
    again_ms = now_ms + state.config.fetch_timeout_ms
    if isinstance(role, Unattached):
        asked = AskForLeader(_any_voter(state, role.asked))
        return attrs.evolve(state, role=Unattached(again_ms, role.asked + 1)), (asked,)
    if not isinstance(role, Follower):
        return state, NOTHING
    effects: tuple[Effect, ...] = (_fetch(state),)
    if role.awaited and not state.is_voter:
        # It cannot be elected itself, but one of the voters leads by now.
        effects = (*effects, AskForLeader(_any_voter(state, role.asked)))
    role = Follower(again_ms, role.lost_ms, True, None, role.asked + 1 if role.awaited else 0)
    return attrs.evolve(state, role=role), effects


def _fetch(state: QuorumState) -> SendFetch:
    log, config = state.log, state.config
    return SendFetch(
        state.leader,
        state.epoch,
        log.end_offset,
        last_epoch(log),
        state.high_watermark,
        config.fetch_max_bytes,
        config.fetch_wait_ms,
    )


def _any_voter(state: QuorumState, asked: int) -> NodeId:
    """Take one voter after the other, each node beginning with another one."""
    voters = sorted(state.voters)
    return voters[(state.node + asked) % len(voters)]


@action("FollowerHandleAnswer", FetchAnswered)
def follower_handle_answer(
    rules: Rules, state: QuorumState, event: FetchAnswered, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Take the leader's answer; what has to be written counts only when that is done."""
    log, follows = state.log, isinstance(state.role, Follower)
    if is_writing(state) or not rules.answer_is_current(follows, state.epoch, log, event):
        return state, NOTHING
    if isinstance(state.role, Follower):
        if state.role.snapshot is not None:
            return state, NOTHING
        lost_ms = now_ms + state.config.fetch_timeout_ms
        state = attrs.evolve(state, role=Follower(now_ms, lost_ms, False, event.snapshot))
    if event.snapshot is not None:
        return state, (FetchSnapshot(state.leader, state.epoch, event.snapshot),)
    if event.diverging is not None:
        end = rules.truncation_offset(log, state.high_watermark, event.diverging)
        if end >= log.end_offset:
            return state, NOTHING
        return attrs.evolve(state, writes=(Cutting(end),)), (Truncate(end),)
    end = log.end_offset + sum(count for _, count in event.epochs)
    high_watermark = rules.follower_high_watermark(state.high_watermark, event.high_watermark, end)
    if end == log.end_offset:
        effects: list[Effect] = []
        return learn_committed(state, high_watermark, effects), tuple(effects)
    write = Appending(event.epochs, end, high_watermark)
    return attrs.evolve(state, writes=(write,)), (Append(log.end_offset, end, 0, event.payload),)


def learn_committed(state: QuorumState, high_watermark: int, effects: list[Effect]) -> QuorumState:
    """Take over a high watermark, and tell the state machine above."""
    if high_watermark == state.high_watermark:
        return state
    effects.append(Committed(high_watermark))
    return attrs.evolve(state, high_watermark=high_watermark)


def admit_answer(event: FetchAnswered) -> None:
    """Raise `RemoteProtocolError` for an answer that no correct leader gives."""
    if event.diverging is not None and event.diverging.offset < 0:
        raise RemoteProtocolError(f"the logs diverge at {event.diverging.offset}")
    if event.snapshot is not None and event.snapshot.end_offset < 1:
        raise RemoteProtocolError(f"a snapshot that ends at {event.snapshot.end_offset}")
    previous = max(event.last_epoch, 1)
    for epoch, record_count in event.epochs:
        if record_count < 1:
            raise RemoteProtocolError(f"an answer with {record_count} records of epoch {epoch}")
        if not previous <= epoch <= event.epoch:
            order = f"after {previous}, in an answer of epoch {event.epoch}"
            raise RemoteProtocolError(f"records of epoch {epoch} {order}")
        previous = epoch


@action("RetryFetch", FetchRefused, mirrors=("LearnEpoch", "LearnLeader"))
def retry_fetch(
    rules: Rules, state: QuorumState, event: FetchRefused, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Learn what the node asked knows, or ask again later."""
    known = Known(state.leader, event.epoch, event.leader)
    if is_news(rules, state, known):
        return learn(rules, state, event, known, now_ms)
    role, again_ms = state.role, now_ms + state.config.fetch_retry_ms
    if not isinstance(role, Follower) or role.snapshot is not None:
        return state, NOTHING
    return attrs.evolve(state, role=attrs.evolve(role, fetch_ms=again_ms)), NOTHING


@action("ExpectSnapshot", SnapshotArriving, mirrors=())
def expect_snapshot(
    rules: Rules, state: QuorumState, event: SnapshotArriving, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Give the leader more time: it is sending a snapshot."""
    del rules, event
    role = state.role
    if not isinstance(role, Follower) or role.snapshot is None:
        return state, NOTHING
    lost_ms = now_ms + state.config.fetch_timeout_ms
    return attrs.evolve(state, role=attrs.evolve(role, lost_ms=lost_ms)), NOTHING


@action("InstallSnapshot", SnapshotFetched, mirrors=("FollowerHandleAnswer", "HandleLateSnapshot"))
def install_snapshot(
    rules: Rules, state: QuorumState, event: SnapshotFetched, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Let the log begin with a snapshot, whatever the node has become since it asked for it."""
    if is_writing(state):
        return deferred(state, event)
    if state.failed:
        return state, NOTHING
    role, snapshot = state.role, event.snapshot
    if isinstance(role, Follower):
        # Whatever it has asked for, it asked with the log that it had.
        downloads = None if role.snapshot == snapshot else role.snapshot
        state = attrs.evolve(state, role=Follower(now_ms, role.lost_ms, False, downloads))
    keeps_log = rules.kept_after_snapshot(state.log, snapshot)
    if keeps_log and snapshot.end_offset <= state.log.start_offset:
        effects: list[Effect] = []
        high_watermark = max(state.high_watermark, snapshot.end_offset)
        return learn_committed(state, high_watermark, effects), tuple(effects)
    state = attrs.evolve(state, writes=(Installing(snapshot, keeps_log),))
    return state, (InstallSnapshot(snapshot, keeps_log, event.payload),)


@action("GiveUpSnapshot", SnapshotLost, mirrors=())
def give_up_snapshot(
    rules: Rules, state: QuorumState, event: SnapshotLost, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Ask the leader again; by now it may have another one."""
    del rules
    role = state.role
    if not isinstance(role, Follower) or role.snapshot != event.snapshot:
        return state, NOTHING
    again_ms = now_ms + state.config.fetch_retry_ms
    role = attrs.evolve(role, snapshot=None, fetch_ms=again_ms, awaited=False)
    return attrs.evolve(state, role=role), NOTHING


@action("ChooseSnapshot", SnapshotWanted, mirrors=())
def choose_snapshot(
    rules: Rules, state: QuorumState, event: SnapshotWanted, now_ms: int
) -> tuple[QuorumState, Effects]:
    """Have a snapshot written, of what is committed, unless there is none newer to write."""
    del event, now_ms
    end = rules.snapshot_offset(state.high_watermark, state.log.end_offset)
    if end <= state.log.start_offset or state.failed:
        return state, NOTHING
    return state, (WriteSnapshot(end),)


@action("TakeSnapshot", SnapshotTaken)
def take_snapshot(
    rules: Rules, state: QuorumState, event: SnapshotTaken, now_ms: int
) -> tuple[QuorumState, Effects]:
    """The entries that a snapshot has are needed no more."""
    del rules, now_ms
    log = compacted(state.log, event.end_offset)
    if log is state.log or state.failed:
        return state, NOTHING
    return attrs.evolve(state, log=log), (DeleteBefore(log.start_offset),)
