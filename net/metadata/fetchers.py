"""What fetching nodes have been told: the high watermark, by connection.

Fetch has no field for the high watermark that a follower knows, and the core wants it, so that a
fetch waits only when there is no news. So what was told last on a connection is remembered: if that
answer was lost, the connection was too, or the next fetch waits its time once and is told again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from protocol.types import NodeId, Offset

_MAX_REMEMBERED: Final = 2_000


class Fetchers:
    """The high watermark that each fetching node was told last, and on which connection."""

    def __init__(self) -> None:
        self._told: OrderedDict[NodeId, tuple[str, Offset]] = OrderedDict()

    def known_to(self, node: NodeId, connection: str) -> Offset:
        """Tell what a node knows, if it has heard it on this very connection; else 0."""
        before, high_watermark = self._told.get(node, ("", 0))
        return high_watermark if before == connection else 0

    def told(self, node: NodeId, connection: str, high_watermark: Offset) -> None:
        """Remember what a node is told now."""
        self._told[node] = connection, high_watermark
        self._told.move_to_end(node)
        while len(self._told) > _MAX_REMEMBERED:
            self._told.popitem(last=False)
