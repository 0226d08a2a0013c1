"""What a server counts. Plain integers, because they change with every request."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

LATENCY_BUCKETS: Final = 28
LATENCY_BOUNDS_US: Final = tuple(2**power for power in range(LATENCY_BUCKETS - 1))
"""Bucket `i` counts what took less than `2**i` µs and not less than the bucket before."""


@attrs.define
class ApiCounters:
    """One API: how often it was asked, and how long its answers took, by buckets of latency."""

    requests: int = 0
    latency_total_us: int = 0
    latency: list[int] = attrs.field(factory=lambda: [0] * LATENCY_BUCKETS)

    def took(self, elapsed_us: int) -> None:
        """Count an answer; latency is from the last byte's arrival to the answer being ready."""
        self.latency_total_us += elapsed_us
        bucket = elapsed_us.bit_length()
        self.latency[bucket if bucket < LATENCY_BUCKETS else -1] += 1


@attrs.define
class ServerCounters:
    """Counts since the start, except `connections` and the queue, which are as of now."""

    apis: dict[int, ApiCounters] = attrs.field(factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    opened: int = 0
    closed: Counter[str] = attrs.field(factory=Counter)
    """Ended connections by reason; the reasons are those of `net.server.reasons`."""
    refused: int = 0
    queued_bytes: int = 0
    """Bytes of requests whose answers are not sent yet."""
    queue_waits: int = 0
    """How often a connection had to wait because the queue was full."""
    internal_errors: int = 0
    malformed: int = 0
    unlogged: int = 0
    """Lines left out of the log because there were too many of their kind."""

    def api(self, api_key: int) -> ApiCounters:
        """Return the counters of one API."""
        return self.apis.setdefault(api_key, ApiCounters())
