"""Drivers that break the contract, each in one way, and the check that has to notice."""

from typing import Any

from protocol.errors import InvariantViolation
from protocol.machine import Effect, Effects, Event, Handled
from protocol.replication.events import Truncated
from protocol.testing import REPLICATION
from tests.protocol.testing.reference import Reference, Write, completion_of


def split(effects: Effects) -> tuple[list[Effect], list[Effect]]:
    """Tell writes from the rest."""
    writes = [effect for effect in effects if completion_of(effect)]
    return writes, [effect for effect in effects if not completion_of(effect)]


# Rule 1.


class AnswersFirst(Reference):
    def arranged(self, effects: Effects) -> Effects:
        writes, others = split(effects)
        return (*others, *writes)


class AnswersBackwards(Reference):
    def arranged(self, effects: Effects) -> Effects:
        writes, others = split(effects)
        return (*writes, *reversed(others))


class LeavesOutWhatItHasJustDone(Reference):
    def arranged(self, effects: Effects) -> Effects:
        return tuple(dict.fromkeys(effects))


class ForgetsWhatWasDue(Reference):
    def fire(self) -> None:
        for event in self.machine.due(self.now_ms):
            if not self.dead:
                try:
                    self.machine.handle(event, self.now_ms)
                except InvariantViolation:
                    self.dead = True
                else:
                    self.ask(event)


class MixesTwoEvents(Reference):
    """The last answer of an event is sent together with the next event's."""

    kept: Effects = ()

    def arranged(self, effects: Effects) -> Effects:
        kept, self.kept = self.kept, ()
        if effects and not completion_of(effects[-1]) and self.inbox:
            effects, self.kept = effects[:-1], effects[-1:]
        return (*effects, *kept)


class HandlesWhatArrivesAtOnce(Reference):
    def arrive(self, event: Event) -> None:
        if not self.dead:
            self.take(event)


class HandlesWithinHandle(Reference):
    """The effects of the inner event are carried out after those of the outer one."""

    inner: Effects = ()

    def arranged(self, effects: Effects) -> Effects:
        inner, self.inner = self.inner, ()
        return (*effects, *inner)

    def take(self, event: Event) -> None:
        self.machine.trace = self.traced
        super().take(event)

    def traced(self, handled: Handled[Any]) -> None:
        del handled
        if self.inbox and not self.inner:
            self.machine.trace = None
            self.inner = self.machine.handle(self.inbox.popleft(), self.now_ms)


# Rule 2.


class WritesBackwards(Reference):
    def arranged(self, effects: Effects) -> Effects:
        writes, _ = split(effects)
        return tuple(writes.pop() if completion_of(effect) else effect for effect in effects)


class CompletesBeforeTheDiskHas(Reference):
    def carry_out(self, effect: Effect) -> None:
        super().carry_out(effect)
        if completion := completion_of(effect):
            self.inbox.append(completion)

    def complete(self, write: Write) -> None:
        pass


class CompletesAfterASecond(Reference):
    """Whoever has not heard of a failure by then takes the write for done."""

    def set_clock(self, now_ms: int) -> None:
        super().set_clock(now_ms)
        while self.disk:
            self.complete(self.disk.pop(0))


class CompletesTwice(Reference):
    def complete(self, write: Write) -> None:
        self.inbox.extend([write.completion, write.completion])


class ForgetsCuts(Reference):
    def complete(self, write: Write) -> None:
        if not isinstance(write.completion, Truncated):
            super().complete(write)


class TellsOnlyTheLast(Reference):
    """One event for all that was written at once, as if completions were cumulative."""

    def complete(self, write: Write) -> None:
        if not self.disk or not self.disk[0].done:
            super().complete(write)


class TellsTheNewestFirst(Reference):
    def finish_write(self, place: int) -> None:
        del place
        self.complete(self.disk.pop())


class TellsAsTheDiskFinishes(Reference):
    def finish_write(self, place: int) -> None:
        self.complete(self.disk.pop(place))


class CompletesWhatFailed(Reference):
    def fail_write(self) -> None:
        self.finish_write(0)
        super().fail_write()


