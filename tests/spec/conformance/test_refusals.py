"""In every explored state, what the state cannot accept is refused as a real broker would.

With the Kafka error code that such a broker gives, and the state stays the very same object. What
is due elsewhere, or no longer, changes nothing at all.
"""

from collections.abc import Callable, Iterable

import pytest

from protocol.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from protocol.machine import Event
from protocol.replication import Leader, Replica, ReplicaState, Rules
from protocol.replication import events as ev
from protocol.replication.effects import Refuse
from protocol.replication.log import EpochEnd
from spec.catalogue import load_catalogue
from spec.conformance.checking import explored

CATALOGUE = load_catalogue()
NOW_MS = 5
MODELS = ("Replication/graph-three", "Replication/smoke-min-isr")

Expected = tuple[Event, ErrorCode]


@pytest.fixture(scope="module")
def states() -> list[ReplicaState]:
    """Every state of a replica that the explored models reach."""
    found: dict[ReplicaState, None] = {}
    for name in MODELS:
        exploration, _ = explored(CATALOGUE.select("Replication", name, ())[0])
        for cluster in exploration.states:
            found.update(dict.fromkeys(node.state for node in cluster.nodes))
    return list(found)


def fetch(state: ReplicaState, follower: int, epoch: int, broker_epoch: int = 99) -> Event:
    end = state.log.end_offset
    return ev.FetchReceived("c", follower, broker_epoch, epoch, end, 0)


def refused_by_anyone_but_a_leader(state: ReplicaState) -> Iterable[Expected]:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    yield ev.ProduceReceived("c", -1, b"", 1, 1), error
    yield ev.ProduceReceived("c", 1, b"", 1, 1), error
    yield fetch(state, 2, state.view.epoch), error
    yield ev.EpochEndAsked("c", 1), error
    yield ev.OffsetAsked("c", -1), error
    yield ev.DeleteRecordsAsked("c", 0), error


def refused_by_a_leader(state: ReplicaState) -> Iterable[Expected]:
    epoch, end = state.view.epoch, state.log.end_offset
    leader = state.role
    assert isinstance(leader, Leader)
    yield ev.ProduceReceived("c", 7, b"", 1, 1), ErrorCode.INVALID_REQUIRED_ACKS
    yield ev.ProduceReceived("c", 1, b"", 0, 1), ErrorCode.INVALID_REQUEST
    yield ev.ProduceReceived("c", 1, b"", 1, 1 << 40), ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if len(state.view.isr) < state.config.min_isr:
        yield ev.ProduceReceived("c", -1, b"", 1, 1), ErrorCode.NOT_ENOUGH_REPLICAS
    follower = leader.followers[0]
    yield fetch(state, follower.node, epoch - 1), ErrorCode.FENCED_LEADER_EPOCH
    yield fetch(state, follower.node, epoch + 1), ErrorCode.UNKNOWN_LEADER_EPOCH
    yield fetch(state, 99, epoch), ErrorCode.NOT_LEADER_OR_FOLLOWER
    if follower.broker_epoch > 0:
        stale = fetch(state, follower.node, epoch, follower.broker_epoch - 1)
        yield stale, ErrorCode.STALE_BROKER_EPOCH
    yield ev.ConsumerFetchReceived("c", end + 1), ErrorCode.OFFSET_OUT_OF_RANGE
    yield ev.EpochEndAsked("c", 1, epoch - 1), ErrorCode.FENCED_LEADER_EPOCH
    yield ev.EpochEndAsked("c", 1, epoch + 1), ErrorCode.UNKNOWN_LEADER_EPOCH
    yield ev.OffsetAsked("c", -7), ErrorCode.INVALID_REQUEST
    yield ev.DeleteRecordsAsked("c", state.high_watermark + 1), ErrorCode.OFFSET_OUT_OF_RANGE


def refused_by_anyone_with_a_role(state: ReplicaState) -> Iterable[Expected]:
    epoch = state.view.epoch
    yield ev.ConsumerFetchReceived("c", -1), ErrorCode.OFFSET_OUT_OF_RANGE
    yield ev.ConsumerFetchReceived("c", 0, epoch - 1), ErrorCode.FENCED_LEADER_EPOCH
    yield ev.ConsumerFetchReceived("c", 0, epoch + 1), ErrorCode.UNKNOWN_LEADER_EPOCH


