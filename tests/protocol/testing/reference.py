"""A right driver of machines in its simplest form, for the suite to pass and others to spoil."""

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from protocol.controller import AppendRecords, RecordsCommitted
from protocol.controller import Resigned as ControllerResigned
from protocol.errors import InvariantViolation
from protocol.machine import Effect, Effects, Event, Machine
from protocol.replication.effects import Append, Reset, Truncate
from protocol.replication.events import Appended, StorageFailed, Truncated


def completion_of(effect: Effect) -> Event | None:
    """Give the completion of a write; None for what is no write."""
    match effect:
        case Append(end_offset=end) | Reset(start_offset=end) | Truncate(end_offset=end):
            return Appended(end) if isinstance(effect, Append) else Truncated(end)
        case AppendRecords():
            return RecordsCommitted(effect.base_offset + len(effect.records))
    return None


@attrs.define(eq=False)
class Write:
    """A write on the disk, which may be done before earlier ones."""

    completion: Event
    done: bool = False


class Reference:
    """A right driver, with its adapter in one. The wrong ones below differ in one method."""

    failure: Event = StorageFailed("the disk is gone")

    async def start(
        self, machine: Machine[Any, Any], began: Callable[[Effect], None], now_ms: int
    ) -> None:
        self.machine, self.began, self.now_ms = machine, began, now_ms
        self.inbox: deque[Event] = deque()
        self.disk: list[Write] = []
        self.deadline_ms: int | None = None
        self.dead = self.disk_failed = False

    # What happens outside.

    def arrive(self, event: Event) -> None:
        self.inbox.append(event)

    def set_clock(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)

    def unfinished(self) -> list[Write]:
        return [write for write in self.disk if not write.done]

    def unfinished_writes(self) -> int:
        return len(self.unfinished())

    def finish_write(self, place: int) -> None:
        self.unfinished()[place].done = True
        while self.disk and self.disk[0].done:
            self.complete(self.disk.pop(0))

    def fail_write(self) -> None:
        self.disk_failed = True
        self.disk.clear()
        self.inbox.append(self.failure)

    # What the driver does about it.

    async def settle(self) -> None:
        while not self.dead:
            if self.inbox:
                self.take(self.inbox.popleft())
            elif self.deadline_ms is not None and self.deadline_ms <= self.now_ms:
                self.fire()
            else:
                break

    def take(self, event: Event) -> None:
        try:
            effects = self.machine.handle(event, self.now_ms)
        except InvariantViolation:
            self.dead = True
            return
        for effect in self.arranged(effects):
            self.carry_out(effect)
        self.ask(event)

    def arranged(self, effects: Effects) -> Effects:
        return effects

    def carry_out(self, effect: Effect) -> None:
        completion = completion_of(effect)
        if completion is not None and not self.disk_failed:
            self.disk.append(Write(completion))
        self.began(effect)

    def complete(self, write: Write) -> None:
        self.inbox.append(write.completion)

    def ask(self, event: Event) -> None:
        del event
        self.deadline_ms = self.machine.next_deadline()

    def fire(self) -> None:
        due = self.machine.due(self.now_ms)
        if not due:
            self.deadline_ms = self.machine.next_deadline()
        for event in due:
            if not self.dead:
                self.take(event)

    async def stop(self) -> None:
        self.dead = True


class ControllerReference(Reference):
    failure = ControllerResigned()


class OneWriteAtATime(Reference):
    """A right driver that waits for the disk before it goes on to the next effect."""

    async def start(
        self, machine: Machine[Any, Any], began: Callable[[Effect], None], now_ms: int
    ) -> None:
        await super().start(machine, began, now_ms)
        self.held: deque[Effect] = deque()

    def carry_out(self, effect: Effect) -> None:
        if self.disk:
            self.held.append(effect)
        else:
            super().carry_out(effect)

    async def settle(self) -> None:
        while True:
            while self.held and not self.disk:
                super().carry_out(self.held.popleft())
            if not self.inbox or self.dead:
                break
            await super().settle()
        await super().settle()
