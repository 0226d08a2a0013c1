"""Measures three brokers that do nothing: `python -m benchmarks.broker_idle`.

They have 1,000 partitions with a replica on each broker, so every broker leads a third of them and
follows the others. The goals are less than 150 MiB of memory a broker, and less than 3 % of a core.
"""

from __future__ import annotations

import time

from benchmarks._brokers import MIB, TOPIC, running

PARTITIONS = 1_000
SETTLE_S = 5.0
WATCH_S = 15.0
MEMORY_GOAL_MIB = 150
CPU_GOAL = 0.03


def main() -> None:
    """Measure and print."""
    with running(3) as cluster:
        started_s = time.perf_counter()
        cluster.create(TOPIC, PARTITIONS)
        made_s = time.perf_counter() - started_s
        print(f"{PARTITIONS:,} partitions are led and in sync after {made_s:.1f} s", flush=True)
        time.sleep(SETTLE_S)
        before_s = [node.cpu_s() for node in cluster.nodes]
        time.sleep(WATCH_S)
        for node, earlier_s in zip(cluster.nodes, before_s, strict=True):
            busy = (node.cpu_s() - earlier_s) / WATCH_S
            print(
                f"broker {node.number}: {node.memory_bytes() / MIB:.0f} MiB"
                f" (goal: under {MEMORY_GOAL_MIB}), {busy:.1%} of a core"
                f" (goal: under {CPU_GOAL:.0%})"
            )


if __name__ == "__main__":
    main()
