"""The leader's half as a machine: what it remembers of producers, and what is due when."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from protocol.errors import InvariantViolation, RemoteProtocolError
from protocol.idempotence.actions import action
from protocol.idempotence.events import (
    BatchAppended,
    BatchArrived,
    ParkedExpired,
    ProducerIdle,
    SweepDone,
)
from protocol.idempotence.fold import NO_SNAPSHOT, Snapshot, Written
from protocol.idempotence.rules import Rules
from protocol.idempotence.state import SequencesConfig, SequencesState
from protocol.machine import Event, Handled, Machine
from protocol.types import Offset


class Sequences(Machine[SequencesState, Rules]):
    """Decides about each batch with a producer id, before the replica appends it."""

    actions = action
    __slots__ = ()

    @classmethod
    def restarted(
        cls,
        *,
        snapshot: Snapshot = NO_SNAPSHOT,
        written: Written = (),
        end_offset: Offset = 0,
        high_watermark: Offset = 0,
        now_ms: int = 0,
        config: SequencesConfig | None = None,
        rules: Rules | None = None,
        trace: Callable[[Handled[SequencesState]], None] | None = None,
    ) -> Sequences:
        """Start from the last snapshot and what the log has after it: the spec's `Restart`."""
        config, rules = config or SequencesConfig(), rules or Rules()
        entries = rules.state_after_restart(snapshot, written, rules.remember, config.remembered)
        sweep_ms = now_ms + config.sweep_interval_ms if entries else None
        state = SequencesState(
            config,
            entries,
            end_offset=end_offset,
            high_watermark=high_watermark,
            sweep_ms=sweep_ms,
        )
        return cls(state, rules, trace)

    def next_deadline(self) -> int | None:
        """Tell when something is due next, if nothing happens before; None for never."""
        state = self.state
        if not state.parked:
            return state.sweep_ms
        parked_ms = min(each.waiting.expires_ms for each in state.parked)
        return parked_ms if state.sweep_ms is None else min(parked_ms, state.sweep_ms)

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Name what is due by now. Once in an interval that costs a look at each producer."""
        return tuple(self._due(now_ms))

    def _due(self, now_ms: int) -> Iterator[Event]:
        state = self.state
        if any(each.waiting.expires_ms <= now_ms for each in state.parked):
            yield ParkedExpired()
        if state.sweep_ms is None or now_ms < state.sweep_ms:
            return
        expiry_ms, may_expire = state.config.expiry_ms, self.rules.may_expire
        # Sorted, because the order of a map's keys is not the same in every process.
        for producer_id in sorted(
            each for each, entry in state.entries.items() if may_expire(entry, now_ms, expiry_ms)
        ):
            yield ProducerIdle(producer_id)
        yield SweepDone()

    def admit(self, event: Event) -> None:
        """Raise `RemoteProtocolError` for what no correct peer sends, before anything happens."""
        if type(event) is not BatchArrived:
            return
        highest = self.state.config.max_sequence
        if (
            event.producer_id < 0
            or event.epoch < 0
            or not 0 <= event.first_sequence <= highest
            or not 0 <= event.last_sequence <= highest
        ):
            raise RemoteProtocolError(f"{event} is no batch of an idempotent producer")

    def check(self, event: Event, before: SequencesState, after: SequencesState) -> None:
        """Raise `InvariantViolation` if what is now in the log cannot be after what was."""
        if type(event) is not BatchAppended:
            return
        known = before.entries.get(event.producer_id)
        entry = after.entries[event.producer_id]
        if known is not None and entry.epoch < known.epoch:
            detail = f"epoch {entry.epoch} after {known.epoch}"
            raise InvariantViolation("NoZombieWrite", event, detail)
        if event.base_offset < before.end_offset:
            detail = f"offset {event.base_offset} is before {before.end_offset}"
            raise InvariantViolation("InOrder", event, detail)
