"""A suite that any driver of the machines can be run through: does it keep the contract?

    from protocol.testing import checks

    @pytest.mark.parametrize("check", checks(), ids=str)
    def test_the_driver_keeps_the_contract(check):
        check.run(MyAdapter)                    # a driver that never waits, or
        asyncio.run(check(MyAdapter))           # asyncio, or
        trio.run(check, MyAdapter)              # Trio

The contract is the one in `protocol.machine`, and a driver that breaks it makes a check raise
`ContractBroken` with the number of the rule and what was seen. `MyAdapter` is the only thing to
write: a `DriverUnderTest`, which starts the driver with the machine it is given and plays disk,
network and clock for it.

Most checks use a machine that plays a script, in the words (`Vocabulary`) of a real one:
`REPLICATION` for drivers of a `Replica`, `CONTROLLER` for those of a `Controller`. It knows no test
framework and no event loop. It says nothing about what a driver does with an effect, only when.
"""

from protocol.testing.driver import ContractBroken, DriverUnderTest, MakeDriver
from protocol.testing.suite import Check, checks
from protocol.testing.vocabulary import CONTROLLER, REPLICATION, Vocabulary

__all__ = [
    "CONTROLLER",
    "REPLICATION",
    "Check",
    "ContractBroken",
    "DriverUnderTest",
    "MakeDriver",
    "Vocabulary",
    "checks",
]
