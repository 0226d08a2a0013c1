"""A cluster that lives by one wrong rule is found out, so that the other tests mean something.

Each wrong rule is a bug that Kafka had, or a plain mistake; `spec/mutants` has the same ones.
"""

from __future__ import annotations

import attrs
import pytest

from protocol.replication import Rules
from tests.protocol.replication.cluster import Cluster
from tests.protocol.replication.walk import found

SEEDS = range(40)
STEPS = 2_000
RIGHT = Rules()


def wrong(**rules: object) -> Rules:
    """Swap one rule."""
    return attrs.evolve(RIGHT, **rules)  # type: ignore[arg-type]


WRONG: dict[str, tuple[Rules, int, set[str]]] = {
    "KIP-101: cut to the high watermark": (
        wrong(kept_on_becoming_follower=lambda _, high_watermark: high_watermark),
        1,
        {"LeaderCandidateCompleteness", "ValidHighWatermark"},
    ),
    "KIP-320: take the answers of any epoch": (
        wrong(answer_is_current=lambda *_: True),
        2,
        {"LogMatching", "ConsistentRead", "ValidHighWatermark"},
    ),
    "KIP-966: commit under min ISR": (
        wrong(may_advance_high_watermark=lambda *_: True),
        2,
        {"LeaderCandidateCompleteness"},
    ),
    "KAFKA-7128: join before the epoch's start": (
        wrong(may_join_isr=lambda follower, end, _: follower.end_offset >= end),
        2,
        {"ValidHighWatermark", "LeaderCandidateCompleteness"},
    ),
    "KAFKA-8836: do not wait for who may have joined": (
        wrong(high_watermark_isr=lambda view: view.isr),
        1,
        {"ValidHighWatermark"},
    ),
    "KAFKA-13141: a diverging fetch is progress": (
        wrong(counts_as_progress=lambda _: True),
        2,
        {"ValidHighWatermark", "LeaderCandidateCompleteness"},
    ),
    "no divergence at all": (
        wrong(diverges=lambda *_: False),
        2,
        {"LogMatching", "ValidHighWatermark", "LeaderCandidateCompleteness"},
    ),
    "divergence by the epoch alone": (
        wrong(diverges=lambda end, request: end.epoch < request.last_epoch),
        2,
        {"LogMatching", "ValidHighWatermark", "LeaderCandidateCompleteness"},
    ),
    "acknowledge what is appended": (
        wrong(acknowledged_up_to=lambda end_offset, _: end_offset),
        2,
        {"AckedNotLost"},
    ),
    "append under min ISR": (wrong(may_append=lambda *_: True), 2, {"FailsClosed"}),
    "read what is not committed": (
        wrong(read_limit=lambda log, _: log.end_offset),
        2,
        {"ConsistentRead"},
    ),
    "let the high watermark go back": (
        wrong(follower_high_watermark=lambda _, leaders, end: min(leaders, end)),
        2,
        {"HwMonotonic"},
    ),
    "let the high watermark pass the log end": (
        wrong(follower_high_watermark=lambda mine, leaders, _: max(mine, leaders)),
        2,
        {"HwInLogRange"},
    ),
    "let anybody leave": (wrong(may_leave_isr=lambda *_: True), 1, {"OnlyLaggardsLeave"}),
    "let anybody join": (wrong(may_join_isr=lambda *_: True), 1, {"ValidHighWatermark"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str) -> None:
    rules, min_isr, broken = WRONG[name]
    names = (found(Cluster(3, min_isr, rules), seed, STEPS) for seed in SEEDS)
    assert next((each for each in names if each is not None), None) in broken


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    names = [found(Cluster(3, 2), seed, STEPS) for seed in SEEDS[:10]]
    assert set(names) == {None}
