"""Puts the driver of `net` into a world that the contract's suite decides about.

Trio's clock is a mock that stands still, so that only the suite moves it; the timers' task is the
real one. The disk may finish its writes in any order, and an adapter tells of them in the right
one, as a log does.
"""

import math
from collections.abc import Callable
from typing import Any

import attrs
import trio
import trio.testing

from net.driving import Driver, Timers
from protocol.controller import Resigned as ControllerResigned
from protocol.errors import InvariantViolation
from protocol.machine import Effect, Event, Machine
from protocol.replication.events import StorageFailed
from protocol.testing import Check, MakeDriver
from tests.protocol.testing.reference import completion_of

MAX_ROUNDS = 3_000


@attrs.define(eq=False)
class Write:
    """A write that the disk has been given."""

    completion: Event
    done: bool = False


class Adapter:
    """A driver of a replica, and the disk and the clock that it has."""

    failure: Event = StorageFailed("the disk is gone")

    async def start(
        self, machine: Machine[Any, Any], began: Callable[[Effect], None], now_ms: int
    ) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        self.clock, self.began = clock, began
        self.disk: list[Write] = []
        self.disk_failed = False
        self.broken: AssertionError | None = None
        self.violations: list[InvariantViolation] = []
        self.set_clock(now_ms)
        self.timers = Timers()
        self.driver: Driver[Machine[Any, Any]] = self.make(machine)
        self.stopped = trio.Event()
        trio.lowlevel.spawn_system_task(self.keep_time)

    def make(self, machine: Machine[Any, Any]) -> Driver[Machine[Any, Any]]:
        return Driver(machine, self.begin, self.timers, self.violations.append)

    async def keep_time(self) -> None:
        try:
            with trio.CancelScope() as self.running:
                await self.timers.run()
        except AssertionError as broken:
            self.broken = broken
        finally:
            self.stopped.set()

    def begin(self, effect: Effect) -> None:
        completion = completion_of(effect)
        if completion is not None and not self.disk_failed:
            self.disk.append(Write(completion))
        self.began(effect)

    def arrive(self, event: Event) -> None:
        self.driver.deliver(event)

    def set_clock(self, now_ms: int) -> None:
        behind_s = now_ms / 1000 - self.clock.current_time()
        if behind_s > 0:
            self.clock.jump(behind_s)

    def unfinished(self) -> list[Write]:
        return [write for write in self.disk if not write.done]

    def unfinished_writes(self) -> int:
        return len(self.unfinished())

    def finish_write(self, place: int) -> None:
        self.unfinished()[place].done = True
        while self.disk and self.disk[0].done:
            self.driver.deliver(self.disk.pop(0).completion)

    def fail_write(self) -> None:
        self.disk_failed = True
        self.disk.clear()
        self.driver.deliver(self.failure)

    async def settle(self) -> None:
        """Wait until the timers only wait for the clock, but not for ever."""
        for _ in range(MAX_ROUNDS):
            await trio.lowlevel.checkpoint()
            if self.broken is not None:
                raise self.broken
            if self.timers.next_ms > self.timers.clock_ms():
                break
        await trio.testing.wait_all_tasks_blocked()

    async def stop(self) -> None:
        self.driver.close()
        self.running.cancel()
        await self.stopped.wait()


class ControllerAdapter(Adapter):
    """The same driver runs a controller."""

    failure = ControllerResigned()


def run(check: Check, make_driver: MakeDriver) -> None:
    """Run a check in Trio, on a clock that stands still."""
    trio.run(check, make_driver, clock=trio.testing.MockClock(rate=0, autojump_threshold=math.inf))
