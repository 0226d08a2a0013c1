"""Rule 4: the times that a machine is told never go back, wherever an event comes from."""

from __future__ import annotations

from itertools import pairwise

from protocol.testing.checks.table import check
from protocol.testing.script import Step
from protocol.testing.session import START_MS, Session

LATER_MS = START_MS + 500


def judge(session: Session) -> None:
    """No call was told an earlier time than the one before."""
    for before_ms, after_ms in pairwise(session.journal.times_ms):
        if after_ms < before_ms:
            session.broken(f"after {before_ms} the machine was told {after_ms}")


@check(rule=4)
async def a_clock_that_is_set_back_does_not_take_the_machine_along(session: Session) -> None:
    """As a wall clock is, by an operator or by NTP."""
    words = session.vocabulary
    await session.play({words.events[1]: Step(agenda=((LATER_MS, words.due[0]),))})
    await session.set_clock(LATER_MS)
    await session.arrive(words.events[0])
    await session.set_clock(START_MS)
    await session.arrive(words.events[1])
    await session.set_clock(LATER_MS + 1)
    await session.arrive(words.events[2])
    judge(session)


@check(rule=4)
async def a_completion_is_handled_at_the_time_when_it_comes(session: Session) -> None:
    """Not at that when its write was begun."""
    words = session.vocabulary
    await session.play({words.events[0]: Step((words.writes[0][0],))})
    await session.arrive(words.events[0])
    await session.set_clock(LATER_MS)
    await session.arrive(words.events[1])
    await session.finish_all_writes()
    judge(session)


@check(rule=4)
async def what_is_due_is_handled_at_the_time_of_the_clock(session: Session) -> None:
    """Not at that of its deadline, which may be long past."""
    words = session.vocabulary
    script = {
        words.events[0]: Step(agenda=((LATER_MS, words.due[0]),)),
        words.due[0]: Step(agenda=((0, words.due[1]),)),
    }
    await session.play(script)
    await session.arrive(words.events[0])
    await session.set_clock(LATER_MS)
    await session.arrive(words.events[1])
    judge(session)
