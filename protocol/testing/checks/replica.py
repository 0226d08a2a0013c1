"""The same rules with a real `Replica`: what a broken contract would cost there."""

from __future__ import annotations

from protocol.errors import ErrorCode, InvariantViolation
from protocol.machine import Effect
from protocol.replication import Replica, ReplicaConfig
from protocol.replication.effects import ProduceDone, Refuse, SendFetch
from protocol.replication.events import (
    ACKS_ALL,
    BecameFollower,
    BecameLeader,
    ConsumerFetchReceived,
    FetchRefused,
    ProduceReceived,
    Resigned,
)
from protocol.testing.checks import violations
from protocol.testing.checks.order import judge as judge_order
from protocol.testing.checks.table import check
from protocol.testing.session import START_MS, Session
from protocol.testing.vocabulary import REPLICATION

CONFIG = ReplicaConfig(fetch_retry_ms=100, fetch_timeout_ms=60_000)


async def lead(session: Session, *isr: int) -> Replica:
    """Start the driver with a replica that leads, with these in sync."""
    replica = Replica.restarted(1, 1, config=CONFIG)
    await session.start(replica)
    await session.arrive(BecameLeader(1, 1, frozenset(isr), frozenset({1, 2})))
    return replica


def produce(client: str, timeout_ms: int = 30_000) -> ProduceReceived:
    """Make a producer's request for one record."""
    return ProduceReceived(client, ACKS_ALL, b"x", 1, 1, timeout_ms)


def given(session: Session, kind: type[Effect]) -> list[Effect]:
    """List the effects of one type that the replica gave; that they are begun is rule 1."""
    return [effect for effect in session.journal.given if isinstance(effect, kind)]


@check(rule=1, only=REPLICATION)
async def who_waits_at_a_replica_that_stops_is_told_in_order(session: Session) -> None:
    """A leader that resigns refuses producers and consumers, each once."""
    await lead(session, 1, 2)
    for client in ("first", "second"):
        await session.arrive(produce(client))
        await session.finish_write()
    await session.arrive(ConsumerFetchReceived("third", 0, max_wait_ms=1_000))
    await session.arrive(Resigned())
    await judge_order(session)


@check(rule=2, only=REPLICATION)
async def a_producer_is_answered_when_its_record_is_written(session: Session) -> None:
    """Alone in sync, the leader acknowledges as soon as its own disk has the record."""
    await lead(session, 1)
    await session.arrive(produce("client"))
    await session.set_clock(START_MS + 1_000)
    if given(session, ProduceDone):
        session.broken("a record was acknowledged that no disk has")
    await session.finish_all_writes()
    if not given(session, ProduceDone):
        session.broken("a record is written, and its producer still waits")


@check(rule=3, only=REPLICATION)
async def a_follower_asks_its_leader_at_once_and_again(session: Session) -> None:
    """A refusal is followed by another request when the time for that has come."""
    await session.start(Replica.restarted(1, 1, config=CONFIG))
    await session.arrive(BecameFollower(2, 1))
    if len(given(session, SendFetch)) != 1:
        session.broken("a follower that has just become one does not ask its leader")
    await session.arrive(FetchRefused(1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await session.set_clock(START_MS + CONFIG.fetch_retry_ms)
    if len(given(session, SendFetch)) != 2:
        session.broken("a follower that was refused does not ask again")


@check(rule=3, only=REPLICATION)
async def a_producer_whose_time_is_over_is_told_so(session: Session) -> None:
    """Its record is written, but the other one in sync never fetches it."""
    replica = await lead(session, 1, 2)
    await session.arrive(produce("client", timeout_ms=200))
    await session.finish_all_writes()
    await session.set_clock(START_MS + 200)
    if replica.state.log.end_offset and not given(session, Refuse):
        session.broken("a producer waits longer than it wanted to")


@check(rule=3, only=REPLICATION)
async def a_change_of_role_that_waited_for_a_write_happens_at_once(session: Session) -> None:
    """It comes due with the write's completion, without a tick of the clock."""
    replica = await lead(session, 1)
    await session.arrive(produce("client"))
    await session.arrive(BecameFollower(2, 2))
    await session.finish_all_writes()
    if replica.state.log.end_offset and replica.state.view.epoch != 2:
        session.broken("a change of role was deferred, and then forgotten")


@check(rule=5, only=REPLICATION)
async def a_replica_that_must_not_lead_is_left_alone(session: Session) -> None:
    """The metadata has it lead without being in sync, which no right controller decides."""
    replica = await lead(session, 2)
    raised = session.journal.raised
    if raised is not None and isinstance(raised.error, InvariantViolation):
        await session.arrive(produce("client"))
        await session.set_clock(START_MS + 60_000)
        await session.arrive(BecameLeader(1, 1, frozenset({1}), frozenset({1, 2})))
        violations.judge(session)
        if replica.state.view.epoch:
            session.broken("a replica leads after what must never happen")
