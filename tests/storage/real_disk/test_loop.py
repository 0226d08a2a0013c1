"""Under Trio, whatever blocks is in a thread: the loop goes on while the disk takes its time."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.trio_disk import TrioDisk, open_trio_disk
from storage.errors import StorageError
from storage.flusher import FLUSH_ALWAYS
from storage.folder import NewLog
from storage.log.cutting import truncate
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import numbered
from tests.storage.folder.worlds import FIRST, SMALL, check_numbered

pytestmark = pytest.mark.trio

WANTED = [TopicPartition("topic", number) for number in range(8)]
CONFIG = attrs.evolve(SMALL, compact=True, min_cleanable_ratio=0.1, retention_bytes=3000)


async def told(begin: Callable[[Callable[[object], None]], None]) -> None:
    """Wait for something that calls back, and calls it no error."""
    ended, results = trio.Event(), []

    def done(result: object) -> None:
        results.append(result)
        ended.set()

    begin(done)
    await ended.wait()
    assert not isinstance(results[0], Exception), results[0]


async def do(disk: TrioDisk, job: jobs.Job[object]) -> None:
    await told(partial(jobs.start, disk, job))


async def test_appends_go_on_while_an_fsync_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync
    held, entered, release = threading.Event(), trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def slow(descriptor: int) -> None:
        if held.is_set():
            token.run_sync_soon(entered.set)
            assert release.wait(timeout=20)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    told: list[StorageError | None] = []
    async with open_trio_disk() as disk:
        store = LogStore(disk, [f"{tmp_path}/a"], policy=FLUSH_ALWAYS)
        await do(disk, store.open(lambda _: SMALL))
        await do(disk, store.create(NewLog(FIRST, SMALL)))
        log, flusher = store.log(FIRST), store.folders[0].flusher
        assert log is not None
        held.set()
        for _ in range(200):
            log.append([numbered(log.end_offset)])
            flusher.appended(log, 0, told.append)
            await trio.lowlevel.checkpoint()
        await entered.wait()
        check_numbered(log, 200)
        assert told == []
        release.set()
    assert told == [None] * 200
    assert flusher.rounds == 2


async def test_nothing_the_store_does_syncs_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open, create, flush, checkpoint, retain, compact, cut, delete and close, all at once."""
    threads: set[threading.Thread] = set()
    real = os.fsync

    def watched(descriptor: int) -> None:
        threads.add(threading.current_thread())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    async with open_trio_disk(max_open_files=4) as disk:
        for _ in range(2):
            store = LogStore(disk, [f"{tmp_path}/a", f"{tmp_path}/b"], policy=FLUSH_ALWAYS)
            await do(disk, store.open(lambda _: CONFIG))
            missing = [NewLog(each, CONFIG) for each in WANTED if store.log(each) is None]
            async with trio.open_nursery() as nursery:
                for each in missing:
                    nursery.start_soon(do, disk, store.create(each))
            logs = [log for log in map(store.log, WANTED) if log]
            assert len(logs) == len(WANTED)
            for turn in range(30):
                for log in logs:
                    await write(store, log, turn)
                store.tend(turn)
                store.checkpoint()
            await told(partial(store.delete, WANTED[0]))
            await told(partial(store.close, 1))
            assert all(folder.failure is None for folder in store.folders)
    assert threads
    assert threading.main_thread() not in threads


async def write(store: LogStore, log: Log, turn: int) -> None:
    folder = store.folder_of(log.partition)
    assert folder is not None
    for _ in range(3):
        if not log.cutting:
            log.append([numbered(log.end_offset, keys=5)])
            folder.flusher.appended(log, 0, lambda _: None)
    log.committed(max(log.known_high_watermark, log.end_offset - 4))
    if turn % 10 == 9:
        log.turns.put(truncate(log, log.end_offset - 2), lambda _: None)
    await trio.lowlevel.checkpoint()
