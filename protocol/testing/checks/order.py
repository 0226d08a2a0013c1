"""Rule 1: events one at a time, their effects in order, and before those of the next event.

When an effect ends is not looked at, nor whether the driver waits for it: all writes are finished
before the order is judged. Scenarios have one write at most, as the order of writes is rule 2.
"""

from __future__ import annotations

from itertools import zip_longest

from protocol.machine import Effect
from protocol.testing.checks.table import check
from protocol.testing.script import Step
from protocol.testing.session import START_MS, Session


async def judge(session: Session) -> None:
    """All that the machine gave was begun, in that order and once."""
    await session.finish_all_writes()
    pairs = zip_longest(session.journal.given, session.journal.begun)
    for number, (given, begun) in enumerate(pairs, start=1):
        if given != begun:
            what = "nothing" if begun is None else f"{begun}"
            session.broken(f"as effect number {number} the driver began {what}, not {given}")


@check(rule=1)
async def effects_of_an_event_are_begun_in_order(session: Session) -> None:
    """A write among answers: none of them is postponed."""
    words = session.vocabulary
    write = words.writes[0][0]
    effects = (words.replies[1], words.replies[0], write, words.replies[3], words.replies[2])
    await session.play({words.events[0]: Step(effects)})
    await session.arrive(words.events[0])
    await judge(session)


@check(rule=1)
async def equal_effects_are_begun_as_often_as_given(session: Session) -> None:
    """Effects are not a set."""
    words = session.vocabulary
    twice = (words.replies[0], words.replies[0], words.replies[1])
    await session.play({words.events[0]: Step(twice), words.events[1]: Step(twice)})
    await session.arrive(*words.events[:2])
    await judge(session)


@check(rule=1)
async def effects_of_an_event_come_before_those_of_the_next(session: Session) -> None:
    """Several events are there at once; what they lead to is not mixed."""
    words = session.vocabulary
    script = {
        event: Step(words.replies[2 * number : 2 * number + 2])
        for number, event in enumerate(words.events)
    }
    await session.play(script)
    await session.arrive(*words.events)
    await judge(session)


@check(rule=1)
async def an_event_that_arrives_amid_effects_waits_for_its_turn(session: Session) -> None:
    """As when a message to oneself takes no time."""
    words = session.vocabulary
    first, second = words.events[:2]
    script = {first: Step(words.replies[:3]), second: Step(words.replies[3:5])}

    def arrives(effect: Effect) -> None:
        if effect == words.replies[0]:
            session.driver.arrive(second)

    session.when_begun = arrives
    await session.play(script)
    await session.arrive(first)
    await judge(session)


@check(rule=1)
async def events_are_handled_one_at_a_time(session: Session) -> None:
    """`handle` returns before it is called again."""
    words = session.vocabulary
    await session.play({event: Step(words.replies[:2]) for event in words.events})
    await session.arrive(*words.events)
    for took in session.journal.taken:
        if took.overlaps:
            session.broken(f"{took.event} was handled while another event still was")


@check(rule=1)
async def effects_of_due_events_and_completions_are_begun_too(session: Session) -> None:
    """Whatever `handle` returns is to be done, no matter where the event came from."""
    words = session.vocabulary
    write, completion = words.writes[0]
    script = {
        words.events[0]: Step((write,), agenda=((START_MS + 10, words.due[0]),)),
        words.due[0]: Step(words.replies[:2]),
        completion: Step(words.replies[2:4]),
    }
    await session.play(script)
    await session.arrive(words.events[0])
    await session.set_clock(START_MS + 10)
    await judge(session)
