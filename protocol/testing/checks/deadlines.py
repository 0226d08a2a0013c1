"""Rule 3: what is due is handled when its time has come, as the machine has it after each event."""

from __future__ import annotations

from protocol.machine import Event
from protocol.testing.checks.table import check
from protocol.testing.script import Step
from protocol.testing.session import START_MS, Session

SOON_MS = START_MS + 50
LATER_MS = START_MS + 100
LATEST_MS = START_MS + 5_000


def judge_handled(session: Session, *expected: Event) -> None:
    """Of what may be due, exactly this was handled so far, in this order."""
    handled = [event for event in session.journal.events if event in session.vocabulary.due]
    if handled != list(expected):
        session.broken(f"by now {list(expected)} should have been handled, and {handled} was")


@check(rule=3)
async def what_is_due_is_handled_at_its_time_and_not_before(session: Session) -> None:
    """Nor does the driver run ahead of its clock."""
    words = session.vocabulary
    await session.play({words.events[0]: Step(agenda=((SOON_MS, words.due[0]),))})
    await session.arrive(words.events[0])
    await session.set_clock(SOON_MS - 1)
    judge_handled(session)
    if any(now_ms >= SOON_MS for now_ms in session.journal.times_ms):
        session.broken(
            f"the machine was told a time that the clock, at {SOON_MS - 1}, did not show"
        )
    await session.set_clock(SOON_MS)
    judge_handled(session, words.due[0])


@check(rule=3)
async def a_deadline_is_kept_to_the_millisecond(session: Session) -> None:
    """Whoever counts in seconds loses some: in floating point, 1.001 * 1000 is less than 1001."""
    words = session.vocabulary
    odd_ms = [START_MS + 1, START_MS + 5, START_MS + 9]
    agenda = tuple(zip(odd_ms, words.due, strict=True))
    await session.play({words.events[0]: Step(agenda=agenda)})
    await session.arrive(words.events[0])
    for number, now_ms in enumerate(odd_ms):
        await session.set_clock(now_ms - 1)
        judge_handled(session, *words.due[:number])
        await session.set_clock(now_ms)
        judge_handled(session, *words.due[: number + 1])


@check(rule=3)
async def a_deadline_that_was_slept_through_is_kept_late(session: Session) -> None:
    """The clock goes far past it at once."""
    words = session.vocabulary
    await session.play({words.events[0]: Step(agenda=((SOON_MS, words.due[0]),))})
    await session.arrive(words.events[0])
    await session.set_clock(LATEST_MS)
    judge_handled(session, words.due[0])


@check(rule=3)
async def what_is_due_at_once_needs_no_tick_of_the_clock(session: Session) -> None:
    """A deadline may lie in the past already."""
    words = session.vocabulary
    await session.play({words.events[0]: Step(agenda=((0, words.due[0]),))})
    await session.arrive(words.events[0])
    judge_handled(session, words.due[0])


@check(rule=3)
async def all_that_is_due_is_handled_in_order(session: Session) -> None:
    """Three at the same time, in the order in which `due` names them."""
    words = session.vocabulary
    agenda = tuple((SOON_MS, event) for event in words.due[:3])
    await session.play({words.events[0]: Step(agenda=agenda)})
    await session.arrive(words.events[0])
    await session.set_clock(SOON_MS)
    judge_handled(session, *words.due[:3])


@check(rule=3)
async def the_deadline_is_asked_for_after_an_event(session: Session) -> None:
    """An event brings it nearer than it was."""
    words = session.vocabulary
    script = {
        words.events[0]: Step(agenda=((LATEST_MS, words.due[0]),)),
        words.events[1]: Step(agenda=((SOON_MS, words.due[1]), (LATEST_MS, words.due[0]))),
    }
    await session.play(script)
    await session.arrive(words.events[0])
    await session.arrive(words.events[1])
    await session.set_clock(SOON_MS)
    judge_handled(session, words.due[1])


@check(rule=3)
async def the_deadline_is_asked_for_after_the_last_of_a_burst(session: Session) -> None:
    """Events that are there at once may each set another one."""
    words = session.vocabulary
    script = {
        words.events[0]: Step(agenda=((LATEST_MS, words.due[0]),)),
        words.events[1]: Step(agenda=((LATER_MS, words.due[1]),)),
        words.events[2]: Step(agenda=((SOON_MS, words.due[2]),)),
    }
    await session.play(script)
    await session.arrive(*words.events[:3])
    await session.set_clock(SOON_MS)
    judge_handled(session, words.due[2])


@check(rule=3)
async def the_deadline_is_asked_for_after_a_completion(session: Session) -> None:
    """A write that is done sets one, when there was none before."""
    words = session.vocabulary
    write, completion = words.writes[0]
    script = {
        words.events[0]: Step((write,)),
        completion: Step(agenda=((SOON_MS, words.due[0]),)),
    }
    await session.play(script)
    await session.arrive(words.events[0])
    await session.finish_all_writes()
    if completion in session.journal.events:
        await session.set_clock(SOON_MS)
        judge_handled(session, words.due[0])


@check(rule=3)
async def the_deadline_is_asked_for_after_what_was_due(session: Session) -> None:
    """What was due sets the next one: at once, and later on."""
    words = session.vocabulary
    script = {
        words.events[0]: Step(agenda=((SOON_MS, words.due[0]),)),
        words.due[0]: Step(agenda=((SOON_MS, words.due[1]),)),
        words.due[1]: Step(agenda=((LATER_MS, words.due[2]),)),
    }
    await session.play(script)
    await session.arrive(words.events[0])
    await session.set_clock(SOON_MS)
    judge_handled(session, *words.due[:2])
    await session.set_clock(LATER_MS)
    judge_handled(session, *words.due[:3])
