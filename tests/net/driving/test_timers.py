"""Timers ring in time, again and again, late rather than never, and let everybody else run."""

import math
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from net.driving import Timers

MAX_RINGS = 10_000
"""Whoever is rung more often is rung for ever."""


class Bell:
    """Somebody with deadlines; what happens when rung is given, and by default it was the last."""

    def __init__(self, timers: Timers, deadline_ms: int | None = None) -> None:
        self.timers = timers
        self.armed_ms = math.inf
        self.deadline_ms = deadline_ms
        self.rung_ms: list[int] = []
        self.then: Callable[[], int | None] = lambda: None
        timers.watch(self)

    def next_deadline(self) -> int | None:
        return self.deadline_ms

    def ring(self) -> None:
        self.rung_ms.append(self.timers.clock_ms())
        assert len(self.rung_ms) < MAX_RINGS
        self.deadline_ms = self.then()

    def set(self, deadline_ms: int | None) -> None:
        self.deadline_ms = deadline_ms
        self.timers.watch(self)


def on_virtual_clock(test: Callable[[Timers], Awaitable[None]]) -> None:
    """Run a test beside timers, where time passes only when all are idle."""

    async def main() -> None:
        timers = Timers()
        async with running(timers):
            await test(timers)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@asynccontextmanager
async def running(timers: Timers) -> Any:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        yield
        nursery.cancel_scope.cancel()


async def until_ms(now_ms: int) -> None:
    """Let the others live until then."""
    deadline = trio.current_time() + (now_ms / 1000 - trio.current_time())
    with trio.CancelScope(deadline=deadline):
        await trio.Event().wait()
    await trio.testing.wait_all_tasks_blocked()


def test_everybody_is_rung_at_their_time() -> None:
    async def test(timers: Timers) -> None:
        bells = [Bell(timers, ms) for ms in (30, 10, 20)]
        await until_ms(25)
        assert [bell.rung_ms for bell in bells] == [[], [10], [20]]
        await until_ms(30)
        assert bells[0].rung_ms == [30]

    on_virtual_clock(test)


def test_a_deadline_that_comes_nearer_while_the_task_sleeps_is_kept() -> None:
    async def test(timers: Timers) -> None:
        far = Bell(timers, 60_000)
        await until_ms(5)
        far.set(10)
        other = Bell(timers, 7)
        await until_ms(100)
        assert (far.rung_ms, other.rung_ms) == ([10], [7])

    on_virtual_clock(test)


def test_a_deadline_that_moves_away_rings_nobody_in_vain_for_long() -> None:
    async def test(timers: Timers) -> None:
        bell = Bell(timers, 10)
        bell.then = lambda: 40 if len(bell.rung_ms) == 1 else None
        bell.set(40)
        await until_ms(100)
        # At its old time it is asked what is due, and nothing is; then at the new one.
        assert bell.rung_ms == [10, 40]

    on_virtual_clock(test)


def test_who_is_rung_can_be_armed_again_and_again() -> None:
    async def test(timers: Timers) -> None:
        bell = Bell(timers, 10)
        bell.then = lambda: timers.clock_ms() + 10 if len(bell.rung_ms) < 5 else None
        await until_ms(1_000)
        assert bell.rung_ms == [10, 20, 30, 40, 50]
        bell.set(1_100)
        await until_ms(2_000)
        assert bell.rung_ms[5:] == [1_100]

    on_virtual_clock(test)


@pytest.mark.parametrize("deadline_ms", [0, -5])
def test_a_deadline_in_the_past_is_kept_at_once(deadline_ms: int) -> None:
    async def test(timers: Timers) -> None:
        await until_ms(500)
        bell = Bell(timers)
        bell.set(deadline_ms)
        await trio.testing.wait_all_tasks_blocked()
        assert bell.rung_ms == [500]

    on_virtual_clock(test)


def test_who_is_always_due_starves_neither_the_others_nor_the_loop() -> None:
    async def main() -> None:
        timers = Timers()
        async with running(timers):
            greedy, modest = Bell(timers, 0), Bell(timers, 0)
            greedy.then = lambda: 0
            # A task that only wants its turn, again and again.
            for _ in range(100):
                await trio.lowlevel.checkpoint()
            assert modest.rung_ms
            assert len(greedy.rung_ms) >= 50
            late = Bell(timers, 0)
            while not late.rung_ms:
                await trio.lowlevel.checkpoint()

    async def bounded() -> None:
        with trio.fail_after(60):
            await main()

    trio.run(bounded)


def test_one_round_rings_nobody_twice() -> None:
    timers = Timers(lambda: 100)
    greedy = Bell(timers, 0)
    greedy.then = lambda: 0
    timers.ring_due()
    assert len(greedy.rung_ms) == 1


def test_entries_do_not_pile_up_while_a_deadline_moves_away() -> None:
    now_ms = 0
    timers = Timers(lambda: now_ms)
    bell = Bell(timers, 50)
    for now_ms in range(1, 50):
        bell.set(now_ms + 50)
    assert len(timers._heap) == 1


def test_who_has_no_deadline_any_more_is_left_alone_after_one_look() -> None:
    now_ms = 10
    timers = Timers(lambda: now_ms)
    bell = Bell(timers, 10)
    timers.ring_due()
    timers.ring_due()
    assert bell.rung_ms == [10]
    assert timers.next_ms == math.inf


def test_a_nearer_deadline_does_not_ring_the_farther_entry_in_addition() -> None:
    now_ms = 0
    timers = Timers(lambda: now_ms)
    bell = Bell(timers, 50)
    bell.set(20)
    now_ms = 20
    timers.ring_due()
    assert bell.rung_ms == [20]
    now_ms = 50
    timers.ring_due()
    assert bell.rung_ms == [20]


def test_entries_do_not_pile_up_when_near_deadlines_come_and_go_before_a_far_one() -> None:
    now_ms = 0
    timers = Timers(lambda: now_ms)
    bell = Bell(timers)
    for now_ms in range(5_000):
        bell.set(now_ms + 30_000)
        bell.set(now_ms)
        timers.ring_due()
    assert len(timers._heap) <= 1_000
    assert len(bell.rung_ms) == 5_000
