"""Measures the leader's half of idempotence: `python -m benchmarks.idempotence_core`.

The check of a batch is what stands between its arrival and its append: `BatchArrived`. It is given
in microseconds, with few producers and with many that have five batches remembered each. The goal
is 5 microseconds, and the same with many as with few. Beside it stands the whole cost of a batch,
the completion of its write included.

The memory of many producers is what Python allocates when they are folded from a log, ids, times
and all. The goal is under 50 MiB for 100,000.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Iterator

from protocol.idempotence import Entries, LogBatch, Sequences, Snapshot, fold
from protocol.idempotence.events import BatchAppended, BatchArrived
from protocol.machine import Event

GOAL_US = 5.0
GOAL_BYTES = 50 << 20
RECORDS = 100
FIRST_ID = 1 << 40
FIRST_OFFSET = 1 << 33
REMEMBERED = 5
NOW_MS = 1_700_000_000_000


def written(producers: int) -> Iterator[LogBatch]:
    """List a log in which every producer has five batches, as far apart as they can be."""
    offset = FIRST_OFFSET
    for number in range(REMEMBERED):
        for producer in range(producers):
            first = 1_000 + number * RECORDS
            yield LogBatch(
                FIRST_ID + producer, 300, first, first + RECORDS - 1, offset, NOW_MS + offset
            )
            offset += RECORDS


def folded(producers: int) -> tuple[Entries, int]:
    """Fold such a log; give what is remembered, and the bytes that it takes."""
    gc.collect()
    tracemalloc.start()
    entries = fold(written(producers))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return entries, size


def batches(producers: int, count: int) -> list[tuple[BatchArrived, BatchAppended]]:
    """List what each of `count` further batches brings, of producers all over the place."""
    found = []
    later: dict[int, int] = {}
    offset = FIRST_OFFSET + REMEMBERED * producers * RECORDS
    for number in range(count):
        producer = number * 7_919 % producers
        first = later.get(producer, 1_000 + REMEMBERED * RECORDS)
        later[producer] = first + RECORDS
        arrived = BatchArrived(number, FIRST_ID + producer, 300, first, first + RECORDS - 1)
        found.append((arrived, BatchAppended(FIRST_ID + producer, offset)))
        offset += RECORDS
    return found


def microseconds(entries: Entries, events: list[tuple[BatchArrived, BatchAppended]]) -> list[float]:
    """Give what the check of a batch takes, and what all of it takes."""
    machine = Sequences.restarted(snapshot=Snapshot(FIRST_OFFSET, entries))
    handle = machine.handle
    gc.collect()
    gc.disable()
    elapsed_s = [0.0, 0.0]
    # One producer has only so many batches in flight; a hundred producers have a hundred.
    for start in range(0, len(events), 100):
        some = events[start : start + 100]
        for kind in (0, 1):
            these: list[Event] = [each[kind] for each in some]
            started_s = time.process_time()
            for event in these:
                handle(event, NOW_MS)
            elapsed_s[kind] += time.process_time() - started_s
    gc.enable()
    each_us = [one_s / len(events) * 1e6 for one_s in elapsed_s]
    return [each_us[0], sum(each_us)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--producers", type=int, default=100_000)
    arguments = parser.parse_args()
    for producers in (100, arguments.producers):
        entries, size = folded(producers)
        events = batches(producers, arguments.batches)
        check_us, whole_us = map(
            min, zip(*(microseconds(entries, events) for _ in range(5)), strict=True)
        )
        print(f"{producers:,} producers, {REMEMBERED} batches remembered of each")
        print(f"  the check of a batch: {check_us:.2f} us (goal: at most {GOAL_US:.0f})")
        print(f"  with the completion of its write: {whole_us:.2f} us")
        goal = f" (goal: under {GOAL_BYTES / 2**20:.0f})" if producers >= 100_000 else ""
        print(f"  memory: {size / 2**20:.1f} MiB{goal}, {size / producers:.0f} bytes a producer")


if __name__ == "__main__":
    main()
