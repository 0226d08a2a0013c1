"""The seam between a node of the quorum and the others: what it sends, and what comes of it.

The real one is `net.metadata.wire_peers`, on channels. Whatever carries the messages, they may be
lost, and an answer may come late; it comes at most once, on the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from protocol.machine import Event
from protocol.quorum.effects import (
    AnnounceLeader,
    AskForLeader,
    EndEpoch,
    SendFetch,
    SendVoteRequest,
)
from protocol.quorum.log import SnapshotId
from protocol.types import Epoch, NodeId

Sent: TypeAlias = SendVoteRequest | AnnounceLeader | EndEpoch | AskForLeader | SendFetch
Told: TypeAlias = Callable[[Event], None]


@attrs.frozen
class SnapshotPart:
    """Some bytes of a snapshot, from `position` on, of `size_bytes` that it has."""

    snapshot: SnapshotId
    size_bytes: int
    position: int
    content: bytes


class QuorumPeers(Protocol):
    """Sends to voters, by their node ids."""

    def send(self, effect: Sent, told: Told) -> None:
        """Put a message on its way; `told` gets the event that comes of it, if one does.

        A fetch that nobody answers, or not with what a fetch is answered with, becomes an empty
        `FetchRefused`. Of the others nothing comes then.
        """

    def fetch_part(
        self,
        leader: NodeId,
        epoch: Epoch,
        snapshot: SnapshotId,
        position: int,
        got: Callable[[SnapshotPart | None], None],
    ) -> None:
        """Ask the leader for bytes of its snapshot; `None` if it has none, or nobody answers."""
