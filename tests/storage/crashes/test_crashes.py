"""Seeded crashes: whatever happens to the machine, the log keeps its promises."""

import pytest

from storage.testing import run, run_rot

SEEDS = 300
BLOCK = 25


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.slow] if first else [])
        for first in range(0, SEEDS, BLOCK)
    ],
)
def test_the_log_survives_every_crash(first: int) -> None:
    for seed in range(first, first + BLOCK):
        outcome = run(seed)
        assert outcome.failure is None, outcome.report()


def test_crashes_are_not_only_the_harmless_ones() -> None:
    """Enough of the runs recover several times, and lose a torn tail."""
    outcomes = [run(seed) for seed in range(BLOCK)]
    assert sum(outcome.starts for outcome in outcomes) > 3 * BLOCK
    assert sum(outcome.torn for outcome in outcomes) > BLOCK / 3
    journal = "\n".join("\n".join(outcome.journal) for outcome in outcomes)
    for word in ("append", "flush", "save", "roll", "truncate", "reset", "advance", "no room"):
        assert word in journal
    for word in ("kill", "power fails", "stop", "with a crash to come", "crash at operation"):
        assert word in journal


def test_a_seed_replays_exactly() -> None:
    for seed in range(5):
        one, other = run(seed), run(seed)
        assert one.journal == other.journal
        assert (one.starts, one.torn, one.seen) == (other.starts, other.torn, other.seen)


def test_a_rotten_bit_below_the_recovery_point_is_found_and_named() -> None:
    found = 0
    for seed in range(40):
        outcome = run_rot(seed)
        assert outcome.failure is None, outcome.report()
        found += outcome.starts
    assert found > 8
