"""What benchmarks of machines share: how a batch is timed, and a machine to compare with."""

from __future__ import annotations

import gc
import time
from typing import Any, ClassVar

from protocol.machine import NOTHING, Actions, Effects, Event, Machine


def microseconds_a_batch(
    machine: Machine[Any, Any], events: list[tuple[Event, ...]], now_ms: int = 1
) -> float:
    """Let a machine handle everything, asking for deadlines as a driver does; give the mean."""
    handle, deadline = machine.handle, machine.next_deadline
    gc.collect()
    gc.disable()
    started_s = time.process_time()
    for batch in events:
        for event in batch:
            handle(event, now_ms)
        deadline()
    elapsed_s = time.process_time() - started_s
    gc.enable()
    return elapsed_s / len(events) * 1e6


class Idler(Machine[object, object]):
    """A machine that handles any events and does nothing: what the shell alone costs."""

    actions: ClassVar[Actions[Any, Any]] = Actions()
    __slots__ = ()

    def next_deadline(self) -> int | None:
        """Never."""
        return None

    def due(self, now_ms: int) -> tuple[Event, ...]:
        """Nothing."""
        del now_ms
        return ()


def idler(*types: type[Event]) -> Idler:
    """Make one that knows these events."""
    for each in types:
        if each not in Idler.actions.by_event:
            Idler.actions(f"Idle{each.__name__}", each)(_idle)
    return Idler(None, None)


def _idle(rules: object, state: object, event: Event, now_ms: int) -> tuple[object, Effects]:
    del rules, event, now_ms
    return state, NOTHING
