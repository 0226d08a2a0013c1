"""Lives of one replica: events in any order, of which many fit the state that they meet.

An event drawn blindly is mostly refused. So half of the steps are drawn as a `Fit`: a recipe that
makes the event from the state it meets, such as the completion of what is being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import hypothesis.strategies as st

from protocol.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from protocol.machine import Effect, Event
from protocol.replication import EpochEnd, Follower, Leader, Replica, ReplicaConfig, ReplicaState
from protocol.replication import events as e
from protocol.replication.log import epoch_end, last_epoch
from tests.protocol.replication.words import EVENTS, field_names

NODE = 1
NODES = (1, 2, 3)
SMALL = st.integers(0, 6)
ERRORS = st.sampled_from(
    [
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
)
SETS = st.frozensets(st.sampled_from(NODES)).map(lambda nodes: nodes | {NODE})
CONFIGS = st.builds(
    ReplicaConfig,
    min_isr=st.sampled_from([1, 1, 2]),
    replica_lag_max_ms=st.sampled_from([50, 200]),
    proposal_retry_ms=st.sampled_from([20, 100]),
    fetch_retry_ms=st.sampled_from([20, 100]),
    fetch_timeout_ms=st.sampled_from([30, 300]),
    max_waiting_produces=st.sampled_from([1, 3]),
    max_waiting_bytes=st.sampled_from([20, 60]),
    max_parked_fetches=st.sampled_from([0, 1, 3]),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "config": CONFIGS,
    "correlation": st.just("?"),
    "payload": st.none(),
    "reason": st.just("full"),
    "acks": st.sampled_from([-1, -1, 0, 1, 1, 2]),
    "record_count": st.integers(-1, 3),
    "size_bytes": st.sampled_from([0, 10, 40]),
    "timeout_ms": st.sampled_from([0, 50, 1_000]),
    "follower": st.sampled_from([2, 3, 9]),
    "leader": st.sampled_from([-1, 2, 3]),
    "isr": SETS,
    "replicas": st.just(frozenset(NODES)),
    "error": ERRORS,
    "max_wait_ms": st.sampled_from([0, 0, 100]),
    "min_bytes": st.sampled_from([1, 30]),
    "available_bytes": st.sampled_from([0, 10, 40]),
    "max_bytes": st.just(1 << 20),
    "timestamp_ms": st.sampled_from([-3, -2, -1, 5]),
    "before_offset": st.integers(-2, 6),
    "high_watermark": st.integers(-1, 6),
    "diverging": st.none() | st.builds(EpochEnd, SMALL, st.integers(-1, 6)),
    "epochs": st.lists(st.tuples(SMALL, st.integers(0, 2)), max_size=2).map(tuple),
}


@attrs.frozen
class Fit:
    """A step that is made from the state it meets; None when it fits none."""

    made: Callable[[ReplicaState, int], Event | None]
    number: int

    def __repr__(self) -> str:
        return f"Fit({self.made.__name__}, {self.number})"


def completion(state: ReplicaState, number: int) -> Event | None:
    """Storage answers the oldest write."""
    del number
    role = state.role
    if isinstance(role, Leader) and role.writes:
        return e.Appended(role.writes[0].end_offset)
    if isinstance(role, Follower) and role.write is not None:
        end = role.write.log.end_offset
        return e.Appended(end) if end > state.log.end_offset else e.Truncated(end)
    return None


def refused_append(state: ReplicaState, number: int) -> Event | None:
    """Storage has no room for what is being written."""
    done = completion(state, number)
    return e.AppendsRefused("no room") if isinstance(done, e.Appended) else None


def fetch(state: ReplicaState, number: int) -> Event:
    """A follower asks in the right epoch, mostly for an offset at which the logs agree."""
    log = state.log
    if number == 6:
        return e.FetchReceived(
            "?", 2, 1, state.view.epoch, log.end_offset + 1, last_epoch(log) or 1
        )
    offset = max(log.start_offset, log.end_offset - number % 3)
    known = [epoch for epoch, start in log.epochs if start < offset]
    epoch = known[-1] if known else 0
    wait_ms = 100 * (number % 2)
    return e.FetchReceived(
        "?", 2 + number % 2, 1, state.view.epoch, offset, epoch, number % 4 - 1, max_wait_ms=wait_ms
    )


def answer(state: ReplicaState, number: int) -> Event:
    """The leader answers what this follower asks."""
    log, epoch = state.log, state.view.epoch
    asked = (epoch, log.end_offset, last_epoch(log))
    entries = ((epoch, number),) if number > 0 and epoch > 0 else ()
    end = log.end_offset + sum(count for _, count in entries)
    return e.FetchAnswered(
        *asked, None, end - number % 2, number, entries, size_bytes=10 * len(entries)
    )


def divergence(state: ReplicaState, number: int) -> Event:
    """The leader answers that it does not know this follower's last epoch, or less of it."""
    log = state.log
    end = epoch_end(log, last_epoch(log) - number % 2)
    shorter = EpochEnd(end.epoch, max(log.start_offset, end.offset - number % 3))
    return e.FetchAnswered(state.view.epoch, log.end_offset, last_epoch(log), shorter)


def lead(state: ReplicaState, number: int) -> Event:
    """A new epoch, in which this replica leads."""
    isr = frozenset(NODES[: 1 + number % 3])
    return e.BecameLeader(state.view.epoch + 1, state.view.version + 1, isr, frozenset(NODES))


