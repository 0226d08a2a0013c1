"""What an adapter has to offer so that the suite can put a driver to the test.

The adapter plays the world around one driver: its clock stands still until it is set, its disk
finishes a write when it is told to, and whatever arrives arrives because the suite says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from protocol.machine import Effect, Event, Machine


class ContractBroken(AssertionError):  # noqa: N818 - it tells what happened, as InvariantViolation does
    """A driver breaks a rule of the contract in `protocol.machine`; `rule` is its number there."""

    def __init__(self, rule: int, seen: str) -> None:
        super().__init__(f"rule {rule}: {seen}")
        self.rule = rule
        self.seen = seen


class DriverUnderTest(Protocol):
    """One driver with its world. All but `start`, `settle` and `stop` only note what happens.

    After the machine has raised an `InvariantViolation`, that may come out of any of these methods,
    and what arrives may be ignored.
    """

    async def start(
        self, machine: Machine[Any, Any], began: Callable[[Effect], None], now_ms: int
    ) -> None:
        """Start the driver with this machine, at this time.

        `began` is to be called with each effect at the moment when the driver begins it: gives it
        to the disk, to the network, to whoever waits for an answer.
        """

    def arrive(self, event: Event) -> None:
        """Let something happen outside. The suite also calls this while an effect is begun."""

    def set_clock(self, now_ms: int) -> None:
        """Let the driver's clock show this time. One that cannot go back may ignore an earlier."""

    def unfinished_writes(self) -> int:
        """Count the writes that the disk has been given and has not finished."""

    def finish_write(self, place: int) -> None:
        """Let the disk finish one of these; 0 is the one that it was given first."""

    def fail_write(self) -> None:
        """Let the first of these fail."""

    async def settle(self) -> None:
        """Let the driver do all that it can do now, until it only waits for the world."""

    async def stop(self) -> None:
        """Stop the driver, in whatever state it is."""


MakeDriver: TypeAlias = Callable[[], DriverUnderTest]
