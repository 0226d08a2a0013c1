"""What is counted while a node works: plain numbers, which whoever does the work adds to.

Nobody here adds up, names or formats anything; `net.metrics.collector` does that when somebody
asks. So counting costs one addition, and a node that nobody looks at pays nothing more. What a
server counts is in `net.server.counters`.
"""

from __future__ import annotations

import attrs


@attrs.define
class PartitionCounters:
    """One partition on one broker, since the broker started."""

    bytes_in: int = 0
    batches_in: int = 0
    records_in: int = 0
    bytes_out: int = 0
    """To consumers; followers are counted by themselves."""
    fetches: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    rejected: int = 0
    """Batches that were refused."""


@attrs.define
class BrokerCounters:
    """One broker, since it started."""

    isr_shrinks: int = 0
    isr_expands: int = 0
    leaders_gained: int = 0
    leaders_lost: int = 0
    storage_failures: int = 0
    metadata_changes: int = 0


@attrs.define
class ControllerCounters:
    """One controller, since it started. Only what the active one does is counted."""

    elections: int = 0
    unclean_elections: int = 0
    brokers_fenced: int = 0
    terms: int = 0
    """How often this node became the active controller."""
