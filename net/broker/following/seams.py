"""What a fetcher needs of others: the partitions it fetches for, and a line to their leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias
from uuid import UUID

import attrs

from net.transport.seam import Buffer
from protocol.machine import Event
from protocol.types import NodeId
from storage.checkpoint import TopicPartition

Key: TypeAlias = tuple[UUID, int]
"""Topic and partition, as they are named on the wire."""


class Follower(Protocol):
    """What a fetcher needs of a partition that follows."""

    @property
    def key(self) -> TopicPartition: ...
    @property
    def topic_id(self) -> UUID: ...
    def deliver(self, event: Event) -> None:
        """Let the replica hear what came of its fetch."""


class Line(Protocol):
    """What a fetcher needs of a channel, which nobody else uses."""

    def request(
        self,
        api: int,
        version: int,
        parts: Sequence[Buffer],
        on_answer: Callable[[memoryview], None],
        on_failure: Callable[[Exception], None],
        timeout_ms: int,
    ) -> int: ...
    def close(self) -> None: ...


@attrs.frozen
class FetcherConfig:
    """Settings of `replica.fetch.*`, and `replica.socket.timeout.ms`; `node` is this broker."""

    node: NodeId
    wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    timeout_ms: int = 30_000
    linger_ms: int = 2
    backoff_ms: int = 50
    max_backoff_ms: int = 1_000
