"""A replica learns the newest record, however the records reach it."""

from __future__ import annotations

import attrs
import pytest

from protocol.replication import PartitionRecord, Replica, ReplicaConfig, event_for
from protocol.replication.events import Appended, BecameFollower, FetchAnswered, FetchDue

ALONE = frozenset({1})
BOTH = frozenset({1, 2})
ELECTED = PartitionRecord(leader=1, epoch=2, version=2, isr=ALONE, replicas=BOTH)
GROWN = PartitionRecord(leader=1, epoch=2, version=3, isr=BOTH, replicas=BOTH)


def test_two_records_of_one_epoch_that_arrive_back_to_back_are_both_learned() -> None:
    replica = Replica.restarted(1, 1)
    events = [event_for(replica.state, record) for record in (ELECTED, GROWN)]
    for event in events:
        replica.handle(event, 0)
    assert (replica.state.view.version, replica.state.view.isr) == (3, BOTH)


def test_a_newer_record_takes_the_place_of_one_that_waits_for_storage() -> None:
    replica = Replica.restarted(1, 1)
    replica.handle(BecameFollower(2, 1), 0)
    replica.handle(FetchDue(), 0)
    replica.handle(FetchAnswered(1, 0, 0, epochs=((1, 1),), payload="x"), 0)
    for record in (ELECTED, GROWN, ELECTED):
        replica.handle(event_for(replica.state, record), 0)
    assert replica.state.view.leader == 2
    replica.handle(Appended(1), 0)
    for event in replica.due(0):
        replica.handle(event, 0)
    assert (replica.state.view.leader, replica.state.view.version) == (1, 3)


def test_an_older_record_changes_nothing() -> None:
    replica = Replica.restarted(1, 1)
    for record in (ELECTED, GROWN):
        replica.handle(event_for(replica.state, record), 0)
    before = replica.state
    replica.handle(event_for(replica.state, ELECTED), 0)
    replica.handle(BecameFollower(2, 1), 0)
    assert replica.state is before


@pytest.mark.parametrize("setting", [field.name for field in attrs.fields(ReplicaConfig)])
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(setting: str) -> None:
    wrong: dict[str, int] = {setting: -1}
    with pytest.raises(ValueError, match=f"{setting} is -1: it must be at least [01]"):
        ReplicaConfig(**wrong)
