"""What a recorded run is made of: how large, how fast, and how much goes wrong."""

from __future__ import annotations

import attrs

from protocol.controller import ControllerRules
from protocol.replication import ReplicaConfig, Rules

BATCH_BYTES = 100


@attrs.frozen
class Plan:
    """What a run is made of: its size, its speed, and how much goes wrong."""

    seed: int = 0
    brokers: int = 3
    lines: int = 2_000
    min_isr: int = 2
    unclean_election: bool = False
    latency_ms: tuple[int, int] = (1, 8)
    stragglers: float = 0.02
    """The share of messages that take thirty times as long."""
    write_ms: tuple[int, int] = (0, 4)
    metadata_ms: tuple[int, int] = (1, 15)
    produce_every_ms: int = 12
    consume_every_ms: int = 60
    fault_every_ms: int = 1_500
    down_ms: tuple[int, int] = (10, 600)
    lost: float = 0.0
    """The share of messages that are lost."""
    fetch_timeout_ms: int = 30_000
    skips: float = 0.0
    """The share of records that brokers never learn, because they learn a newer one instead."""
    checkpoint_every_ms: int = 0
    """How often high watermarks are written down; 0: at once."""
    untold: float = 0.0
    """The share of writes under way that are done when a broker stops, and it does not know."""
    shutdowns: float = 0.0
    """The share of stops that are announced to the controller."""
    failovers: float = 0.0
    """The share of faults that are the controller's."""
    rules: Rules = attrs.field(factory=Rules)
    controller_rules: ControllerRules = attrs.field(factory=ControllerRules)

    def replica_config(self) -> ReplicaConfig:
        """Give the timeouts of a run: some are short, so that they matter."""
        return ReplicaConfig(
            min_isr=self.min_isr,
            replica_lag_max_ms=120,
            proposal_retry_ms=400,
            fetch_retry_ms=20,
            fetch_timeout_ms=self.fetch_timeout_ms,
            fetch_wait_ms=50,
            fetch_max_bytes=3 * BATCH_BYTES,
        )
