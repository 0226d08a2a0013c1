"""The checks under their names, and how to run one, in an event loop or without."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import attrs

from protocol.testing.checks import SCENARIOS
from protocol.testing.checks.table import Scenario
from protocol.testing.driver import MakeDriver
from protocol.testing.session import Session
from protocol.testing.vocabulary import REPLICATION, Vocabulary


@attrs.frozen
class Check:
    """One thing that a driver has to do right. Call it, or `run` it, with a maker of adapters."""

    scenario: Scenario
    vocabulary: Vocabulary

    @property
    def name(self) -> str:
        """What a right driver does."""
        return self.scenario.name

    @property
    def rule(self) -> int:
        """The number of the rule in `protocol.machine` that is checked."""
        return self.scenario.rule

    def __str__(self) -> str:
        return f"rule-{self.rule}-{self.name}"

    async def __call__(self, make_driver: MakeDriver) -> None:
        """Put a fresh driver through this check; raises `ContractBroken` if it fails."""
        driver = make_driver()
        try:
            await self.scenario.body(Session(self.rule, driver, self.vocabulary))
        finally:
            await driver.stop()

    def run(self, make_driver: MakeDriver) -> None:
        """Do the same for a driver that needs no event loop, as its adapter never waits."""
        _run(self(make_driver))


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise TypeError("this adapter waits for something: run the check in its event loop")


def checks(vocabulary: Vocabulary = REPLICATION) -> tuple[Check, ...]:
    """Return all checks for drivers of the machine that has this vocabulary, by rule."""
    return tuple(
        Check(scenario, vocabulary)
        for scenario in sorted(SCENARIOS, key=lambda each: each.rule)
        if scenario.only is None or scenario.only is vocabulary
    )
