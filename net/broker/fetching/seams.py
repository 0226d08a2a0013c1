"""What serving a fetch needs of others: partitions, where to find them, and the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias
from uuid import UUID

from net.metrics.counters import PartitionCounters
from net.transport.seam import FileRegion, Part
from protocol.errors import ErrorCode
from protocol.machine import Event
from protocol.replication import ReplicaState
from storage.checkpoint import TopicPartition
from storage.log.log import Log

Key: TypeAlias = tuple[UUID, int]
"""Topic and partition, as brokers name them."""


class Watch(Protocol):
    """Somebody who is told of changes."""

    def cancel(self) -> None:
        """Be told no more."""


class Served(Protocol):
    """A partition that somebody fetches from: see `net.broker.partition.Partition`."""

    @property
    def key(self) -> TopicPartition: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def state(self) -> ReplicaState: ...
    @property
    def log(self) -> Log: ...
    @property
    def counters(self) -> PartitionCounters: ...
    def deliver(self, event: Event) -> None: ...
    def read(self, offset: int, end_offset: int, max_bytes: int) -> FileRegion | None: ...
    def watch(self, call: Callable[[], None], /) -> Watch: ...


class Finder(Protocol):
    """Where to find partitions: see `net.broker.replicas.Replicas`."""

    def find(self, topic_id: UUID, index: int) -> Served | ErrorCode: ...
    def find_by_name(self, topic: str, index: int) -> Served | ErrorCode: ...


class Asker(Protocol):
    """The request that is answered: see `net.server.request.Request`."""

    @property
    def version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    def reply(self, parts: Sequence[Part]) -> None: ...
