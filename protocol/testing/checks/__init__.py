"""The checks, one module per rule of the contract; importing this fills the table.

Each looks at its own rule alone, so that a driver that breaks one rule hears of that one.
"""

from protocol.testing.checks import clock, deadlines, order, replica, violations, writes
from protocol.testing.checks.table import SCENARIOS

__all__ = ["SCENARIOS", "clock", "deadlines", "order", "replica", "violations", "writes"]
