"""What a broker does to its logs now and then: checkpoints, retention, compaction, flushes."""

from __future__ import annotations

from collections.abc import Callable

import trio

from net.settings.broker import BrokerSettings
from storage.store import LogStore


async def keep_house(store: LogStore, settings: BrokerSettings, wall: Callable[[], int]) -> None:
    """Do it until cancelled."""
    async with trio.open_nursery() as nursery:
        # One round writes all of these files, so the shortest of their intervals counts.
        every = min(
            settings.replica_high_watermark_checkpoint_interval_ms,
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.log_flush_start_offset_checkpoint_interval_ms,
        )
        nursery.start_soon(_repeat, every, store.checkpoint)
        # Likewise for retention and compaction.
        every = min(settings.log_retention_check_interval_ms, settings.log_cleaner_backoff_ms)
        nursery.start_soon(_repeat, every, lambda: store.tend(wall()))
        if settings.log_flush_interval_ms is not None:
            nursery.start_soon(_repeat, settings.log_flush_interval_ms, lambda: _flush(store, wall))


async def _repeat(interval_ms: int, work: Callable[[], None]) -> None:
    while True:
        await trio.sleep(interval_ms / 1000)
        work()


def _flush(store: LogStore, wall: Callable[[], int]) -> None:
    for folder in store.folders:
        if folder.failure is None:
            folder.flusher.tick(wall())
