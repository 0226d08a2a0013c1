"""Samples as Prometheus reads them. Names end in their unit, and in `_total` if they only grow.

Beyond `MAX_PARTITIONS` the series of partitions are added up per topic: a page of a hundred
thousand lines helps nobody, and would be paid for at every scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from net.metrics.counters import PartitionCounters
from net.metrics.samples import PartitionSample, Taken
from net.server.counters import LATENCY_BOUNDS_US, ServerCounters

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_PARTITIONS: Final = 2_000

_PARTITION_COUNTS: Final = {
    "bytes_in": "Bytes of batches that producers have written.",
    "batches_in": "Batches that producers have written.",
    "records_in": "Records that producers have written.",
    "bytes_out": "Bytes that consumers were sent.",
    "fetches": "Fetches of consumers that were answered.",
    "replication_bytes_in": "Bytes that were fetched from the leader.",
    "replication_bytes_out": "Bytes that followers were sent.",
    "rejected": "Batches that were refused.",
}
_SERVER_COUNTS: Final = {
    "bytes_in": "Bytes that came.",
    "bytes_out": "Bytes that were sent.",
    "opened": "Connections that were made.",
    "refused": "Connections that were one too many.",
    "queue_waits": "Times that a connection waited because too many requests were in work.",
    "internal_errors": "Requests that failed for a reason of ours.",
    "malformed": "Requests that were none.",
    "unlogged": "Lines left out of the log because there were too many of their kind.",
}
_SERVER_GAUGES: Final = {
    "connections": "Connections that are open.",
    "queued_bytes": "Bytes of requests in work.",
}
_PARTITION_GAUGES: Final[dict[str, tuple[str, Callable[[PartitionSample], int]]]] = {
    "log_bytes": ("Bytes of the log on this disk.", lambda each: each.size_bytes),
    "log_start_offset": ("The first offset of the log.", lambda each: each.log_start),
    "log_end_offset": ("The offset of the record to come.", lambda each: each.log_end),
    "high_watermark": ("What is committed ends here.", lambda each: each.high_watermark),
    "leader": ("Whether this broker leads the partition.", lambda each: int(each.is_leader)),
    "in_sync_replicas": ("Replicas in sync; 0 on a follower.", lambda each: each.in_sync),
}
_TOTALS: Final[dict[str, tuple[str, Callable[[PartitionSample], bool]]]] = {
    "partitions": ("Partitions of this broker.", lambda _each: True),
    "leaders": ("Partitions that this broker leads.", lambda each: each.is_leader),
    "under_replicated_partitions": (
        "Led partitions with fewer replicas in sync than replicas.",
        lambda each: each.is_leader and each.in_sync < each.replicas,
    ),
    "under_min_isr_partitions": (
        "Led partitions that take no acks=all writes.",
        lambda each: each.is_leader and each.in_sync < each.min_in_sync,
    ),
    "at_min_isr_partitions": (
        "Led partitions that would take no acks=all writes with one replica less in sync.",
        lambda each: each.is_leader and each.in_sync == each.min_in_sync,
    ),
    "offline_partitions": (
        "Partitions whose log this broker cannot use.",
        lambda each: each.is_offline,
    ),
}


class NodeCollector(Collector):
    """Makes Prometheus' families of the samples of one moment."""

    def __init__(self, taken: Taken) -> None:
        self._taken = taken

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        taken = self._taken
        yield _gauge("hwmark_node_id", "This node's number.", taken.node_id)
        yield from _partitions(taken.partitions)
        for name, (help_text, counts) in _TOTALS.items():
            yield _gauge(f"hwmark_{name}", help_text, sum(map(counts, taken.partitions)))
        for room, sample in (
            ("broker", taken.broker),
            ("quorum", taken.quorum),
            ("cluster", taken.cluster),
        ):
            if sample is not None:
                yield from _sampled(room, attrs.asdict(sample))
        for room, numbers in (
            ("broker", taken.broker_counts),
            ("controller", taken.controller_counts),
        ):
            for name, value in numbers.items():
                yield _counter(f"hwmark_{room}_{name}", _words(room, name), value)
        if taken.server is not None:
            yield from _server(taken.server)
            yield from _apis(taken.server, taken.api_names)


def exposition(taken: Taken) -> bytes:
    """Write samples in Prometheus' text format, with the process's own CPU time and memory."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(taken))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _words(room: str, name: str) -> str:
    return f"{room}: {name.replace('_', ' ')}."


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def _sampled(room: str, values: dict[str, int]) -> Iterator[Metric]:
    for name, value in values.items():
        yield _gauge(f"hwmark_{room}_{name}", _words(room, name), int(value))


def _server(server: ServerCounters) -> Iterator[Metric]:
    for name, help_text in _SERVER_COUNTS.items():
        yield _counter(f"hwmark_server_{name}", help_text, getattr(server, name))
    for name, help_text in _SERVER_GAUGES.items():
        yield _gauge(f"hwmark_server_{name}", help_text, getattr(server, name))
    closed = CounterMetricFamily(
        "hwmark_server_closed", "Connections that ended, by reason.", labels=["reason"]
    )
    for reason, count in server.closed.items():
        closed.add_metric([reason], count)
    yield closed


def _apis(server: ServerCounters, names: Mapping[int, str]) -> Iterator[Metric]:
    requests = CounterMetricFamily("hwmark_requests", "Requests that came.", labels=["api"])
    times = HistogramMetricFamily(
        "hwmark_request_seconds", "Time from a request to its answer.", labels=["api"]
    )
    for key, api in server.apis.items():
        requests.add_metric([names[key]], api.requests)
        buckets, below = [], 0
        for bound_us, count in zip((*LATENCY_BOUNDS_US, None), api.latency, strict=True):
            below += count
            buckets.append(("+Inf" if bound_us is None else str(bound_us / 1e6), below))
        times.add_metric([names[key]], buckets, api.latency_total_us / 1e6)
    yield requests
    yield times


def _partitions(samples: tuple[PartitionSample, ...]) -> Iterator[Metric]:
    whole = len(samples) > MAX_PARTITIONS
    shown = tuple(_per_topic(samples)) if whole else samples
    labels = [([each.topic, "all" if whole else str(each.partition)], each) for each in shown]
    for name, help_text in _PARTITION_COUNTS.items():
        counter = CounterMetricFamily(
            f"hwmark_partition_{name}", help_text, labels=["topic", "partition"]
        )
        for values, each in labels:
            counter.add_metric(values, getattr(each.counters, name))
        yield counter
    for name, (help_text, value) in _PARTITION_GAUGES.items():
        if whole and name != "log_bytes":
            continue
        gauge = GaugeMetricFamily(
            f"hwmark_partition_{name}", help_text, labels=["topic", "partition"]
        )
        for values, each in labels:
            gauge.add_metric(values, value(each))
        yield gauge


def _per_topic(samples: Iterable[PartitionSample]) -> Iterator[PartitionSample]:
    """Add up the counts and sizes of each topic; offsets of several partitions mean nothing."""
    topics: dict[str, list[PartitionSample]] = {}
    for each in samples:
        topics.setdefault(each.topic, []).append(each)
    for topic, members in topics.items():
        counters = PartitionCounters(
            **{
                name: sum(getattr(each.counters, name) for each in members)
                for name in _PARTITION_COUNTS
            }
        )
        size_bytes = sum(each.size_bytes for each in members)
        yield PartitionSample(topic, -1, counters, size_bytes=size_bytes)
