"""What the leader's half does about each event; importing this fills the table.

One event is one action. The modules are by subject, and each says what it is about.
"""

from protocol.idempotence.actions import arrivals, completions, upkeep
from protocol.idempotence.actions.table import action

__all__ = ["action", "arrivals", "completions", "upkeep"]
