"""Measures the quorum's core: `python -m benchmarks.quorum_core`.

The cost of a batch is that of all that the leader's core does for it in a quorum of three until it
is committed: the controller's proposal, completion of the write, which answers both followers'
fetches that wait, and their next ones, by which they say that they have it. It is given in
microseconds, and as how many times that of the same events handled by a machine that does nothing,
which a faster or slower machine changes less. The goal is 60 microseconds.

A batch that comes alone costs more: both followers are told that it is committed, and ask again.
"""

from __future__ import annotations

import argparse

from benchmarks._machines import idler, microseconds_a_batch
from protocol.machine import Event
from protocol.quorum import NOBODY, Leader, Prospective, Quorum
from protocol.quorum.events import (
    Appended,
    ElectionDue,
    FetchesExpired,
    FetchReceived,
    RecordsProposed,
    VoteAnswered,
    VoteSaved,
)

GOAL_US = 60
VOTERS = frozenset({1, 2, 3})
FAR_MS = 10_000
WAIT_MS = 500


def leading() -> Quorum:
    """Make a leader of three voters in epoch 1, whose followers have its first record."""
    node = Quorum.restarted(1, VOTERS)
    node.handle(ElectionDue(), FAR_MS)
    if not isinstance(node.state.role, Prospective):
        raise TypeError("the node does not stand")
    attempt = node.state.role.attempt
    for event in (
        VoteAnswered(2, 0, NOBODY, granted=True, pre_vote=True, attempt=attempt),
        VoteSaved(),
        VoteAnswered(2, 1, NOBODY, granted=True),
        Appended(1),
        FetchReceived("a", 2, 1, 1, 1),
        FetchReceived("b", 3, 1, 1, 1, 1, max_wait_ms=WAIT_MS),
        FetchReceived("a", 2, 1, 1, 1, 1, max_wait_ms=WAIT_MS),
    ):
        node.handle(event, FAR_MS)
    if not isinstance(node.state.role, Leader):
        raise TypeError("the node does not lead")
    return node


def batches(count: int, *, alone: bool) -> list[tuple[Event, ...]]:
    """List the events that each batch brings to its leader; more of them if it comes alone."""
    size = 10
    found: list[tuple[Event, ...]] = []
    for number in range(count):
        base = 1 + number * size
        end = base + size
        told = (
            FetchesExpired(),
            FetchReceived("a", 2, 1, end, 1, end, max_wait_ms=WAIT_MS),
            FetchReceived("b", 3, 1, end, 1, end, max_wait_ms=WAIT_MS),
        )
        found.append(
            (
                RecordsProposed(number, 1, base, size, b""),
                Appended(end),
                FetchReceived("a", 2, 1, end, 1, base, max_wait_ms=WAIT_MS),
                FetchReceived("b", 3, 1, end, 1, base, max_wait_ms=WAIT_MS),
                *(told if alone else ()),
            )
        )
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20_000)
    count = parser.parse_args().batches
    costs = {}
    for alone in (False, True):
        events = batches(count, alone=alone)
        costs[alone] = min(_cost(events) for _ in range(3))
    shell = min(
        microseconds_a_batch(
            idler(RecordsProposed, Appended, FetchReceived, FetchesExpired),
            batches(count, alone=False),
        )
        for _ in range(3)
    )
    print(f"a batch costs the leader's core {costs[False]:.1f} us (goal: at most {GOAL_US})")
    print(f"  {costs[False] / shell:.0f} times a machine that does nothing ({shell:.2f} us)")
    print(f"  one that comes alone: {costs[True]:.1f} us")


def _cost(events: list[tuple[Event, ...]]) -> float:
    node = leading()
    cost = microseconds_a_batch(node, events, FAR_MS)
    if node.state.high_watermark != node.state.log.end_offset:
        raise ValueError("not everything was committed")
    return cost


if __name__ == "__main__":
    main()
