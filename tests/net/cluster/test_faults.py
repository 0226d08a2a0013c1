"""Brokers are killed, frozen, restarted and robbed of their disks while a producer writes.

Each time: nothing acknowledged is lost, nothing is there twice or out of order, and service resumes
by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.net.cluster.harness import LocalCluster, until
from tests.net.cluster.histories import check, read_all
from tests.net.cluster.loads import ConfluentLoad, Load
from tests.net.cluster.raw import RawProducer

PARTITIONS = 6
pytestmark = pytest.mark.slow


@pytest.fixture
def load(cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[Load]:
    """A producer under way, idempotent and with acks=all, to partitions that all brokers lead."""
    try:
        with ConfluentLoad(cluster.bootstrap, new_topic(PARTITIONS), PARTITIONS) as found:
            found.goes_on()
            yield found
    finally:
        cluster.heal()


def _finish(load: Load) -> None:
    load.goes_on()
    load.finish()
    check(load)


def test_the_active_controller_is_killed(cluster: LocalCluster, load: Load) -> None:
    controller = cluster.active_controller()
    cluster.kill(controller)
    load.goes_on()
    assert cluster.active_controller() != controller
    # It is one that decides: what was led by the one that is gone is led by others.
    for partition in range(PARTITIONS):
        cluster.leader_after(load.topic, partition, controller)
    _finish(load)


def test_a_leader_is_frozen_and_returns(cluster: LocalCluster, load: Load) -> None:
    leader = cluster.leader_of(load.topic)
    cluster.pause(leader)
    assert cluster.leader_after(load.topic, 0, leader) != leader
    load.goes_on()
    cluster.resume(leader)
    until("the frozen one is in sync again", lambda: leader in cluster.isr_of(load.topic))
    _finish(load)


def test_the_whole_cluster_is_restarted(cluster: LocalCluster, load: Load) -> None:
    for number in cluster.brokers:
        cluster.ask_to_stop(number)
    assert [cluster.ended(number) for number in cluster.brokers] == [0, 0, 0]
    for number in cluster.brokers:
        cluster.start(number)
    load.goes_on()
    load.finish()
    check(load)


def test_every_broker_is_killed_at_once(cluster: LocalCluster, load: Load) -> None:
    acked = len(load.acked)
    cluster.kill_all()
    for number in cluster.brokers:
        cluster.start(number)
    _finish(load)
    assert len(load.acked) > acked


def test_the_cluster_is_rolled(cluster: LocalCluster, load: Load) -> None:
    for number in cluster.brokers:
        assert cluster.stop(number) == 0
        load.goes_on(50)
        cluster.start(number)
        cluster.wait_ready([number])
        until("all replicas are in sync", cluster.is_whole)
    _finish(load)


def test_a_broker_that_lost_its_disk_comes_back_as_a_new_one(
    cluster: LocalCluster, load: Load
) -> None:
    victim = cluster.leader_of(load.topic)
    cluster.kill(victim)
    cluster.leader_after(load.topic, 0, victim)
    cluster.wipe(victim)
    cluster.start(victim)
    load.goes_on()
    cluster.wait_ready([victim])
    until("all replicas are in sync", cluster.is_whole)
    _finish(load)
    # What it has copied is read from it: the others stop one by one, and those in sync take over.
    others = [number for number in cluster.brokers if number != victim]
    led = set(range(PARTITIONS))
    assert cluster.stop(others[0]) == 0
    led = {each for each in led if cluster.leader_after(load.topic, each, others[0]) == victim}
    assert led
    for partition in led:
        acked = {each.value for each in load.acked if each.partition == partition}
        log = read_all(cluster.bootstrap, load.topic, partition)
        assert acked <= {value for _, value in log}


def test_a_stale_leader_that_returns_acknowledges_nothing(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    stale = cluster.leader_of(topic)
    try:
        with RawProducer(cluster.plan.node(stale).port) as raw:
            raw.send(topic, b"w-0-before", acks=-1, timeout_ms=30_000)
            assert raw.receive().error_code == 0
            cluster.pause(stale)
            # It is the first thing that it finds when it goes on, still sure that it leads.
            raw.send(topic, b"w-9-stale", acks=-1, timeout_ms=30_000)
            new = cluster.leader_after(topic, 0, stale)
            with RawProducer(cluster.plan.node(new).port) as other:
                other.send(topic, b"w-1-after", acks=-1, timeout_ms=30_000)
                assert other.receive().error_code == 0
            cluster.resume(stale)
            with contextlib.suppress(ConnectionError):
                assert raw.receive().error_code != 0
        until("it is in sync again", lambda: stale in cluster.isr_of(topic))
        log = [value for _, value in read_all(cluster.bootstrap, topic, 0)]
        assert log == [b"w-0-before", b"w-1-after"]
    finally:
        cluster.heal()
