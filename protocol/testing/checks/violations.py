"""Rule 5: after an `InvariantViolation` the machine is left alone, whatever else happens."""

from __future__ import annotations

from protocol.errors import InvariantViolation
from protocol.testing.checks.table import check
from protocol.testing.journal import Began, Raised
from protocol.testing.script import Step
from protocol.testing.session import START_MS, Session

SOON_MS = START_MS + 50


def judge(session: Session) -> None:
    """Nothing was asked of the machine after it had raised."""
    raised = session.journal.raised
    if raised is None or not isinstance(raised.error, InvariantViolation):
        # The event was never handled; that is for another rule to tell.
        return
    entries = session.journal.entries
    after = entries[entries.index(raised) + 1 :]
    used = [entry for entry in after if not isinstance(entry, Began | Raised)]
    if used:
        session.broken(f"after {raised.error} the machine was used again: {used[0]}")


async def try_everything(session: Session) -> None:
    """Give a driver that should have stopped every reason to go on."""
    await session.arrive(session.vocabulary.events[3])
    await session.finish_all_writes()
    await session.set_clock(SOON_MS + 1_000)
    await session.arrive(session.vocabulary.events[3])


@check(rule=5)
async def nothing_happens_after_an_event_that_violates(session: Session) -> None:
    """Though a write is unfinished, a deadline set, and more events are there already."""
    words = session.vocabulary
    first, second, third = words.events[:3]
    script = {
        first: Step((words.writes[0][0],), agenda=((SOON_MS, words.due[0]),)),
        second: Step(violates=True),
    }
    await session.play(script)
    await session.arrive(first)
    await session.arrive(second, third)
    await try_everything(session)
    judge(session)


@check(rule=5)
async def nothing_happens_after_a_completion_that_violates(session: Session) -> None:
    """Two writes are on their way; the first one's completion violates."""
    words = session.vocabulary
    writes = tuple(write for write, _ in words.writes[:2])
    script = {words.events[0]: Step(writes), words.completions[0]: Step(violates=True)}
    await session.play(script)
    await session.arrive(words.events[0])
    await session.finish_write()
    await try_everything(session)
    judge(session)


@check(rule=5)
async def nothing_happens_after_a_due_event_that_violates(session: Session) -> None:
    """Though others are due at the same time."""
    words = session.vocabulary
    agenda = tuple((SOON_MS, event) for event in words.due[:3])
    script = {words.events[0]: Step(agenda=agenda), words.due[0]: Step(violates=True)}
    await session.play(script)
    await session.arrive(words.events[0])
    await session.set_clock(SOON_MS)
    await try_everything(session)
    judge(session)