class CompletesWhatCameAfterAFailure(Reference):
    def fail_write(self) -> None:
        self.disk.pop(0)
        self.inbox.append(self.failure)


class KeepsFailuresToItself(Reference):
    def fail_write(self) -> None:
        self.disk.clear()


# Rule 3.


class HasNoTimers(Reference):
    def ask(self, event: Event) -> None:
        pass


class AsksOnce(Reference):
    def ask(self, event: Event) -> None:
        if self.deadline_ms is None or self.deadline_ms <= self.now_ms:
            super().ask(event)


class AsksNotAfterCompletions(Reference):
    def ask(self, event: Event) -> None:
        if event not in REPLICATION.completions:
            super().ask(event)


class AsksNotAfterWhatWasDue(Reference):
    def fire(self) -> None:
        super().fire()
        self.deadline_ms = None


class AsksAfterTheFirstOfABurst(Reference):
    asked = False

    def ask(self, event: Event) -> None:
        if not self.asked:
            super().ask(event)
        self.asked = bool(self.inbox)


class RunsAheadOfTheClock(Reference):
    def ask(self, event: Event) -> None:
        super().ask(event)
        if self.deadline_ms is not None and self.deadline_ms <= self.now_ms + 80:
            self.now_ms = max(self.now_ms, self.deadline_ms)


class NeedsATick(Reference):
    """Looks at its deadlines only when the clock has moved."""

    def ask(self, event: Event) -> None:
        super().ask(event)
        if self.deadline_ms is not None:
            self.deadline_ms = max(self.deadline_ms, self.now_ms + 1)


class SleepsThroughDeadlines(Reference):
    def fire(self) -> None:
        if self.deadline_ms in (0, self.now_ms):
            super().fire()
        else:
            self.deadline_ms = None


class CountsInSeconds(Reference):
    """Rounds down what floating point has made a little less, and misses the deadline by that."""

    def fire(self) -> None:
        if self.deadline_ms is not None and int(self.now_ms / 1000 * 1000) < self.deadline_ms:
            self.deadline_ms = None
        else:
            super().fire()


class HandlesWhatIsDueBackwards(Reference):
    def fire(self) -> None:
        self.inbox.extend(reversed(self.machine.due(self.now_ms)))
        self.deadline_ms = None


class HandlesTheFirstThatIsDue(Reference):
    def fire(self) -> None:
        self.inbox.extend(self.machine.due(self.now_ms)[:1])
        self.deadline_ms = None

    def ask(self, event: Event) -> None:
        super().ask(event)
        if event in REPLICATION.due and self.deadline_ms is not None:
            self.deadline_ms = self.deadline_ms if self.deadline_ms > self.now_ms else None


class GoesRoundInCircles(Reference):
    """Asks what is due again and again, and never comes to handling it."""

    def fire(self) -> None:
        self.machine.due(self.now_ms)


# Rule 4.


class TrustsTheWallClock(Reference):
    def set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms


class HasItsOwnTimeForWrites(Reference):
    """A completion is told the time at which its event was, when the write was begun."""

    event_ms = 0

    def carry_out(self, effect: Effect) -> None:
        super().carry_out(effect)
        if completion_of(effect):
            self.event_ms = self.now_ms

    def take(self, event: Event) -> None:
        now_ms = self.now_ms
        if event in REPLICATION.completions:
            self.now_ms = self.event_ms
        super().take(event)
        self.now_ms = now_ms


class TakesTheDeadlineForTheTime(Reference):
    def fire(self) -> None:
        now_ms = self.now_ms
        self.now_ms = now_ms if self.deadline_ms is None else self.deadline_ms
        super().fire()
        self.now_ms = now_ms


# Rule 5.


class GoesOn(Reference):
    def take(self, event: Event) -> None:
        super().take(event)
        self.dead = False


class EmptiesItsInboxFirst(Reference):
    def take(self, event: Event) -> None:
        super().take(event)
        while self.inbox and self.dead:
            super().take(self.inbox.popleft())


