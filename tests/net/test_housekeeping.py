"""What a broker does to its logs now and then, by a clock that runs as fast as it may."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from net.housekeeping import keep_house
from tests.net.settings.nodes import COMBINED, node


class Flusher:
    def __init__(self) -> None:
        self.ticks: list[int] = []

    def tick(self, now_ms: int) -> None:
        self.ticks.append(now_ms)


class Folder:
    def __init__(self, failure: Exception | None = None) -> None:
        self.flusher = Flusher()
        self.failure = failure


class Store:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.checkpoints = 0
        self.tended: list[int] = []
        self.folders = [Folder(), Folder(OSError("broken"))]

    def checkpoint(self) -> None:
        self.checkpoints += 1

    def tend(self, now_ms: int) -> None:
        self.tended.append(now_ms)


def kept(seconds: float, **changes: str) -> Store:
    """Keep house for a while."""
    store: Any = Store()
    settings = node(COMBINED, **changes)

    async def main() -> None:
        with trio.move_on_after(seconds):
            await keep_house(store, settings, lambda: 77)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    found: Store = store
    return found


def test_checkpoints_and_retention_come_round_at_their_own_pace() -> None:
    store = kept(
        10.5,
        replica_high_watermark_checkpoint_interval_ms="1000",
        log_retention_check_interval_ms="5000",
    )
    assert store.checkpoints == 10
    assert store.tended == [77, 77]
    assert store.folders[0].flusher.ticks == []


def test_flushes_come_round_where_the_disk_works_if_that_is_wanted() -> None:
    store = kept(1.05, log_flush_interval_ms="100")
    assert store.folders[0].flusher.ticks == [77] * 10
    assert store.folders[1].flusher.ticks == []
