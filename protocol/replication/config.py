"""What an operator may set of a replica, with Kafka's defaults, and the bounds of its memory."""

from __future__ import annotations

import attrs


def _setting(default: int, at_least: int = 1) -> int:
    """Declare a setting. A time-out of 0 would be due for ever; to park nothing is sensible."""

    def check(_config: object, setting: attrs.Attribute[int], value: int) -> None:
        if value < at_least:
            raise ValueError(f"{setting.name} is {value}: it must be at least {at_least}")

    return attrs.field(default=default, validator=check)


@attrs.frozen
class ReplicaConfig:
    """What an operator may set, and the bounds of what a replica keeps in memory."""

    min_isr: int = _setting(1)
    replica_lag_max_ms: int = _setting(30_000)
    proposal_retry_ms: int = _setting(1_000)
    fetch_retry_ms: int = _setting(1_000)
    fetch_wait_ms: int = _setting(500, at_least=0)
    fetch_min_bytes: int = _setting(1)
    fetch_max_bytes: int = _setting(1 << 20)
    fetch_timeout_ms: int = _setting(30_000)
    max_waiting_produces: int = _setting(1_000)
    max_waiting_bytes: int = _setting(64 << 20)
    max_parked_fetches: int = _setting(1_000, at_least=0)