def follow(state: ReplicaState, number: int) -> Event:
    """A new epoch, in which another leads."""
    return e.BecameFollower(2 + number % 2, state.view.epoch + 1)


def learn(state: ReplicaState, number: int) -> Event:
    """A new ISR."""
    isr = frozenset(NODES[: 1 + number % 3])
    return e.IsrLearned(state.view.epoch, state.view.version + 1, isr, frozenset(NODES))


def refusal(state: ReplicaState, number: int) -> Event:
    """The controller refuses what is proposed."""
    del number
    return e.ProposalRefused(state.view.version, ErrorCode.INELIGIBLE_REPLICA)


def delete(state: ReplicaState, number: int) -> Event:
    """Retention deletes some of what is committed."""
    return e.RetentionDeleted(max(state.log.start_offset, state.high_watermark - number % 3))


def reset(state: ReplicaState, number: int) -> Event:
    """The leader's log begins at, or beyond, the end of this one."""
    start = state.log.end_offset + number % 3
    return e.FetchRefused(state.view.epoch, ErrorCode.OFFSET_OUT_OF_RANGE, start)


def ask(state: ReplicaState, number: int) -> Event:
    """A consumer asks for what there is: records, the end of an epoch, an offset."""
    if number == 5:
        return e.EpochEndAsked("?", state.view.epoch)
    if number == 6:
        return e.OffsetAsked("?", 5)
    offset = max(state.log.start_offset, state.high_watermark - number % 2)
    return e.ConsumerFetchReceived("?", offset, min_bytes=1 + 10 * number, max_wait_ms=100)


def produce(state: ReplicaState, number: int) -> Event:
    """A producer sends what may be taken."""
    del state
    return e.ProduceReceived("?", number % 3 - 1, None, 1 + number % 2, 10, 50 * number)


RARE = {"StorageFailed", "Resigned", "Deleted"}
RECIPES = [*[completion] * 8, *[fetch] * 5, *[answer] * 5, *[produce] * 5, *[learn] * 2]
RECIPES += [refused_append, divergence, divergence, lead, follow, refusal, delete, reset, ask, ask]


def blind(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Draw an event of this type, whatever the state."""
    return st.builds(kind, **{name: FIELDS.get(name, SMALL) for name in field_names(kind)})


BLIND = st.one_of([blind(kind) for kind in EVENTS.values() if kind.__name__ not in RARE])
FITS = st.builds(Fit, st.sampled_from(RECIPES), SMALL)
PAUSES = st.sampled_from([0, 10, 50, 300])


@st.composite
def steps(draw: st.DrawFn) -> Event | Fit | int:
    """Draw something that happens: mostly what fits; time passes; or anything at all."""
    kind = draw(st.integers(0, 9))
    return draw(BLIND) if kind == 0 else draw(PAUSES) if kind < 4 else draw(FITS)


STEPS = steps()
ENDS = st.one_of([blind(EVENTS[name]) for name in ("storage_failed", "resigned", "deleted")])


@attrs.frozen
class Life:
    """The settings of a replica, and what happens to it: events, recipes, and time passing."""

    config: ReplicaConfig
    steps: tuple[Event | Fit | int, ...]


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Draw a life; some end badly and go on for a while."""
    steps: list[Event | Fit | int] = list(draw(st.lists(STEPS, min_size=25, max_size=60)))
    if draw(st.booleans()):
        steps += [draw(ENDS), *draw(st.lists(STEPS, max_size=8))]
    first = Fit(lead, draw(SMALL)) if draw(st.booleans()) else Fit(follow, 0)
    return Life(draw(CONFIGS), (first, *steps))


@attrs.frozen
class Moment:
    """One event that was handled: what was before, what it did, and what came of it."""

    event: Event
    before: ReplicaState
    after: ReplicaState
    effects: tuple[Effect, ...]
    error: Exception | None
    now_ms: int


def lived(life: Life, replica: Replica | None = None) -> Iterator[Moment]:
    """Live a life. Between what happens, all that is due happens too; see `due` for its end."""
    replica = replica or Replica.restarted(NODE, 1, config=life.config)
    now_ms, count = 0, 0
    for step in life.steps:
        if isinstance(step, int):
            now_ms += step
            events = list(replica.due(now_ms))
        else:
            event = step.made(replica.state, step.number) if isinstance(step, Fit) else step
            events = [] if event is None else [event]
        for event in events:
            if getattr(event, "correlation", None) is not None:
                count += 1
                event = numbered(event, count)
            before = replica.state
            effects, error = tried(replica, event, now_ms)
            yield Moment(event, before, replica.state, effects, error, now_ms)


def numbered(request: Any, number: int) -> Event:
    """Tell a request from all others."""
    event: Event = attrs.evolve(request, correlation=number)
    return event


def tried(
    replica: Replica, event: Event, now_ms: int
) -> tuple[tuple[Effect, ...], Exception | None]:
    """Handle an event, and put up with what handling may raise."""
    try:
        return replica.handle(event, now_ms), None
    except (InvariantViolation, RemoteProtocolError) as error:
        return (), error
    except ValueError as error:
        if not isinstance(event, e.Appended | e.AppendsRefused | e.Truncated):
            raise
        return (), error
