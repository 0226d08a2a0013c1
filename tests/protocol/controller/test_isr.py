"""AlterPartition: a leader proposes an ISR, and the controller sets it or says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest

from protocol.controller import ControllerRules, PartitionRecord
from protocol.errors import ErrorCode, InvariantViolation

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster


@pytest.fixture
def shrunk(cluster: Callable[..., Cluster]) -> Cluster:
    """Three brokers; 1 leads a partition from whose ISR 3 was taken out."""
    three: Cluster = cluster(3)
    three.topic((1, 2, 3), min_isr=2)
    three.do(three.proposal({1, 2}))
    return three


def test_a_current_proposal_is_set_and_answered_with_the_new_record(shrunk: Cluster) -> None:
    before = shrunk.partition()
    after = shrunk.do(shrunk.proposal({1}))
    assert after == shrunk.partition()
    assert after == attrs.evolve(
        before, isr=frozenset({1}), elr=frozenset({2}), version=before.version + 1
    )
    assert shrunk.records[-1] == PartitionRecord(shrunk.partition())


def test_a_replica_that_caught_up_joins(shrunk: Cluster) -> None:
    shrunk.do(shrunk.proposal({1, 2, 3}, joiner_epoch=1))
    assert shrunk.partition().isr == {1, 2, 3}


def test_a_proposal_is_accepted_once(shrunk: Cluster) -> None:
    proposal = shrunk.proposal({1})
    shrunk.do(proposal)
    assert shrunk.refused(proposal) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_version_to_come_is_refused(shrunk: Cluster) -> None:
    version = shrunk.partition().version
    proposal = attrs.evolve(shrunk.proposal({1}), version=version + 1)
    assert shrunk.refused(proposal) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_former_leader_hears_of_the_new_epoch(shrunk: Cluster) -> None:
    proposal = shrunk.proposal({1})
    shrunk.fence(1)
    assert shrunk.refused(proposal) == ErrorCode.FENCED_LEADER_EPOCH


def test_a_former_incarnation_hears_that_it_is_one(shrunk: Cluster) -> None:
    proposal = shrunk.proposal({1})
    shrunk.register(1)
    assert shrunk.refused(proposal) == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("isr", [set(), {1, 9}, {2}])
def test_an_isr_that_no_leader_proposes_is_refused(shrunk: Cluster, isr: set[int]) -> None:
    assert shrunk.refused(shrunk.proposal(isr)) == ErrorCode.INVALID_REQUEST


def test_only_the_leader_of_an_epoch_proposes_in_it(shrunk: Cluster) -> None:
    proposal = attrs.evolve(shrunk.proposal({1, 2}), node=2)
    assert shrunk.refused(proposal) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("topic", "index"), [("t", 1), ("u", 0)])
def test_a_partition_has_to_exist(shrunk: Cluster, topic: str, index: int) -> None:
    proposal = attrs.evolve(shrunk.proposal({1}), topic=topic, index=index)
    assert shrunk.refused(proposal) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_kip_841_a_fenced_broker_does_not_join(shrunk: Cluster) -> None:
    shrunk.fence(3)
    proposal = shrunk.proposal({1, 2, 3}, joiner_epoch=1)
    assert shrunk.refused(proposal) == ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_that_is_about_to_stop_does_not_join(shrunk: Cluster) -> None:
    shrunk.heartbeat(3, wants_shutdown=True)
    proposal = shrunk.proposal({1, 2, 3}, joiner_epoch=1)
    assert shrunk.refused(proposal) == ErrorCode.INELIGIBLE_REPLICA


def test_kip_903_a_later_incarnation_does_not_join_for_an_earlier_one(shrunk: Cluster) -> None:
    shrunk.register(3)
    shrunk.heartbeat(3)
    assert (
        shrunk.refused(shrunk.proposal({1, 2, 3}, joiner_epoch=1)) == ErrorCode.INELIGIBLE_REPLICA
    )
    shrunk.do(shrunk.proposal({1, 2, 3}, joiner_epoch=2))


def test_all_who_join_have_to_be_eligible(shrunk: Cluster) -> None:
    shrunk.do(shrunk.proposal({1}))
    shrunk.fence(3)
    proposal = shrunk.proposal({1, 2, 3}, joiner_epoch=1)
    assert shrunk.refused(proposal) == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_stays_is_not_asked_for_its_epoch(shrunk: Cluster) -> None:
    before = shrunk.partition()
    shrunk.do(shrunk.proposal({1, 2}, joiner_epoch=77))
    assert shrunk.partition() == attrs.evolve(before, version=before.version + 1)


def test_a_proposal_is_judged_by_the_rules_alone(cluster: Callable[..., Cluster]) -> None:
    # Else a mutant of the spec would do what the same mutant of the code does not.
    any_version = attrs.evolve(
        ControllerRules(), proposal_is_current=lambda _record, _version: True
    )
    for rules, isr in ((ControllerRules(), {2}), (any_version, {1, 2, 3})):
        three: Cluster = cluster(3, rules=rules)
        three.topic((1, 2, 3))
        three.do(three.proposal({1, 2}))
        late = three.proposal({1, 2, 3}, joiner_epoch=1)
        three.fence(1)
        three.heartbeat(1)
        three.handle(late)
        assert three.partition().isr == isr
        assert three.partition().leader == 2


def test_a_late_proposal_of_a_restarted_leader_is_judged_by_the_rules_alone(
    cluster: Callable[..., Cluster],
) -> None:
    rules = ControllerRules(
        proposal_is_current=lambda _record, _version: True,
        may_be_added=lambda _fenced: True,
        broker_epoch_is_current=lambda _registered, _claimed: True,
    )
    mutant: Cluster = cluster(3, rules=rules)
    mutant.topic((1, 2, 3))
    late = mutant.proposal({1})
    mutant.register(1, clean=False)
    with pytest.raises(InvariantViolation, match="LeaderInIsr"):
        mutant.handle(late)


def test_an_isr_without_the_leader_is_refused_whatever_epoch_its_sender_claims(
    shrunk: Cluster,
) -> None:
    proposal = attrs.evolve(shrunk.proposal({2}), leader_epoch=99)
    assert shrunk.refused(proposal) == ErrorCode.INVALID_REQUEST
