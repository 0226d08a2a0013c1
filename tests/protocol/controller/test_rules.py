"""The rules and decisions of `spec/Controller.tla`, by small examples; replicas are 1, 2, 3."""

from __future__ import annotations

import attrs
import pytest

from protocol.controller import ControllerRules, Partition
from protocol.controller.decisions import (
    cancel_reassignment,
    change_isr,
    depart,
    elect,
    elect_uncleanly,
    finish_reassignment,
)
from protocol.types import NO_LEADER

RULES = ControllerRules()
NOBODY: frozenset[int] = frozenset()


def nodes(*members: int) -> frozenset[int]:
    return frozenset(members)


def record(
    isr: frozenset[int], elr: frozenset[int] = NOBODY, leader: int = 1, version: int = 7
) -> Partition:
    """A partition of three replicas, in epoch 4."""
    return Partition("t", 0, (1, 2, 3), isr, elr, leader, leader_epoch=4, version=version)


@pytest.mark.parametrize(
    ("isr", "lost", "eligible"),
    [
        (nodes(1, 2), NOBODY, NOBODY),
        (nodes(1), NOBODY, nodes(2, 3)),
        (nodes(1), nodes(2), nodes(3)),
        (NOBODY, NOBODY, nodes(1, 2, 3)),
    ],
)
def test_whoever_left_an_isr_too_small_to_commit_stays_eligible(
    isr: frozenset[int], lost: frozenset[int], eligible: frozenset[int]
) -> None:
    before = record(nodes(1, 2), elr=nodes(3))
    assert RULES.eligible_leader_replicas(before, isr, lost, 2) == eligible


def test_an_in_sync_replica_comes_before_an_eligible_one() -> None:
    both = record(nodes(1, 2), elr=nodes(3))
    assert RULES.candidates(both, nodes(1)) == {2}
    assert RULES.candidates(both, nodes(1, 2)) == {3}
    assert RULES.candidates(both, nodes(1, 2, 3)) == NOBODY


def test_the_small_guards() -> None:
    assert RULES.loses_eligibility(False)
    assert not RULES.loses_eligibility(True)
    assert RULES.may_be_added(False)
    assert not RULES.may_be_added(True)
    assert RULES.broker_epoch_is_current(2, 2)
    assert not RULES.broker_epoch_is_current(2, 1)
    assert not RULES.broker_epoch_is_current(1, 2)
    assert RULES.proposal_is_current(record(nodes(1)), 7)
    assert not RULES.proposal_is_current(record(nodes(1)), 6)
    assert not RULES.proposal_is_current(record(nodes(1)), 8)


@pytest.mark.parametrize(
    ("allowed", "leader", "candidates", "may"),
    [
        (True, NO_LEADER, NOBODY, True),
        (False, NO_LEADER, NOBODY, False),
        (True, 1, NOBODY, False),
        (True, NO_LEADER, nodes(2), False),
    ],
)
def test_an_unclean_election_is_the_last_resort(
    allowed: bool, leader: int, candidates: frozenset[int], may: bool
) -> None:
    assert RULES.may_elect_uncleanly(allowed, leader, candidates) is may


def test_a_change_of_the_isr_is_a_version_and_no_epoch() -> None:
    changed = change_isr(RULES, record(nodes(1, 2)), nodes(1), NOBODY, 2)
    assert changed == record(nodes(1), elr=nodes(2), version=8)


def test_an_elected_leader_joins_the_isr_in_a_new_epoch() -> None:
    elected = elect(RULES, record(NOBODY, elr=nodes(2, 3), leader=NO_LEADER), 3, 2)
    assert elected == attrs.evolve(
        record(nodes(3), elr=nodes(2), leader=3, version=8), leader_epoch=5
    )


def test_an_unclean_leader_is_in_sync_alone() -> None:
    elected = elect_uncleanly(RULES, record(NOBODY, elr=nodes(1), leader=NO_LEADER), 2)
    assert elected == attrs.evolve(record(nodes(2), leader=2, version=8), leader_epoch=5)


def test_a_departed_leader_is_succeeded_by_the_first_in_assignment_order() -> None:
    before = attrs.evolve(record(nodes(1, 2, 3)), replicas=(1, 3, 2))
    after = depart(RULES, before, 1, NOBODY, nodes(1), 1)
    assert (after.leader, after.leader_epoch, after.version) == (3, 5, 8)
    assert after.isr == {2, 3}


def test_a_departed_leader_without_candidate_leaves_nobody_in_a_new_epoch() -> None:
    after = depart(RULES, record(nodes(1)), 1, nodes(1), nodes(1, 2, 3), 2)
    assert (after.leader, after.leader_epoch, after.version) == (NO_LEADER, 5, 8)
    assert (after.isr, after.elr) == (NOBODY, NOBODY)


def test_a_departed_follower_costs_no_epoch() -> None:
    after = depart(RULES, record(nodes(1, 2)), 2, NOBODY, nodes(2, 3), 1)
    assert after == record(nodes(1), version=8)


def test_a_departure_that_changes_nothing_is_no_version() -> None:
    before = record(nodes(1, 2))
    assert depart(RULES, before, 3, NOBODY, nodes(3), 1) is before


def test_an_eligible_replica_that_lost_data_is_eligible_no_more() -> None:
    before = record(nodes(1), elr=nodes(2))
    assert depart(RULES, before, 2, NOBODY, nodes(2), 2) is before
    assert depart(RULES, before, 2, nodes(2), nodes(2), 2) == record(nodes(1), version=8)


def test_a_move_does_not_end_without_somebody_to_lead() -> None:
    moving = attrs.evolve(record(nodes(1, 2, 3)), replicas=(3, 2, 1), removing=nodes(1))
    assert finish_reassignment(RULES, moving, nodes(2, 3), 2) is moving
    assert finish_reassignment(RULES, moving, nodes(3), 2).leader == 2


def test_a_move_is_not_cancelled_if_only_a_newcomer_is_in_sync() -> None:
    # Nobody leads, as 3 is about to stop; but 3 has what nobody else is known to have.
    moving = attrs.evolve(record(nodes(3), leader=NO_LEADER), adding=nodes(3))
    assert cancel_reassignment(RULES, moving, nodes(1, 2, 3), 1) is None
