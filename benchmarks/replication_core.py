"""Measures the replication core: `python -m benchmarks.replication_core`.

The cost of a batch is that of all that the leader's core does for it: produce, completion of the
write, two followers' fetches, the high watermark and the acknowledgement. It is given in
microseconds, and as how many times that of the same five events handled by a machine that does
nothing, which a faster or slower machine changes less. The goal is 40 microseconds.

The size of an idle replica's state is what Python's own objects take, shared ones (configuration,
small integers) not counted. The goal is 4 KiB.
"""

from __future__ import annotations

import argparse
import sys

import attrs

from benchmarks._machines import idler, microseconds_a_batch
from protocol.machine import Event
from protocol.replication import Replica, ReplicaConfig
from protocol.replication.events import (
    ACKS_ALL,
    Appended,
    BecameFollower,
    BecameLeader,
    FetchReceived,
    ProduceReceived,
)

GOAL_US = 40
GOAL_BYTES = 4 << 10
NODES = frozenset({1, 2, 3})


def leading() -> Replica:
    """Make a leader with two followers in sync."""
    replica = Replica.restarted(1, 1, config=ReplicaConfig(min_isr=2))
    replica.handle(BecameLeader(1, 1, NODES, NODES), 0)
    return replica


def batches(count: int) -> list[tuple[Event, ...]]:
    """List the events that each batch brings to its leader; followers fetch as soon as they can."""
    size = 100
    return [
        (
            ProduceReceived(number, ACKS_ALL, b"", size, 10_000),
            Appended((number + 1) * size),
            FetchReceived("a", 2, 1, 1, (number + 1) * size, 1, number * size),
            FetchReceived("b", 3, 1, 1, (number + 1) * size, 1, number * size),
        )
        for number in range(count)
    ]


def size_bytes(value: object, seen: set[int]) -> int:
    """Add up what a value and all that only it holds take."""
    if id(value) in seen or isinstance(value, ReplicaConfig):
        return 0
    seen.add(id(value))
    total = sys.getsizeof(value)
    if isinstance(value, tuple | frozenset):
        return total + sum(size_bytes(each, seen) for each in value)
    kind = type(value)
    if attrs.has(kind):
        names = [field.name for field in attrs.fields(kind)]
        return total + sum(size_bytes(getattr(value, name), seen) for name in names)
    return total


def idle_bytes() -> dict[str, int]:
    """Measure the states of an idle leader and an idle follower, machine included."""
    follower = Replica.restarted(2, 1)
    follower.handle(BecameFollower(1, 1), 0)
    leader = leading()
    for batch in batches(5):
        for event in batch:
            leader.handle(event, 1)
    return {
        "leader": sys.getsizeof(leader) + size_bytes(leader.state, set()),
        "follower": sys.getsizeof(follower) + size_bytes(follower.state, set()),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20_000)
    count = parser.parse_args().batches
    events = batches(count)
    cost = min(microseconds_a_batch(leading(), events) for _ in range(3))
    shell = min(
        microseconds_a_batch(idler(ProduceReceived, Appended, FetchReceived), events)
        for _ in range(3)
    )
    print(f"a batch costs the leader's core {cost:.1f} us (goal: at most {GOAL_US})")
    print(f"  {cost / shell:.0f} times a machine that does nothing ({shell:.2f} us)")
    for role, size in idle_bytes().items():
        print(f"an idle {role}: {size:,} bytes (goal: under {GOAL_BYTES:,})")


if __name__ == "__main__":
    main()
