"""Elections: by themselves when nobody leads, and when an operator wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from protocol.controller import (
    AlterPartition,
    AlterTopicConfig,
    ControllerConfig,
    DeleteTopics,
    ElectionKind,
    ElectLeaders,
    LeaderlessDue,
    Results,
    UncleanDue,
)
from protocol.errors import ErrorCode
from protocol.types import NO_LEADER

if TYPE_CHECKING:
    from tests.protocol.controller.conftest import Cluster

PREFERRED = ElectLeaders("elect", ElectionKind.PREFERRED, (("t", 0),))
UNCLEAN = ElectLeaders("elect", ElectionKind.UNCLEAN, (("t", 0),))


@pytest.fixture
def leaderless(cluster: Callable[..., Cluster]) -> Cluster:
    """Replicas 1, 2, 3 of which 3, then 2, then 1 were fenced: 1 and 2 are eligible."""
    three: Cluster = cluster(3)
    three.topic((1, 2, 3), min_isr=2)
    three.fence(3, 2, 1)
    assert three.partition().leader == NO_LEADER
    assert three.partition().elr == {1, 2}
    return three


def test_a_leaderless_partition_gets_the_first_eligible_replica_that_is_back(
    leaderless: Cluster,
) -> None:
    leaderless.heartbeat(2)
    assert leaderless.machine.next_deadline() == 0
    assert leaderless.machine.due(leaderless.now_ms) == (LeaderlessDue("t", 0),)
    leaderless.handle(LeaderlessDue("t", 0))
    after = leaderless.partition()
    assert after.leader == 2
    assert after.isr == {2}
    assert after.elr == {1}
    assert leaderless.machine.due(leaderless.now_ms) == ()


def test_nothing_is_due_while_only_a_replica_is_back_that_may_lack_something(
    leaderless: Cluster,
) -> None:
    leaderless.heartbeat(3)
    before = leaderless.machine.state
    assert leaderless.machine.due(leaderless.now_ms) == ()
    for event in (LeaderlessDue("t", 0), UncleanDue("t", 0)):
        assert leaderless.handle(event) == ()
    assert leaderless.machine.state is before


def test_an_election_is_due_no_more_when_its_candidate_is_fenced_again(
    leaderless: Cluster,
) -> None:
    leaderless.heartbeat(2)
    leaderless.fence(2)
    assert leaderless.machine.due(leaderless.now_ms) == ()


def test_an_election_is_due_no_more_when_its_topic_is_gone(leaderless: Cluster) -> None:
    leaderless.heartbeat(2)
    leaderless.do(DeleteTopics("delete", ("t",)))
    assert leaderless.machine.due(leaderless.now_ms) == ()
    assert leaderless.handle(LeaderlessDue("t", 0)) == ()
    assert leaderless.handle(UncleanDue("t", 0)) == ()


def test_a_partition_that_is_led_elects_nobody_by_itself(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    assert two.handle(LeaderlessDue("t", 0)) == ()
    assert two.handle(UncleanDue("t", 0)) == ()


def test_where_it_is_switched_on_anybody_alive_leads_in_the_end(leaderless: Cluster) -> None:
    leaderless.heartbeat(3)
    leaderless.do(AlterTopicConfig("config", "t", unclean_election=True))
    assert leaderless.machine.due(leaderless.now_ms) == (UncleanDue("t", 0),)
    leaderless.settle()
    after = leaderless.partition()
    assert after.leader == 3
    assert after.isr == {3}
    assert not after.elr


def test_an_unclean_election_waits_for_somebody_alive(leaderless: Cluster) -> None:
    leaderless.do(AlterTopicConfig("config", "t", unclean_election=True))
    assert leaderless.machine.due(leaderless.now_ms) == ()
    assert leaderless.handle(UncleanDue("t", 0)) == ()


def test_a_clean_election_is_preferred_to_an_unclean_one(leaderless: Cluster) -> None:
    leaderless.do(AlterTopicConfig("config", "t", unclean_election=True))
    leaderless.heartbeat(3)
    leaderless.heartbeat(1)
    assert leaderless.machine.due(leaderless.now_ms) == (LeaderlessDue("t", 0),)
    assert leaderless.handle(UncleanDue("t", 0)) == ()


def test_an_operator_gets_the_preferred_leader_back(cluster: Callable[..., Cluster]) -> None:
    two: Cluster = cluster(2)
    two.topic((1, 2))
    two.fence(1)
    two.heartbeat(1)
    assert two.errors(PREFERRED) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    two.do(two.proposal({1, 2}, joiner_epoch=1))
    before = two.partition()
    assert two.errors(PREFERRED) == [ErrorCode.NONE]
    after = two.partition()
    assert after.leader == 1
    assert after.isr == {1, 2}
    assert (after.leader_epoch, after.version) == (before.leader_epoch + 1, before.version + 1)
    assert two.errors(PREFERRED) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_an_operator_who_wants_an_unclean_election_gets_a_clean_one_where_possible(
    leaderless: Cluster,
) -> None:
    leaderless.do(AlterTopicConfig("config", "t", unclean_election=True))
    leaderless.heartbeat(3)
    leaderless.heartbeat(2)
    assert leaderless.errors(UNCLEAN) == [ErrorCode.NONE]
    assert leaderless.partition().leader == 2
    assert leaderless.errors(UNCLEAN) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_an_operator_gets_an_unclean_election_only_where_it_is_switched_on(
    leaderless: Cluster,
) -> None:
    leaderless.heartbeat(3)
    assert leaderless.errors(UNCLEAN) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    leaderless.do(AlterTopicConfig("config", "t", unclean_election=True))
    assert leaderless.errors(UNCLEAN) == [ErrorCode.NONE]
    assert leaderless.partition().leader == 3


def test_an_unknown_partition_fails_alone(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1)
    one.topic((1,))
    command = ElectLeaders("elect", ElectionKind.PREFERRED, (("u", 0), ("t", 0)))
    assert one.errors(command) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.ELECTION_NOT_NEEDED,
    ]


def test_elections_everywhere_come_in_bounded_steps(cluster: Callable[..., Cluster]) -> None:
    three: Cluster = cluster(3, ControllerConfig(max_items_per_command=2))
    three.topic(*[(1, 2)] * 3, (2, 3), (1, 2))
    three.fence(1)
    three.heartbeat(1)
    everywhere = ElectLeaders("elect", ElectionKind.PREFERRED)
    # None can be preferred yet, and what needs no election is not mentioned.
    assert [item.name for item in three.results(everywhere)] == [("t", 0), ("t", 1)]
    for key in sorted(three.image.partitions):
        known = three.partition(*key)
        if 1 in known.replicas:
            three.do(_joined(three, *key))
    first, second, third = (three.do(everywhere) for _ in range(3))
    assert [_names(results) for results in (first, second, third)] == [
        ([("t", 0), ("t", 1)], False),
        ([("t", 2), ("t", 4)], False),
        ([], True),
    ]


def test_a_command_names_only_so_many_partitions(cluster: Callable[..., Cluster]) -> None:
    one: Cluster = cluster(1, ControllerConfig(max_items_per_command=1))
    command = ElectLeaders("elect", ElectionKind.PREFERRED, (("t", 0), ("t", 1)))
    assert one.refused(command) == ErrorCode.INVALID_REQUEST


def _joined(cluster: Cluster, topic: str, index: int) -> AlterPartition:
    known = cluster.partition(topic, index)
    isr = known.isr | {1}
    return AlterPartition(
        "alter", known.leader, 1, topic, index, known.leader_epoch, known.version, isr, 1
    )


def _names(results: object) -> tuple[list[object], bool]:
    assert isinstance(results, Results)
    return [item.name for item in results.items], results.complete
