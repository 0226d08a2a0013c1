"""One run of a driver under a check: the driver, what it is put through, and what it did."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from protocol.errors import InvariantViolation
from protocol.machine import Effect, Event, Machine
from protocol.testing.driver import ContractBroken, DriverUnderTest
from protocol.testing.journal import Began, Journal, Watched
from protocol.testing.script import Script, ScriptedMachine
from protocol.testing.vocabulary import Vocabulary

START_MS = 1_000
MAX_WRITES = 100


class Session:
    """What a check is given. Each of its steps ends when the driver has come to rest."""

    def __init__(self, rule: int, driver: DriverUnderTest, vocabulary: Vocabulary) -> None:
        self.rule = rule
        self.driver = driver
        self.vocabulary = vocabulary
        self.journal = Journal()
        self.when_begun: Callable[[Effect], None] | None = None
        """What else happens at the moment when the driver begins an effect."""

    def broken(self, seen: str) -> NoReturn:
        """The driver breaks the rule that this is about."""
        raise ContractBroken(self.rule, seen)

    async def play(self, script: Script) -> None:
        """Start the driver with a machine that plays this script."""
        await self.start(ScriptedMachine(script, self.vocabulary))

    async def start(self, machine: Machine[Any, Any]) -> None:
        """Start the driver with a machine."""
        await self.driver.start(Watched(machine, self.journal), self._began, START_MS)
        await self._settle()

    def _began(self, effect: Effect) -> None:
        self.journal.write(Began(effect))
        if self.when_begun is not None:
            self.when_begun(effect)

    async def arrive(self, *events: Event) -> None:
        """Let these happen one after the other, with no pause between them."""
        with suppress(InvariantViolation):
            for event in events:
                self.driver.arrive(event)
        await self._settle()

    async def set_clock(self, now_ms: int) -> None:
        """Let it be this late."""
        with suppress(InvariantViolation):
            self.driver.set_clock(now_ms)
        await self._settle()

    async def finish_write(self, place: int = 0) -> None:
        """Let the disk finish a write, if it has been given one."""
        with suppress(InvariantViolation):
            if self.driver.unfinished_writes() > place:
                self.driver.finish_write(place)
        await self._settle()

    async def finish_all_writes(self) -> None:
        """Let the disk finish all that it is given, also as a consequence of this."""
        for _ in range(MAX_WRITES):
            if not self.driver.unfinished_writes():
                break
            await self.finish_write()

    async def fail_write(self) -> None:
        """Let a write fail, if there is one."""
        with suppress(InvariantViolation):
            if self.driver.unfinished_writes():
                self.driver.fail_write()
        await self._settle()

    async def _settle(self) -> None:
        try:
            await self.driver.settle()
        except (InvariantViolation, TypeError, ValueError) as error:
            raised = self.journal.raised
            if raised is None:
                raise
            if not isinstance(raised.error, InvariantViolation):
                # Only a completion can be wrong by itself.
                seen = f"the machine cannot make anything of {raised.event}: {error}"
                raise ContractBroken(2, seen) from error
        self.journal.must_not_be_full()
