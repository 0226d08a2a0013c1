"""The suite lets a right driver pass, and tells each wrong one which rule it breaks."""

from typing import Any

import pytest
import trio

from protocol.testing import CONTROLLER, Check, ContractBroken, MakeDriver, checks
from tests.protocol.testing.reference import ControllerReference, OneWriteAtATime, Reference
from tests.protocol.testing.wrong import WRONG, WritesBackwards


def broken_by(make_driver: MakeDriver) -> dict[str, int]:
    """Put a driver through all checks; return those that it fails, and the rules they report."""
    found = {}
    for check in checks():
        try:
            check.run(make_driver)
        except ContractBroken as broken:
            found[check.name] = broken.rule
    return found


@pytest.mark.parametrize("check", checks(), ids=str)
@pytest.mark.parametrize("driver", [Reference, OneWriteAtATime])
def test_a_right_driver_passes(check: Check, driver: type[Reference]) -> None:
    check.run(driver)


@pytest.mark.parametrize("check", checks(CONTROLLER), ids=str)
def test_a_right_driver_of_controllers_passes(check: Check) -> None:
    check.run(ControllerReference)


@pytest.mark.parametrize(
    ("rule", "driver", "check"),
    [(rule, driver, name) for rule, wrong in WRONG.items() for driver, name in wrong.items()],
)
def test_a_wrong_driver_is_told_the_rule_it_breaks_and_no_other(
    rule: int, driver: type[Reference], check: str
) -> None:
    found = broken_by(driver)
    assert check in found
    assert set(found.values()) == {rule}


def test_every_check_catches_some_wrong_driver() -> None:
    caught = {name for wrong in WRONG.values() for driver in wrong for name in broken_by(driver)}
    assert caught == {check.name for check in checks()}


def test_the_broken_rule_says_what_was_seen() -> None:
    (check,) = [each for each in checks() if each.name == "writes_are_begun_in_order"]
    with pytest.raises(ContractBroken, match=r"^rule 2: the writes \[Append\(base_offset=0"):
        check.run(WritesBackwards)


@pytest.mark.parametrize("check", checks()[:3], ids=str)
def test_a_check_runs_in_any_event_loop(check: Check) -> None:
    class OnTrio(Reference):
        async def settle(self) -> None:
            await trio.lowlevel.checkpoint()
            await super().settle()

    trio.run(check, OnTrio)


def test_a_driver_that_waits_cannot_be_run_without_its_loop() -> None:
    class Waits(Reference):
        async def settle(self) -> None:
            await Pause()

    class Pause:
        def __await__(self) -> Any:
            yield

    with pytest.raises(TypeError, match="event loop"):
        checks()[0].run(Waits)
