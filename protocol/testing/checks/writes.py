"""Rule 2: writes in order, each answered by one completion, when it is done and not before."""

from __future__ import annotations

from protocol.machine import Effect, Event
from protocol.testing.checks.table import check
from protocol.testing.script import Script, Step
from protocol.testing.session import START_MS, Session


def two_events_with_three_writes_each(session: Session) -> Script:
    """A script with six writes and an answer after each."""
    words = session.vocabulary
    effects: list[Effect] = []
    for (write, _), reply in zip(words.writes, words.replies, strict=False):
        effects += [write, reply]
    return {words.events[0]: Step(tuple(effects[:6])), words.events[1]: Step(tuple(effects[6:]))}


def completed(session: Session) -> list[Event]:
    """List the completions that the machine was told of."""
    known = session.vocabulary.completions
    return [event for event in session.journal.events if event in known]


def judge_prefix(session: Session, finished: int) -> None:
    """The machine was told of writes in order, and of none that is not finished."""
    seen = completed(session)
    expected = list(session.vocabulary.completions[: len(seen)])
    if seen != expected:
        session.broken(f"the completions were {seen}, where they should begin {expected}")
    if len(seen) > finished:
        session.broken(f"{seen[finished]} was handled before that write was done")


def judge_all(session: Session) -> None:
    """Each of the writes was answered, in order and once."""
    judge_prefix(session, len(session.vocabulary.writes))
    missing = session.vocabulary.completions[len(completed(session)) :]
    if missing:
        session.broken(f"all writes are done, and the machine never heard of {missing[0]}")


@check(rule=2)
async def writes_are_begun_in_order(session: Session) -> None:
    """Within an event, and from one event to the next."""
    words = session.vocabulary
    await session.play(two_events_with_three_writes_each(session))
    await session.arrive(*words.events[:2])
    await session.finish_all_writes()
    writes = [write for write, _ in words.writes]
    begun = [effect for effect in session.journal.begun if effect in writes]
    if begun != writes:
        session.broken(f"the writes {writes} were begun as {begun}")


@check(rule=2)
async def a_write_is_not_complete_before_it_is_done(session: Session) -> None:
    """Whatever else happens meanwhile."""
    words = session.vocabulary
    await session.play(two_events_with_three_writes_each(session))
    await session.arrive(*words.events[:2])
    judge_prefix(session, 0)
    await session.set_clock(START_MS + 60_000)
    await session.arrive(words.events[2])
    judge_prefix(session, 0)


@check(rule=2)
async def each_write_is_answered_once_and_in_order(session: Session) -> None:
    """The disk finishes one after the other."""
    words = session.vocabulary
    await session.play(two_events_with_three_writes_each(session))
    await session.arrive(*words.events[:2])
    for number in range(len(words.writes)):
        await session.finish_write()
        judge_prefix(session, number + 1)
    judge_all(session)


@check(rule=2)
async def completions_keep_their_order_where_the_disk_does_not(session: Session) -> None:
    """The disk finishes the last write first, if it is given several at once."""
    words = session.vocabulary
    await session.play(two_events_with_three_writes_each(session))
    await session.arrive(*words.events[:2])
    for _ in words.writes:
        unfinished = session.driver.unfinished_writes()
        await session.finish_write(max(0, unfinished - 1))
        judge_prefix(session, len(words.writes))
    judge_all(session)


@check(rule=2)
async def a_write_that_completes_may_lead_to_the_next(session: Session) -> None:
    """A chain: each completion has another write as its effect."""
    words = session.vocabulary
    script = {words.events[0]: Step((words.writes[0][0],))}
    for (_, completion), (write, _) in zip(words.writes, words.writes[1:], strict=False):
        script[completion] = Step((write,))
    await session.play(script)
    await session.arrive(words.events[0])
    await session.finish_all_writes()
    judge_all(session)


@check(rule=2)
async def a_write_that_fails_is_never_complete(session: Session) -> None:
    """The machine is told of the failure instead, and of no completion from then on."""
    words = session.vocabulary
    await session.play(two_events_with_three_writes_each(session))
    await session.arrive(*words.events[:2])
    await session.finish_write()
    await session.fail_write()
    await session.finish_all_writes()
    judge_prefix(session, 1)
    if not any(isinstance(event, words.failures) for event in session.journal.events):
        session.broken("a write failed, and the machine was never told")
