"""A quorum that lives by one wrong rule is found out, so that the other tests mean something.

`spec/mutants` has the same ones, and more that only a small model can show.
"""

from __future__ import annotations

from random import Random

import attrs
import pytest

from protocol.errors import InvariantViolation
from protocol.quorum import NOBODY, Rules
from tests.protocol.quorum.cluster import Cluster
from tests.protocol.quorum.parts import Broken
from tests.protocol.quorum.walk import CALM, STORM, Walk, healed

SEEDS = range(60)


def wrong(**rules: object) -> Rules:
    """Swap one rule."""
    return attrs.evolve(Rules(), **rules)  # type: ignore[arg-type]


def found(rules: Rules, seed: int) -> str | None:
    """Name what a walk with these rules breaks; None if it breaks nothing."""
    cluster = Cluster(3 + 2 * (seed % 2), 1, seed=seed, rules=rules)
    walk = Walk(cluster, Random(seed))
    mood = {**STORM, "crash": 2, "restart": 3, "snapshot": 3}
    try:
        for _ in range(3):
            walk.steps(300, mood)
            walk.steps(150, CALM)
        return None if healed(cluster, 400) else "LeaderEmerges"
    except (Broken, InvariantViolation) as broken:
        return broken.name


WRONG: dict[str, Rules] = {
    "half is enough": wrong(has_majority=lambda count, voters: 2 * count >= voters - 1),
    "stand in the same epoch": wrong(epoch_after=lambda epoch: epoch),
    "any log gets the vote": wrong(log_is_up_to_date=lambda *_: True),
    "vote for everyone": wrong(may_grant_vote=lambda _voted, _who, knows, new: not knows and new),
    "the vote is not saved": wrong(persisted_vote=lambda epoch, _: (epoch, NOBODY)),
    "nothing is saved": wrong(persisted_vote=lambda *_: (0, NOBODY)),
    "no record on election": wrong(records_on_election=lambda _: ()),
    "observers count": wrong(counts=lambda *_: True),
    "commit by counting": wrong(may_commit=lambda *_: True),
    "every fetch is progress": wrong(counts_as_progress=lambda _: True),
    "no divergence": wrong(diverges=lambda *_: False),
    "divergence by offset": wrong(diverges=lambda end, request: end.offset < request.offset),
    "any answer": wrong(answer_is_current=lambda *_: True),
    "no answer": wrong(answer_is_current=lambda *_: False),
    "cut to the high watermark": wrong(truncation_offset=lambda _, committed, __: committed),
    "the longer log is kept": wrong(
        kept_after_snapshot=lambda log, snapshot: snapshot.end_offset <= log.end_offset
    ),
    "snapshot to the log end": wrong(snapshot_offset=lambda _, end: end),
    "never a snapshot": wrong(needs_snapshot=lambda *_: False),
    "high watermark beyond the log": wrong(
        follower_high_watermark=lambda own, leaders, _: max(own, leaders)
    ),
    "high watermark goes back": wrong(
        follower_high_watermark=lambda _, leaders, end: min(leaders, end)
    ),
    "never encourage": wrong(may_grant_pre_vote=lambda *_: False),
    "any other epoch": wrong(is_newer_epoch=lambda theirs, mine: theirs != mine),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str) -> None:
    names = (found(WRONG[name], seed) for seed in SEEDS)
    assert next((each for each in names if each is not None), None) is not None


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert {found(Rules(), seed) for seed in SEEDS[:15]} == {None}
