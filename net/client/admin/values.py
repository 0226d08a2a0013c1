"""What the admin client returns."""

from __future__ import annotations

import enum

import attrs


class ConfigKind(enum.IntEnum):
    """What a configuration is of, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


@attrs.frozen
class ConfigEntry:
    """One setting; `source` by Kafka's numbers: 1 the topic's own, 5 the default."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool


@attrs.frozen
class Reassignment:
    """A partition that moves: its replicas now, and those that come and go."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@attrs.frozen
class QuorumReplica:
    """A member of the quorum, or somebody who follows it; times are -1 if they are not told."""

    id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@attrs.frozen
class Quorum:
    """How the quorum of the metadata log stands."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@attrs.frozen
class LogDirReplica:
    """A replica in a folder."""

    topic: str
    partition: int
    size_bytes: int
    lag: int
    is_future: bool


@attrs.frozen
class LogDir:
    """A folder of a broker; sizes are -1 if they are not told."""

    path: str
    error: int
    total_bytes: int
    usable_bytes: int
    replicas: tuple[LogDirReplica, ...]
