"""What a node of the quorum does about each event; importing this fills the table.

One event is one action. The modules are by subject, and each says what it is about.
"""

from protocol.quorum.actions import elections, epochs, fetches, following, leading, writes
from protocol.quorum.actions.table import action

__all__ = ["action", "elections", "epochs", "fetches", "following", "leading", "writes"]
