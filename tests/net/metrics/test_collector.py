"""What is counted is what Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from net.metrics import (
    BrokerCounters,
    BrokerSample,
    ClusterSample,
    ControllerCounters,
    PartitionCounters,
    PartitionSample,
    QuorumSample,
    Sources,
)
from net.metrics.collector import MAX_PARTITIONS, exposition
from net.metrics.samples import take
from net.server.counters import ServerCounters

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(page: bytes) -> Samples:
    """Read a page as Prometheus does: each series once, by name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(page.decode("utf-8")):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    """Return one series' value."""
    return samples[name, tuple(sorted(labels.items()))]


def sample(index: int, in_sync: int = 3) -> PartitionSample:
    """Make a led partition with three replicas."""
    counters = PartitionCounters(bytes_in=10)
    return PartitionSample(
        "t", index, counters, is_leader=True, replicas=3, in_sync=in_sync, min_in_sync=2
    )


def test_every_count_of_a_partition_has_a_series() -> None:
    counters = PartitionCounters(1, 2, 3, 4, 5, 6, 7, 8)
    part = PartitionSample('a"\\\n', 3, counters, high_watermark=9, size_bytes=11)
    samples = read(exposition(take(Sources(1, partitions=lambda: [part]))))
    labels = {"topic": 'a"\\\n', "partition": "3"}
    names = ["bytes_in", "batches_in", "records_in", "bytes_out", "fetches"]
    names += ["replication_bytes_in", "replication_bytes_out", "rejected"]
    for expected, name in enumerate(names, start=1):
        assert value(samples, f"hwmark_partition_{name}_total", **labels) == expected
    assert value(samples, "hwmark_partition_high_watermark", **labels) == 9
    assert value(samples, "hwmark_partition_log_bytes", **labels) == 11


def test_partitions_in_trouble_are_counted() -> None:
    parts = [sample(0), sample(1, in_sync=2), sample(2, in_sync=1)]
    parts.append(PartitionSample("t", 3, PartitionCounters(), replicas=3, is_offline=True))
    samples = read(exposition(take(Sources(1, partitions=lambda: parts))))
    assert value(samples, "hwmark_partitions") == 4
    assert value(samples, "hwmark_leaders") == 3
    assert value(samples, "hwmark_under_replicated_partitions") == 2
    assert value(samples, "hwmark_at_min_isr_partitions") == 1
    assert value(samples, "hwmark_under_min_isr_partitions") == 1
    assert value(samples, "hwmark_offline_partitions") == 1


def test_requests_are_counted_into_buckets() -> None:
    server = ServerCounters(connections=12, bytes_in=13, queued_bytes=14)
    server.closed["idle"] += 2
    for duration_us in (0, 3, 4, 99_000_000):
        server.api(0).requests += 1
        server.api(0).took(duration_us)
    samples = read(exposition(take(Sources(1, server=server, api_name=["Produce"].__getitem__))))
    bucket = "hwmark_request_seconds_bucket"
    assert value(samples, bucket, api="Produce", le="1e-06") == 1
    assert value(samples, bucket, api="Produce", le="4e-06") == 2
    assert value(samples, bucket, api="Produce", le="8e-06") == 3
    assert value(samples, bucket, api="Produce", le="+Inf") == 4
    assert value(samples, "hwmark_requests_total", api="Produce") == 4
    assert value(samples, "hwmark_request_seconds_sum", api="Produce") == 99.000007
    assert value(samples, "hwmark_server_connections") == 12
    assert value(samples, "hwmark_server_bytes_in_total") == 13
    assert value(samples, "hwmark_server_queued_bytes") == 14
    assert value(samples, "hwmark_server_closed_total", reason="idle") == 2


def test_a_node_tells_of_its_roles_and_its_process() -> None:
    sources = Sources(
        7,
        broker=lambda: BrokerSample(waiting_produces=4, epoch=2),
        quorum=lambda: QuorumSample(leader=3, epoch=5, high_watermark=6, log_end=8),
        cluster=lambda: ClusterSample(brokers=3),
        broker_counters=BrokerCounters(isr_shrinks=1),
        controller_counters=ControllerCounters(elections=2),
    )
    samples = read(exposition(take(sources)))
    expected = {
        "hwmark_node_id": 7,
        "hwmark_broker_waiting_produces": 4,
        "hwmark_quorum_leader": 3,
        "hwmark_quorum_log_end": 8,
        "hwmark_cluster_brokers": 3,
        "hwmark_broker_isr_shrinks_total": 1,
        "hwmark_controller_elections_total": 2,
    }
    assert {name: value(samples, name) for name in expected} == expected
    assert value(samples, "process_resident_memory_bytes") > 0
    assert value(samples, "process_cpu_seconds_total") > 0


def test_a_node_with_one_role_says_nothing_of_the_other() -> None:
    samples = read(exposition(take(Sources(1))))
    assert not [name for name, _ in samples if name.startswith(("hwmark_broker", "hwmark_quorum"))]


def test_beyond_a_bound_partitions_are_added_up_per_topic() -> None:
    parts = [sample(index) for index in range(MAX_PARTITIONS + 1)]
    samples = read(exposition(take(Sources(1, partitions=lambda: parts))))
    total = value(samples, "hwmark_partition_bytes_in_total", topic="t", partition="all")
    assert total == 10 * len(parts)
    assert value(samples, "hwmark_leaders") == len(parts)
    assert len([name for name, _ in samples if name == "hwmark_partition_bytes_in_total"]) == 1


def test_what_was_taken_does_not_change_when_the_node_goes_on() -> None:
    part, server = sample(0), ServerCounters()
    server.api(0).took(1)
    taken = take(Sources(1, partitions=lambda: [part], server=server))
    before = exposition(taken).split(b"# HELP process_")[0]
    part.counters.bytes_in += 1
    server.api(0).took(1)
    server.closed["idle"] += 1
    assert exposition(taken).split(b"# HELP process_")[0] == before
