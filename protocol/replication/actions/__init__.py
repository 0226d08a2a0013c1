"""What a replica does about each event; importing this fills the table.

One event is one action. The modules are by subject, and each says what it is about.
"""

from protocol.replication.actions import fetch, follow, isr, produce, queries, roles, writes
from protocol.replication.actions.table import action

__all__ = ["action", "fetch", "follow", "isr", "produce", "queries", "roles", "writes"]
