"""Races that are worth telling one by one: late copies, late refusals, changes amid writes."""

from __future__ import annotations

import pytest

from protocol.controller import AlterPartition
from protocol.errors import ErrorCode
from protocol.machine import Event
from protocol.replication.events import ACKS_ALL, FetchAnswered, FetchReceived, ProposalRefused
from tests.protocol.replication.cluster import Cluster
from tests.protocol.replication.properties import check
from tests.protocol.replication.walk import healed


def place_of(cluster: Cluster, kind: type[Event]) -> int:
    """Find the oldest message of a kind."""
    kinds = [type(message.event) for message in cluster.messages]
    return kinds.index(kind)


def deliver(cluster: Cluster, kind: type[Event], *, again: bool = False) -> None:
    """Deliver the oldest message of a kind."""
    cluster.deliver(place_of(cluster, kind), again=again)
    check(cluster)


def append(cluster: Cluster, node: int, count: int = 1) -> None:
    """Let a leader append something with acks=all."""
    cluster.produce(node, ACKS_ALL, count)
    cluster.complete(node)


@pytest.fixture
def twice_proposed() -> Cluster:
    """Broker 2 was fenced and has caught up; that it joins was proposed twice, and refused once."""
    cluster = Cluster(size=2, min_isr=1)
    cluster.fence(2)
    cluster.learn(1)
    cluster.due(2)
    deliver(cluster, FetchReceived)
    cluster.due(1)
    cluster.tick(30)
    cluster.due(1)
    deliver(cluster, AlterPartition)
    deliver(cluster, ProposalRefused)
    append(cluster, 1)
    cluster.heartbeat(2)
    return cluster


def test_a_copy_of_a_refused_proposal_may_be_accepted_late(twice_proposed: Cluster) -> None:
    cluster = twice_proposed
    assert cluster.record.isr == {1}
    deliver(cluster, AlterPartition)
    # Broker 2 is in sync, and has not got what was appended since: that is not committed.
    assert cluster.record.isr == {1, 2}
    assert cluster.committed == []
    assert healed(cluster, rounds=50)


def test_a_withdrawal_outdates_the_copies_of_a_refused_proposal(twice_proposed: Cluster) -> None:
    cluster = twice_proposed
    copy = cluster.messages.pop(place_of(cluster, AlterPartition))
    deliver(cluster, AlterPartition)
    cluster.learn(1)
    assert len(cluster.committed) == 1
    cluster.messages.append(copy)
    deliver(cluster, AlterPartition)
    refusal = cluster.messages[place_of(cluster, ProposalRefused)].event
    assert isinstance(refusal, ProposalRefused)
    assert refusal.error == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.record.isr == {1}
    deliver(cluster, ProposalRefused)
    assert healed(cluster, rounds=50)


def test_an_answer_to_a_fetch_that_was_sent_again_is_taken_once() -> None:
    cluster = Cluster(size=2, min_isr=1)
    append(cluster, 1, count=2)
    cluster.due(2)
    cluster.tick(60)
    cluster.due(2)
    deliver(cluster, FetchReceived)
    deliver(cluster, FetchReceived)
    deliver(cluster, FetchAnswered, again=True)
    cluster.complete(2)
    deliver(cluster, FetchAnswered)
    deliver(cluster, FetchAnswered)
    assert cluster.nodes[2].writes == []
    assert len(cluster.nodes[2].disk) == 2
    assert healed(cluster, rounds=50)


def test_what_is_being_written_when_a_leader_falls_ends_in_the_epoch_in_which_it_began() -> None:
    cluster = Cluster(size=3, min_isr=2)
    cluster.produce(1, ACKS_ALL, 2)
    cluster.fence(1)
    cluster.learn(1)
    cluster.learn(2)
    append(cluster, 2)
    cluster.complete(1)
    assert [epoch for epoch, _ in cluster.nodes[1].disk] == [1, 1]
    cluster.due(1)
    assert cluster.nodes[1].state.view.leader == 2
    assert healed(cluster, rounds=50)
    assert [epoch for epoch, _ in cluster.committed] == [2]


def test_what_a_crash_left_on_the_disk_unnoticed_is_cut_or_kept_as_the_leader_says() -> None:
    cluster = Cluster(size=3, min_isr=2)
    cluster.produce(1, ACKS_ALL)
    cluster.crash(1, written=1)
    cluster.fence(1)
    cluster.learn(2)
    append(cluster, 2)
    cluster.restart(1)
    assert healed(cluster, rounds=50)
    assert [epoch for epoch, _ in cluster.nodes[1].disk] == [2]
    assert cluster.acked == {2}
