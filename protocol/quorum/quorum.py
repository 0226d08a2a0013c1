"""The machine: one node of the metadata quorum, voter or observer.

It adds to the table of actions what is due when, and what must never happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from protocol.errors import InvariantViolation
from protocol.machine import Event, Handled, Machine
from protocol.quorum.actions import action
from protocol.quorum.actions.following import fetch_due_ms
from protocol.quorum.admission import admit
from protocol.quorum.events import (
    ElectionDue,
    FetchDue,
    FetchesExpired,
    FetchTimedOut,
    QuorumLost,
    RequestsDue,
    Resumed,
)
from protocol.quorum.jitter import jitter_ms
from protocol.quorum.log import epoch_at
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    NOBODY,
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumConfig,
    QuorumState,
    Unattached,
    is_writing,
)
from protocol.replication.log import Log
from protocol.types import Epoch, NodeId

_AT_ONCE = 0
_QUORUM_LOST = QuorumLost()


class Quorum(Machine[QuorumState, Rules]):
    """A node: `handle` what happens, ask for the `next_deadline`, handle what is `due`."""

    actions = action
    __slots__ = ()

    @classmethod
    def restarted(
        cls,
        node: NodeId,
        voters: frozenset[NodeId],
        *,
        epoch: Epoch = 0,
        voted: NodeId = NOBODY,
        log: Log | None = None,
        now_ms: int = 0,
        config: QuorumConfig | None = None,
        rules: Rules | None = None,
        trace: Callable[[Handled[QuorumState]], None] | None = None,
    ) -> Quorum:
        """Make the node that has just started, from what its disk has kept.

        What was committed it does not know until a leader tells, except that its snapshot was.
        """
        config = config or QuorumConfig()
        wait_ms = config.election_timeout_ms + jitter_ms(config, node, epoch, 0)
        first = Unattached(now_ms + wait_ms if node in voters else now_ms)
        state = QuorumState(node, voters, config, epoch, voted, NOBODY, first, log or Log())
        return cls(state, rules or Rules(), trace)

    def next_deadline(self) -> int | None:
        """Tell when something is due next, if nothing happens before; None for never."""
        return min((at_ms for at_ms, _ in self._agenda()), default=None)

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now."""
        return tuple(event for at_ms, event in self._agenda() if at_ms <= now_ms)

    def _agenda(self) -> Iterator[tuple[int, Event]]:
        """List what will be due if nothing happens, and when."""
        state = self.state
        role = state.role
        if state.failed:
            return
        if state.parked:
            yield min(parked.expires_ms for parked in state.parked), FetchesExpired()
        if isinstance(role, Leader):
            yield from _leader_agenda(state, role)
        if is_writing(state):
            return
        if state.deferred:
            yield _AT_ONCE, Resumed(state.deferred[0])
            return
        if isinstance(role, Prospective | Candidate):
            yield role.retry_ms, RequestsDue()
        if isinstance(role, Candidate) or (isinstance(role, Unattached) and state.is_voter):
            yield role.due_ms, ElectionDue()
        if isinstance(role, Follower) and state.is_voter:
            yield role.lost_ms, FetchTimedOut()
        fetch_ms = fetch_due_ms(state)
        if fetch_ms is not None:
            yield fetch_ms, FetchDue()

    def admit(self, event: Event) -> None:
        """Raise `RemoteProtocolError` for what no correct peer sends, before anything happens."""
        admit(self.state, event)

    def check(self, event: Event, before: QuorumState, after: QuorumState) -> None:
        """Raise `InvariantViolation`, by the spec's name for it, before a bad state is entered."""
        if after.high_watermark != before.high_watermark:
            _check_high_watermark(event, before, after)
        if after.log is not before.log:
            _check_log(event, before, after)
        if after.epoch != before.epoch or after.leader != before.leader:
            _check_epoch(event, before, after)


def _check_high_watermark(event: Event, before: QuorumState, after: QuorumState) -> None:
    end = after.high_watermark
    if end < before.high_watermark:
        detail = f"{end} is before {before.high_watermark}"
        raise InvariantViolation("HwMonotonic", event, detail)
    if end > after.log.end_offset:
        detail = f"{end} is beyond {after.log.end_offset}"
        raise InvariantViolation("HwInLogRange", event, detail)
    # What a snapshot brought was committed by another, maybe long ago.
    by_counting = isinstance(after.role, Leader) and end > after.log.start_offset
    epoch = epoch_at(after.log, end - 1)
    if by_counting and epoch != after.epoch:
        detail = f"a record of epoch {epoch} is committed by counting in epoch {after.epoch}"
        raise InvariantViolation("LeaderCompleteness", event, detail)


def _check_log(event: Event, before: QuorumState, after: QuorumState) -> None:
    log = after.log
    if log.end_offset < max(before.high_watermark, before.log.start_offset):
        detail = f"the log is cut to {log.end_offset}, and {before.high_watermark} is committed"
        raise InvariantViolation("CommittedNotLost", event, detail)
    if before.log.start_offset < log.start_offset and log.start_offset > after.high_watermark:
        detail = f"a snapshot of {log.start_offset}, and {after.high_watermark} is committed"
        raise InvariantViolation("SnapshotIsCommitted", event, detail)
    if log.epochs is not before.log.epochs:
        for (earlier, _), (epoch, _) in pairwise(log.epochs):
            if epoch <= earlier:
                raise InvariantViolation("LogMatching", event, f"epoch {epoch} after {earlier}")


def _check_epoch(event: Event, before: QuorumState, after: QuorumState) -> None:
    if after.epoch < before.epoch:
        raise InvariantViolation("EpochMonotonic", event, f"{after.epoch} after {before.epoch}")
    same = after.epoch == before.epoch and after.leader != before.leader
    if same and NOBODY not in (after.leader, before.leader):
        detail = f"both {before.leader} and {after.leader} lead in epoch {after.epoch}"
        raise InvariantViolation("OneLeaderPerEpoch", event, detail)


def _leader_agenda(state: QuorumState, leader: Leader) -> Iterator[tuple[int, Event]]:
    if state.saving is not None:
        return
    unheard = [each for each in leader.followers if each.heard_ms is None]
    if any(each.node in state.voters for each in unheard):
        yield leader.announce_ms, RequestsDue()
    if len(state.voters) > 1 and not state.deferred:
        yield _lost_ms(state, leader), _QUORUM_LOST


def _lost_ms(state: QuorumState, leader: Leader) -> int:
    """Tell when a majority will have been silent for too long."""
    heard = sorted(
        leader.since_ms if each.heard_ms is None else each.heard_ms
        for each in leader.followers
        if each.node in state.voters
    )
    # With itself and the others heard of since then, the leader reaches just a majority.
    needed = len(state.voters) // 2
    return heard[-needed] + state.config.check_quorum_ms
