"""The client's half as a machine: one producer's batches to one partition.

Partitions need not agree on an epoch: leaders compare it per partition, so each client bumps by
itself.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import InvariantViolation
from protocol.idempotence.client_actions import action, may_send
from protocol.idempotence.client_events import DeliveryExpired, RetryDue
from protocol.idempotence.client_state import ClientConfig, ClientState
from protocol.idempotence.fold import ProducerEpoch, ProducerId
from protocol.idempotence.rules import Rules
from protocol.machine import Event, Handled, Machine


class ProducerClient(Machine[ClientState, Rules]):
    """Numbers batches, keeps some in flight, and says what to do about each answer."""

    actions = action
    __slots__ = ()

    @classmethod
    def started(
        cls,
        producer_id: ProducerId,
        epoch: ProducerEpoch = 0,
        *,
        config: ClientConfig | None = None,
        rules: Rules | None = None,
        trace: Callable[[Handled[ClientState]], None] | None = None,
    ) -> ProducerClient:
        """Make the client of a producer that has just got this id and epoch."""
        state = ClientState(producer_id, config or ClientConfig(), epoch)
        return cls(state, rules or Rules(), trace)

    @property
    def may_send(self) -> bool:
        """Whether a batch that is ready would be sent at once."""
        return may_send(self.rules, self.state)

    def next_deadline(self) -> int | None:
        """Tell when something is due next, if nothing happens before; None for never."""
        state = self.state
        if not state.in_flight:
            return None
        expires_ms = state.in_flight[0].expires_ms
        return expires_ms if state.resend_ms is None else min(expires_ms, state.resend_ms)

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now. A batch that has expired is not sent again."""
        state = self.state
        if state.in_flight and state.in_flight[0].expires_ms <= now_ms:
            return (DeliveryExpired(),)
        if state.resend_ms is not None and state.resend_ms <= now_ms:
            return (RetryDue(),)
        return ()

    def check(self, event: Event, before: ClientState, after: ClientState) -> None:
        """Raise `InvariantViolation` if the epoch goes back or batches are not in order."""
        if after.producer_id == before.producer_id and after.epoch < before.epoch:
            detail = f"epoch {after.epoch} after {before.epoch}"
            raise InvariantViolation("NoZombieWrite", event, detail)
        round_ = after.config.max_sequence + 1
        ahead = [(batch.number - after.next_number) % round_ for batch in after.in_flight]
        if ahead != sorted(set(ahead)):
            numbers = [batch.number for batch in after.in_flight]
            raise InvariantViolation("InOrder", event, f"batches {numbers} are in flight")
