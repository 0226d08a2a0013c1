"""Long walks with real constants: whatever the network and the disks do, a batch is there once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.idempotence import Reaction, Rules
from tests.protocol.idempotence.promises import check
from tests.protocol.idempotence.steps import FAULTS, USUAL, take
from tests.protocol.idempotence.world import BrokenError, World

NAMES = [*FAULTS, *USUAL * 2]


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 2), st.integers(0, 15)), max_size=100)
)
@settings(max_examples=150, deadline=None)
def test_every_batch_is_there_once_and_in_order(story: list[tuple[str, int, int]]) -> None:
    world = World()
    for name, producer, number in story:
        take(world, name, producer, number)
        check(world)
    world.heal()
    check(world)
    for sender in world.senders.values():
        assert {*sender.delivered, *sender.failed} == set(range(1, sender.offered + 1))


def walk(seed: int, rules: Rules | None = None, *, faults: bool = True) -> World:
    """Take steps at random, with a few kinds of faults in each walk, and come to rest."""
    chance = random.Random(seed)
    world = World(rules=rules)
    kinds = chance.sample(FAULTS, chance.randint(1, 5)) if faults else ["commit"]
    for _ in range(400):
        name = chance.choice(kinds if chance.random() < 0.15 else USUAL)
        take(world, name, chance.randint(1, 2), chance.randrange(16))
        check(world)
    world.heal()
    check(world)
    return world


@pytest.mark.parametrize("seed", range(30))
def test_a_long_walk_with_all_faults(seed: int) -> None:
    world = walk(seed)
    assert sum(sender.offered for sender in world.senders.values()) > 10


def test_walks_reach_what_they_are_for() -> None:
    worlds = [walk(seed) for seed in range(30, 70)]
    batches = [each.batch for world in worlds for each in world.log]
    assert any(batch.last_sequence < batch.first_sequence for batch in batches), "no round"
    assert any(batch.epoch > 1 for batch in batches), "no new epochs"
    assert any(world.forgotten for world in worlds), "nobody expired"
    failed = [unknown for w in worlds for s in w.senders.values() for unknown in s.failed.values()]
    assert any(failed), "nothing failed"
    most = max(
        len(entry.batches) for world in worlds for entry in world.leader.state.entries.values()
    )
    assert most == 5


@pytest.mark.parametrize("seed", range(5))
def test_without_faults_everything_is_delivered_in_the_first_epoch(seed: int) -> None:
    world = walk(seed, faults=False)
    for sender in world.senders.values():
        assert sender.failed == {}
        assert sorted(sender.delivered) == list(range(1, sender.offered + 1))
        assert sender.machine.state.epoch == 0


# Those that a walk comes across. Wrong rules that need a rarer story are found by exploration
# (tests/spec/conformance) and told in the scenarios beside this file.
WRONG: dict[str, Callable[..., Any]] = {
    "next_sequence": lambda *arguments: arguments[0] + 1,
    "is_duplicate": lambda *_: False,
    "may_start": lambda *_: True,
    "is_next": lambda *_: True,
    "was_appended_before": lambda entry, request, _: entry.epoch == request.epoch,
    "remember": lambda *arguments: arguments[3],
    "duplicate_offset": lambda *arguments: arguments[2],
    "may_answer": lambda *_: True,
    "keeps_snapshot": lambda *_: True,
    "state_after_truncation": lambda *arguments: arguments[0],
    "state_after_restart": lambda *arguments: arguments[0].entries,
    "may_expire": lambda *_: True,
    "retry_sequence": lambda *arguments: arguments[1],
    "reaction": lambda *_: Reaction.AGAIN,
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_noticed(rule: str) -> None:
    """By a property, by a machine's own invariant, or because it does not come to rest."""
    rules = attrs.evolve(Rules(), **{rule: WRONG[rule]})
    assert any(_goes_wrong(seed, rules) for seed in range(100)), f"{rule}: nobody noticed"


def _goes_wrong(seed: int, rules: Rules) -> bool:
    try:
        walk(seed, rules)
    except (BrokenError, AssertionError):
        return True
    except Exception as error:
        return type(error).__name__ in {"InvariantViolation", "RemoteProtocolError"}
    return False