def expected_refusals(state: ReplicaState) -> Iterable[Expected]:
    if state.role is None:
        yield ev.ConsumerFetchReceived("c", 0), ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        yield from refused_by_anyone_with_a_role(state)
    if isinstance(state.role, Leader):
        yield from refused_by_a_leader(state)
    else:
        yield from refused_by_anyone_but_a_leader(state)


def old_news(state: ReplicaState) -> Iterable[Event]:
    """What an explored state has no use for: it is older than what it knows, or another's."""
    view, nodes = state.view, frozenset({1, 2, 3})
    yield ev.BecameLeader(view.epoch - 1, 1, nodes, nodes)
    yield ev.BecameFollower(2, view.epoch - 1)
    yield ev.IsrLearned(view.epoch, view.version, nodes, nodes)
    yield ev.IsrLearned(view.epoch - 1, view.version + 1, nodes, nodes)
    yield ev.IsrLearned(view.epoch + 1, view.version + 1, nodes, nodes)
    yield ev.ProposalRefused(view.version + 1, ErrorCode.INELIGIBLE_REPLICA)
    yield ev.ProposalRefused(view.version, ErrorCode.INVALID_UPDATE_VERSION)
    yield ev.ProposalUnanswered(view.version + 1)
    yield ev.FetchAnswered(view.epoch - 1, state.log.end_offset, 0)
    yield ev.FetchAnswered(view.epoch, state.log.end_offset + 1, 0)
    yield ev.FetchRefused(view.epoch - 1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    yield ev.FollowerCaughtUp(99)
    yield ev.FollowerLagged(99)
    yield ev.ProducersExpired()
    yield ev.FetchesExpired()
    yield ev.RetentionDeleted(0)


def test_there_are_states_of_every_kind(states: list[ReplicaState]) -> None:
    assert len(states) > 1_000
    roles = {type(state.role).__name__ for state in states}
    assert roles == {"Leader", "Follower", "NoneType"}
    assert any(isinstance(each.role, Leader) and each.role.waiting for each in states)
    assert any(isinstance(each.role, Leader) and each.role.proposed for each in states)


def test_what_a_state_cannot_accept_is_refused_with_kafkas_code_and_changes_nothing(
    states: list[ReplicaState],
) -> None:
    for state in states:
        for event, error in expected_refusals(state):
            replica = Replica(state, Rules())
            effects = replica.handle(event, NOW_MS)
            codes = [each.error for each in effects if isinstance(each, Refuse)]
            assert (codes, len(effects)) == ([error], 1), (state, event)
            assert replica.state is state, (state, event)


def test_old_news_changes_nothing_in_any_state(states: list[ReplicaState]) -> None:
    for state in states:
        for event in old_news(state):
            replica = Replica(state, Rules())
            assert replica.handle(event, NOW_MS) == (), (state, event)
            assert replica.state is state, (state, event)


def bad_answers(state: ReplicaState) -> Iterable[Event]:
    epoch, end = state.view.epoch, state.log.end_offset
    yield ev.FetchAnswered(epoch, end, 0, EpochEnd(0, -1))
    yield ev.FetchAnswered(epoch, end, 0, epochs=((epoch, 0),))
    yield ev.FetchAnswered(epoch, end, 0, epochs=((epoch + 1, 1),))


def raises(kind: type[Exception], act: Callable[[], object]) -> bool:
    try:
        act()
    except kind:
        return True
    return False


def test_what_no_correct_leader_answers_is_refused_in_every_state(
    states: list[ReplicaState],
) -> None:
    for state in states:
        for event in bad_answers(state):
            replica = Replica(state, Rules())
            bad = event
            assert raises(RemoteProtocolError, lambda: replica.handle(bad, NOW_MS))  # noqa: B023
            assert replica.state is state


def test_a_broken_invariant_names_the_property_and_the_event() -> None:
    """A disk that deletes what is not committed breaks HwInLogRange."""
    replica = Replica.restarted(1, 1)
    everyone = frozenset({1, 2})
    replica.handle(ev.BecameLeader(1, 1, everyone, everyone), 0)
    replica.handle(ev.ProduceReceived("c", -1, b"", 3, 1), 0)
    replica.handle(ev.Appended(3), 0)
    before = replica.state
    with pytest.raises(InvariantViolation, match="HwInLogRange is broken by RetentionDeleted"):
        replica.handle(ev.RetentionDeleted(2), 0)
    assert replica.state is before
