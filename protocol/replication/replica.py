"""The machine: one replica of one partition, leader or follower or neither.

It adds to the table of actions what is due when, and what must never happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from protocol.errors import InvariantViolation
from protocol.machine import Event, Handled, Machine
from protocol.replication.actions import action
from protocol.replication.actions.follow import admit_answer, fetch_due_ms
from protocol.replication.actions.isr import lags_since_ms, may_expand, may_shrink
from protocol.replication.config import ReplicaConfig
from protocol.replication.events import (
    FetchAnswered,
    FetchDue,
    FetchesExpired,
    FollowerCaughtUp,
    FollowerLagged,
    IsrLearned,
    ProducersExpired,
    ProposalUnanswered,
    Truncated,
)
from protocol.replication.log import Log
from protocol.replication.rules import Rules
from protocol.replication.state import Leader, ReplicaState, is_writing
from protocol.types import BrokerEpoch, NodeId, Offset

_AT_ONCE = 0


class Replica(Machine[ReplicaState, Rules]):
    """A replica: `handle` what happens, ask for the `next_deadline`, handle what is `due`."""

    actions = action
    __slots__ = ()

    @classmethod
    def restarted(
        cls,
        node: NodeId,
        broker_epoch: BrokerEpoch,
        *,
        log: Log | None = None,
        high_watermark: Offset = 0,
        config: ReplicaConfig | None = None,
        rules: Rules | None = None,
        trace: Callable[[Handled[ReplicaState]], None] | None = None,
    ) -> Replica:
        """Make the replica of a broker that has just started, from what its disk has kept."""
        log = log or Log()
        kept = min(max(high_watermark, log.start_offset), log.end_offset)
        state = ReplicaState(node, broker_epoch, config or ReplicaConfig(), log, kept)
        return cls(state, rules or Rules(), trace)

    def next_deadline(self) -> int | None:
        """Tell when something is due next, if nothing happens before; None for never."""
        state = self.state
        role = state.role
        if state.parked or state.deferred is not None or not isinstance(role, Leader):
            return min((at_ms for at_ms, _ in self._agenda()), default=None)
        if role.followers or role.waiting or role.proposed is not None:
            return min((at_ms for at_ms, _ in self._agenda()), default=None)
        # A leader without followers, of whom nobody wants anything: asked after every batch.
        return None

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now."""
        return tuple(event for at_ms, event in self._agenda() if at_ms <= now_ms)

    def _agenda(self) -> Iterator[tuple[int, Event]]:
        """List what will be due if nothing happens, and when."""
        state = self.state
        if state.deferred is not None and not _holds_back(state):
            yield _AT_ONCE, state.deferred
        if isinstance(state.role, Leader):
            yield from self._leader_agenda(state, state.role)
        fetch_ms = fetch_due_ms(state)
        if fetch_ms is not None:
            yield fetch_ms, FetchDue()
        if state.parked:
            yield min(parked.expires_ms for parked in state.parked), FetchesExpired()

    def _leader_agenda(self, state: ReplicaState, leader: Leader) -> Iterator[tuple[int, Event]]:
        if leader.waiting:
            yield min(each.expires_ms for each in leader.waiting), ProducersExpired()
        if leader.proposed is not None:
            yield leader.proposed.retry_ms, ProposalUnanswered(state.view.version)
            return
        for follower in leader.followers:
            if may_expand(self.rules, state, leader, follower):
                yield leader.expand_after_ms, FollowerCaughtUp(follower.node)
            elif may_shrink(self.rules, state, leader, follower):
                yield lags_since_ms(state, follower), FollowerLagged(follower.node)

    def admit(self, event: Event) -> None:
        """Raise `RemoteProtocolError` for what no correct peer sends, before anything happens."""
        if isinstance(event, FetchAnswered):
            admit_answer(event)

    def check(self, event: Event, before: ReplicaState, after: ReplicaState) -> None:
        """Raise `InvariantViolation`, by the spec's name for it, before a bad state is entered."""
        log = after.log
        if not log.start_offset <= after.high_watermark <= log.end_offset:
            detail = f"{after.high_watermark} is not in {log.start_offset}..{log.end_offset}"
            raise InvariantViolation("HwInLogRange", event, detail)
        # An unclean election, which this replica knows nothing of, may cost what was committed.
        if after.high_watermark < before.high_watermark and not isinstance(event, Truncated):
            detail = f"{after.high_watermark} is before {before.high_watermark}"
            raise InvariantViolation("HwMonotonic", event, detail)
        if log.epochs is not before.log.epochs:
            for (earlier, _), (epoch, _) in pairwise(log.epochs):
                if epoch <= earlier:
                    detail = f"epoch {epoch} comes after {earlier}"
                    raise InvariantViolation("LogMatching", event, detail)
        if after.view is not before.view:
            self._check_view(event, before, after)

    def _check_view(self, event: Event, before: ReplicaState, after: ReplicaState) -> None:
        was, view = before.view, after.view
        if view.epoch == was.epoch and view.leader != was.leader and was.epoch > 0:
            detail = f"both {was.leader} and {view.leader} lead in epoch {view.epoch}"
            raise InvariantViolation("SingleLeaderPerEpoch", event, detail)
        if isinstance(after.role, Leader) and after.node not in view.isr:
            detail = f"{after.node} leads, and is not in {sorted(view.isr)}"
            raise InvariantViolation("LeaderInIsr", event, detail)


def _holds_back(state: ReplicaState) -> bool:
    """Whether what is deferred has to wait: a new ISR for writes of acks=all, else for any."""
    if isinstance(state.deferred, IsrLearned) and isinstance(state.role, Leader):
        return any(write.acks_all for write in state.role.writes)
    return is_writing(state)
