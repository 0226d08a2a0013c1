"""What a node tells of itself when somebody asks: values of this moment, taken on its loop.

A `Sources` is what the node gives once: its counters, and functions that make samples. Everything
is optional, as a node may be a broker, a controller, or both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping

import attrs

from net.metrics.counters import BrokerCounters, ControllerCounters, PartitionCounters
from net.server.counters import ServerCounters


@attrs.frozen
class PartitionSample:
    """One partition as its broker sees it now."""

    topic: str
    partition: int
    counters: PartitionCounters
    is_leader: bool = False
    log_start: int = 0
    log_end: int = 0
    high_watermark: int = 0
    size_bytes: int = 0
    replicas: int = 0
    in_sync: int = 0
    """Only a leader knows; 0 on a follower."""
    min_in_sync: int = 1
    is_offline: bool = False


@attrs.frozen
class BrokerSample:
    """What a broker has now that is of no one partition."""

    fenced: bool = False
    epoch: int = 0
    waiting_produces: int = 0
    waiting_fetches: int = 0
    fetch_sessions: int = 0
    metadata_offset: int = 0


@attrs.frozen
class QuorumSample:
    """The metadata quorum as this node sees it; -1 for a leader that is not known."""

    leader: int = -1
    epoch: int = 0
    high_watermark: int = 0
    log_end: int = 0
    is_voter: bool = False
    is_active_controller: bool = False


@attrs.frozen
class ClusterSample:
    """What the active controller sees of the whole cluster."""

    brokers: int = 0
    fenced_brokers: int = 0
    topics: int = 0
    partitions: int = 0
    leaderless_partitions: int = 0


@attrs.frozen
class Sources:
    """Where the numbers of a node are."""

    node_id: int
    partitions: Callable[[], Iterable[PartitionSample]] = tuple
    broker: Callable[[], BrokerSample | None] = lambda: None
    quorum: Callable[[], QuorumSample | None] = lambda: None
    cluster: Callable[[], ClusterSample | None] = lambda: None
    server: ServerCounters | None = None
    broker_counters: BrokerCounters | None = None
    controller_counters: ControllerCounters | None = None
    api_name: Callable[[int], str] = str
    is_ready: Callable[[], bool] = lambda: True


@attrs.frozen
class Taken:
    """All samples of one moment; nothing in it changes afterwards."""

    node_id: int
    partitions: tuple[PartitionSample, ...]
    broker: BrokerSample | None
    quorum: QuorumSample | None
    cluster: ClusterSample | None
    server: ServerCounters | None
    broker_counts: Mapping[str, int]
    controller_counts: Mapping[str, int]
    api_names: Mapping[int, str]


def take(sources: Sources) -> Taken:
    """Take all samples, on the loop: copies of numbers, so that a thread may format them."""
    server = copy.deepcopy(sources.server)
    return Taken(
        sources.node_id,
        tuple(
            attrs.evolve(each, counters=attrs.evolve(each.counters))
            for each in sources.partitions()
        ),
        sources.broker(),
        sources.quorum(),
        sources.cluster(),
        server,
        _counts(sources.broker_counters),
        _counts(sources.controller_counters),
        {} if server is None else {key: sources.api_name(key) for key in server.apis},
    )


def _counts(counters: BrokerCounters | ControllerCounters | None) -> dict[str, int]:
    return {} if counters is None else attrs.asdict(counters)
