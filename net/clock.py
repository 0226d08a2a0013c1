"""The two clocks of a node. Everything that waits goes by the loop's; records go by the wall's.

The loop's clock never goes back, and under a simulator it is a virtual one. The wall clock may jump
at any time, so nothing but timestamps of records and retention may depend on it.
"""

from __future__ import annotations

import time

import trio


def now_ms() -> int:
    """Tell the time by the loop's clock, in whole milliseconds."""
    # Rounded: a timer may ring a few nanoseconds before its time, and nothing would be due.
    return round(trio.current_time() * 1000)


def wall_ms() -> int:
    """Tell the time of day, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
