"""What holds of a replica whatever happens to it, in whatever order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings

from protocol.errors import ErrorCode
from protocol.machine import Effect, Event
from protocol.replication import Leader, Replica, ReplicaState
from protocol.replication import effects as every_effect
from protocol.replication.effects import Append, Refuse, Reset, Truncate
from protocol.replication.events import Configured, ProduceReceived
from tests.protocol.replication.strategies import NODE, Life, Moment, lived, lives, tried
from tests.protocol.replication.words import EVENTS


def is_effect(kind: object) -> bool:
    """Whether this is a type of effect."""
    return isinstance(kind, type) and issubclass(kind, Effect) and kind is not Effect


many = settings(max_examples=150, deadline=None, derandomize=True, database=None)
MAX_ROUNDS = 4
EFFECTS = [kind for kind in vars(every_effect).values() if is_effect(kind)]


@many
@given(lives())
def test_a_refused_request_leaves_the_very_same_state_and_gets_an_error_code(life: Life) -> None:
    for moment in lived(life):
        own = getattr(moment.event, "correlation", None)
        refusals = [each for each in moment.effects if isinstance(each, Refuse)]
        for refusal in refusals:
            assert isinstance(refusal.error, ErrorCode)
            assert refusal.error is not ErrorCode.NONE
            if refusal.correlation == own:
                assert moment.after is moment.before
                assert len(moment.effects) == 1


@many
@given(lives())
def test_what_raises_changes_nothing(life: Life) -> None:
    # `lived` lets through only what may be raised: a broken invariant, a bad peer, and for a
    # completion that answers no write, ValueError.
    for moment in lived(life):
        if moment.error is not None:
            assert moment.after is moment.before


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(lives())
def test_the_same_events_lead_to_the_same_states_and_effects(life: Life) -> None:
    once, again = list(lived(life)), list(lived(life))
    assert [(m.after, m.effects) for m in once] == [(m.after, m.effects) for m in again]


def handled_until_nothing_is_due(replica: Replica, now_ms: int) -> int:
    """Handle what is due, and what becomes due thereby; give how many rounds that took."""
    for rounds in range(MAX_ROUNDS):
        due = replica.due(now_ms)
        if not due:
            return rounds
        for event in due:
            before = replica.state
            effects, error = tried(replica, event, now_ms)
            if error is not None:
                assert replica.state is before
                return rounds
            assert effects or replica.state is not before or len(due) > 1
    raise AssertionError(f"after {MAX_ROUNDS} rounds still due: {replica.due(now_ms)}")


@many
@given(lives())
def test_nothing_is_due_before_the_deadline_something_at_it_and_nothing_when_all_is_handled(
    life: Life,
) -> None:
    replica = Replica.restarted(NODE, 1, config=life.config)
    for moment in lived(life, replica):
        at_ms = replica.next_deadline()
        if at_ms is None:
            assert replica.due(moment.now_ms + 10**9) == ()
            continue
        assert replica.due(at_ms - 1) == ()
        assert replica.due(at_ms) != ()
        copy = Replica(replica.state, replica.rules)
        handled_until_nothing_is_due(copy, max(moment.now_ms, at_ms))


@many
@given(lives())
def test_what_waits_is_bounded_and_counted(life: Life) -> None:
    # A bound that was lowered meanwhile counts for whoever comes, not for who waits already.
    configs = [life.config]
    for moment in lived(life):
        if isinstance(moment.event, Configured):
            configs.append(moment.event.config)
        state = moment.after
        assert len(state.parked) <= max(each.max_parked_fetches for each in configs)
        if isinstance(state.role, Leader):
            queue = (*state.role.writes, *state.role.waiting)
            assert len(queue) <= max(each.max_waiting_produces for each in configs)
            assert state.role.waiting_bytes == sum(each.size_bytes for each in queue)
            assert state.role.waiting_bytes <= max(each.max_waiting_bytes for each in configs)


def waiting(state: ReplicaState) -> list[object]:
    """List the requests that have no answer yet, without those that want none."""
    parked = [each.correlation for each in state.parked]
    if not isinstance(state.role, Leader):
        return parked
    queue = (*state.role.writes, *state.role.waiting)
    return parked + [each.correlation for each in queue if each.wants_reply]


@many
@given(lives())
def test_every_request_is_answered_once_or_waits(life: Life) -> None:
    unanswered: Counter[object] = Counter()
    for moment in lived(life):
        event = moment.event
        if not (isinstance(event, ProduceReceived) and event.acks == 0):
            unanswered.update(correlations([event]))
        unanswered.subtract(correlations(moment.effects))
        assert +unanswered == Counter(waiting(moment.after))
        assert min(unanswered.values(), default=0) >= 0


def correlations(things: list[Event] | tuple[Effect, ...]) -> list[object]:
    """List whom these are from or for."""
    found = [getattr(thing, "correlation", None) for thing in things]
    return [each for each in found if each is not None]


@many
@given(lives())
def test_writes_continue_each_other_and_the_log_follows_them(life: Life) -> None:
    for moment in lived(life):
        state, role = moment.after, moment.after.role
        for effect in moment.effects:
            if isinstance(effect, Append):
                assert effect.base_offset < effect.end_offset
                assert effect.base_offset >= moment.before.log.end_offset
            elif isinstance(effect, Truncate):
                assert effect.end_offset < moment.before.log.end_offset
            elif isinstance(effect, Reset):
                assert effect.start_offset > moment.before.log.end_offset
        if isinstance(role, Leader):
            ends = [state.log.end_offset, *(write.end_offset for write in role.writes)]
            assert ends[:-1] == [write.base_offset for write in role.writes]
            assert ends[-1] == role.reserved_end


@many
@given(lives())
def test_the_log_start_never_goes_back_but_with_the_log_end(life: Life) -> None:
    for moment in lived(life):
        before, after = moment.before.log, moment.after.log
        assert after.start_offset >= min(before.start_offset, after.end_offset)


def test_lives_see_every_event_and_every_kind_of_effect() -> None:
    # The tests above would pass on lives in which little happens.
    events: Counter[str] = Counter()
    effects: Counter[str] = Counter()
    busy: list[Moment] = []

    @settings(many, max_examples=400)
    @given(lives())
    def look(life: Life) -> None:
        for moment in lived(life):
            changed = moment.after is not moment.before
            events[type(moment.event).__name__] += changed or bool(moment.effects)
            effects.update(type(effect).__name__ for effect in moment.effects)
            busy.extend([moment] if moment.after.deferred is not None else [])

    look()
    assert {kind.__name__ for kind in EVENTS.values()} == set(+events)
    assert {kind.__name__ for kind in EFFECTS} == set(effects)
    assert len(busy) > 100