class AsksForTheDeadlineInAnyCase(Reference):
    def take(self, event: Event) -> None:
        try:
            super().take(event)
        finally:
            self.ask(event)


class HandsCompletionsToTheDead(Reference):
    def complete(self, write: Write) -> None:
        if self.dead:
            self.machine.handle(write.completion, self.now_ms)
        super().complete(write)


class FinishesWhatIsDue(Reference):
    def fire(self) -> None:
        for event in self.machine.due(self.now_ms):
            self.take(event)


WRONG: dict[int, dict[type[Reference], str]] = {
    1: {
        AnswersFirst: "effects_of_an_event_are_begun_in_order",
        AnswersBackwards: "effects_of_an_event_are_begun_in_order",
        LeavesOutWhatItHasJustDone: "equal_effects_are_begun_as_often_as_given",
        ForgetsWhatWasDue: "effects_of_due_events_and_completions_are_begun_too",
        MixesTwoEvents: "effects_of_an_event_come_before_those_of_the_next",
        HandlesWhatArrivesAtOnce: "an_event_that_arrives_amid_effects_waits_for_its_turn",
        HandlesWithinHandle: "events_are_handled_one_at_a_time",
    },
    2: {
        WritesBackwards: "writes_are_begun_in_order",
        CompletesBeforeTheDiskHas: "a_write_is_not_complete_before_it_is_done",
        CompletesAfterASecond: "a_write_is_not_complete_before_it_is_done",
        CompletesTwice: "each_write_is_answered_once_and_in_order",
        ForgetsCuts: "each_write_is_answered_once_and_in_order",
        TellsOnlyTheLast: "completions_keep_their_order_where_the_disk_does_not",
        TellsTheNewestFirst: "each_write_is_answered_once_and_in_order",
        TellsAsTheDiskFinishes: "completions_keep_their_order_where_the_disk_does_not",
        CompletesWhatFailed: "a_write_that_fails_is_never_complete",
        CompletesWhatCameAfterAFailure: "a_write_that_fails_is_never_complete",
        KeepsFailuresToItself: "a_write_that_fails_is_never_complete",
    },
    3: {
        HasNoTimers: "what_is_due_is_handled_at_its_time_and_not_before",
        AsksOnce: "the_deadline_is_asked_for_after_an_event",
        AsksNotAfterCompletions: "the_deadline_is_asked_for_after_a_completion",
        AsksNotAfterWhatWasDue: "the_deadline_is_asked_for_after_what_was_due",
        AsksAfterTheFirstOfABurst: "the_deadline_is_asked_for_after_the_last_of_a_burst",
        RunsAheadOfTheClock: "what_is_due_is_handled_at_its_time_and_not_before",
        NeedsATick: "what_is_due_at_once_needs_no_tick_of_the_clock",
        SleepsThroughDeadlines: "a_deadline_that_was_slept_through_is_kept_late",
        CountsInSeconds: "a_deadline_is_kept_to_the_millisecond",
        HandlesWhatIsDueBackwards: "all_that_is_due_is_handled_in_order",
        HandlesTheFirstThatIsDue: "all_that_is_due_is_handled_in_order",
        GoesRoundInCircles: "what_is_due_is_handled_at_its_time_and_not_before",
    },
    4: {
        TrustsTheWallClock: "a_clock_that_is_set_back_does_not_take_the_machine_along",
        HasItsOwnTimeForWrites: "a_completion_is_handled_at_the_time_when_it_comes",
        TakesTheDeadlineForTheTime: "what_is_due_is_handled_at_the_time_of_the_clock",
    },
    5: {
        GoesOn: "a_replica_that_must_not_lead_is_left_alone",
        EmptiesItsInboxFirst: "nothing_happens_after_an_event_that_violates",
        AsksForTheDeadlineInAnyCase: "nothing_happens_after_an_event_that_violates",
        HandsCompletionsToTheDead: "nothing_happens_after_a_completion_that_violates",
        FinishesWhatIsDue: "nothing_happens_after_a_due_event_that_violates",
    },
}
