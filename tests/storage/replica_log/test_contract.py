"""The contract of drivers, by a driver whose writes are those of a log on a disk."""

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from protocol.machine import Effect, Event, Machine
from protocol.replication.effects import Append, Reset, Truncate
from protocol.replication.events import Appended, StorageFailed, Truncated
from protocol.testing import Check, checks
from storage.disk import jobs
from storage.disk.faults import Faults, fail_always
from storage.disk.simulated import SimulatedDisk
from storage.flusher import FLUSH_ALWAYS
from storage.folder import NewLog
from storage.replica_log import ReplicaLog
from storage.testing.numbered import numbered
from tests.protocol.testing.reference import Reference
from tests.storage.folder.worlds import FIRST, SMALL, open_store

CUTS = (Truncate, Reset)


class OnALog(Reference):
    """It has its appends flushed together; a cut waits for them, and they for it.

    A replica never asks for a cut while it appends, so `ReplicaLog` need not know of this.
    """

    async def start(
        self, machine: Machine[Any, Any], began: Callable[[Effect], None], now_ms: int
    ) -> None:
        await super().start(machine, began, now_ms)
        self.real_disk = SimulatedDisk(7)
        store = open_store(self.real_disk, policy=FLUSH_ALWAYS)
        (log,) = jobs.run(store.create(NewLog(FIRST, SMALL)))
        folder = store.folders[0]
        self.storage = ReplicaLog(log, folder.flusher, self.told, folder.fail)
        self.real_disk.faults = Faults(deferred=True)
        self.writing: deque[Effect] = deque()
        self.held: deque[Effect] = deque()

    def told(self, event: Event) -> None:
        if isinstance(event, StorageFailed):
            self.writing.clear()
            self.held.clear()
        elif isinstance(event, Appended | Truncated):
            self.writing.popleft()
        self.inbox.append(event)

    def unfinished_writes(self) -> int:
        return len(self.writing)

    def finish_write(self, place: int) -> None:
        """A log has its own order, which is that of its writes."""
        del place
        before = len(self.writing)
        while len(self.writing) == before and self.real_disk.run_next():
            pass

    def fail_write(self) -> None:
        broken = fail_always("*")
        self.real_disk.faults = attrs.evolve(self.real_disk.faults, fail=broken)
        self.real_disk.run_all()

    async def settle(self) -> None:
        while True:
            self.begin_what_may_begin()
            if not self.inbox or self.dead:
                break
            await super().settle()
        await super().settle()

    def carry_out(self, effect: Effect) -> None:
        if self.held or (isinstance(effect, (Append, *CUTS)) and self.must_wait(effect)):
            self.held.append(effect)
            return
        if isinstance(effect, (Append, *CUTS)):
            self.write(effect)
        self.began(effect)

    def must_wait(self, effect: Effect) -> bool:
        cutting = any(isinstance(each, CUTS) for each in self.writing)
        return cutting or (isinstance(effect, CUTS) and bool(self.writing))

    def begin_what_may_begin(self) -> None:
        while self.held and not self.dead:
            effect = self.held[0]
            if isinstance(effect, (Append, *CUTS)) and self.must_wait(effect):
                break
            self.held.popleft()
            if isinstance(effect, (Append, *CUTS)):
                self.write(effect)
            self.began(effect)

    def write(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            offsets = range(effect.base_offset, effect.end_offset)
            effect = attrs.evolve(effect, payload=[numbered(each) for each in offsets])
        self.writing.append(effect)
        self.storage.carry_out(effect, self.now_ms)


@pytest.mark.parametrize("check", checks(), ids=str)
def test_a_driver_on_a_log_keeps_the_contract(check: Check) -> None:
    check.run(OnALog)
