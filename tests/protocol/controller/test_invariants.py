"""A controller with a wrong rule stops at its first bad step, and says which invariant it broke."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest

from protocol.controller import (
    BrokerRecord,
    Controller,
    ControllerRules,
    ElectionKind,
    ElectLeaders,
    SessionExpired,
    apply,
)
from protocol.errors import InvariantViolation

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster

RULES = ControllerRules()


def test_an_epoch_that_stays_is_seen(cluster: Callable[..., Cluster]) -> None:
    mutant: Cluster = cluster(2, rules=attrs.evolve(RULES, next_epoch=lambda epoch: epoch))
    mutant.topic((1, 2))
    before = mutant.machine.state
    with pytest.raises(InvariantViolation, match="SingleLeaderPerEpoch") as caught:
        mutant.fence(1)
    assert isinstance(caught.value.event, SessionExpired)
    assert mutant.machine.state.image is before.image


def test_a_version_that_stays_is_seen(cluster: Callable[..., Cluster]) -> None:
    mutant: Cluster = cluster(2, rules=attrs.evolve(RULES, next_version=lambda version: version))
    mutant.topic((1, 2))
    with pytest.raises(InvariantViolation, match="VersionGrows"):
        mutant.do(mutant.proposal({1}))


def test_a_fenced_joiner_is_seen(cluster: Callable[..., Cluster]) -> None:
    mutant: Cluster = cluster(2, rules=attrs.evolve(RULES, may_be_added=lambda _fenced: True))
    mutant.topic((1, 2))
    mutant.fence(2)
    with pytest.raises(InvariantViolation, match="NoFencedInIsr"):
        mutant.do(mutant.proposal({1, 2}, joiner_epoch=1))


def test_an_elr_that_overlaps_the_isr_is_seen(cluster: Callable[..., Cluster]) -> None:
    overlap = attrs.evolve(
        RULES,
        eligible_leader_replicas=lambda partition, _isr, _lost, _min_isr: partition.isr,
    )
    mutant: Cluster = cluster(2, rules=overlap)
    mutant.topic((1, 2))
    with pytest.raises(InvariantViolation, match="TypeOk"):
        mutant.do(mutant.proposal({1}))


def test_a_leader_outside_the_isr_is_seen(cluster: Callable[..., Cluster]) -> None:
    outside = attrs.evolve(RULES, isr_after_election=lambda partition, _replica: partition.isr)
    mutant: Cluster = cluster(1, rules=outside)
    mutant.topic((1,))
    mutant.fence(1)
    mutant.heartbeat(1)
    with pytest.raises(InvariantViolation, match="LeaderInIsr"):
        mutant.settle()


def test_a_stranger_in_the_isr_is_seen(cluster: Callable[..., Cluster]) -> None:
    stranger = attrs.evolve(
        RULES, isr_after_election=lambda partition, replica: partition.isr | {replica, 3}
    )
    mutant: Cluster = cluster(3, rules=stranger)
    mutant.topic((1, 2))
    with pytest.raises(InvariantViolation, match="TypeOk"):
        mutant.fence(1)


def test_a_broker_that_is_fenced_but_stays_somewhere_is_seen(
    cluster: Callable[..., Cluster],
) -> None:
    # As if departing had missed a partition, whose record then does not change at all.
    two: Cluster = cluster(2)
    two.topic((1, 2))
    before = two.machine.state
    record = BrokerRecord(attrs.evolve(two.image.brokers[1], fenced=True))
    after = attrs.evolve(before, image=apply(before.image, record), last_records=(record,))
    with pytest.raises(InvariantViolation, match="NoFencedInIsr"):
        two.machine.check(SessionExpired(1), before, after)


def test_an_election_by_the_right_rules_breaks_nothing(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.fence(1)
    two.heartbeat(1)
    two.do(two.proposal({1, 2}, joiner_epoch=1))
    two.do(ElectLeaders("elect", ElectionKind.PREFERRED))
    assert two.partition().leader == 1


def test_whoever_explores_wrong_rules_can_look_on(cluster: Callable[..., Cluster]) -> None:
    class Unchecked(Controller):
        __slots__ = ()

        def check(self, *_: object) -> None:
            """Let everything pass."""

    mutant: Cluster = cluster(2, rules=attrs.evolve(RULES, next_epoch=lambda epoch: epoch))
    mutant.topic((1, 2))
    machine = Unchecked(mutant.machine.state, mutant.machine.rules)
    machine.handle(SessionExpired(1), 10**6)
    assert machine.state.image.partitions["t", 0].leader == 2
