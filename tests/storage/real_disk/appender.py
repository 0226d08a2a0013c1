"""A process to be killed: it appends as fast as it can and says what it was told is done.

    python appender.py FOLDER always|never

Each line on its output is one fact: `log END` an append is done, `keys END` one to the compacted
log, `cut END` the log is about to be cut to there, `start OFFSET` it begins there now.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import trio

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.disk.trio_disk import open_trio_disk
from storage.errors import StorageError
from storage.flusher import FLUSH_ALWAYS, FLUSH_NEVER
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.log.cutting import truncate
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import numbered

PLAIN = TopicPartition("plain", 0)
KEYED = TopicPartition("keyed", 0)
KEYS = 7
SMALL = LogConfig(segment_bytes=8192, index_interval_bytes=256, retention_ms=-1)
CONFIGS = {
    PLAIN: attrs.evolve(SMALL, retention_bytes=60_000),
    KEYED: attrs.evolve(SMALL, compact=True, delete=False, min_cleanable_ratio=0.1),
}
IN_FLIGHT = 16


def say(*words: object) -> None:
    """Write a line in one system call: a kill leaves it whole or not at all."""
    os.write(sys.stdout.fileno(), " ".join(map(str, words)).encode() + b"\n")


async def finished(begin: Callable[[Callable[[Any], None]], None]) -> Any:
    """Wait for something that calls back; return what it came to."""
    ended, results = trio.Event(), []

    def done(result: object) -> None:
        results.append(result)
        ended.set()

    begin(done)
    await ended.wait()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


async def run(disk: Disk, job: Job[Any]) -> Any:
    """Wait for a job."""
    return await finished(partial(jobs.start, disk, job))


class Appender:
    """Two logs, and what is done with them in turn."""

    def __init__(self, store: LogStore, plain: Log, keyed: Log) -> None:
        self.store = store
        self.plain = plain
        self.keyed = keyed
        self.room = trio.Semaphore(IN_FLIGHT)

    async def go_on(self) -> None:
        """Until somebody ends this process."""
        turn = 0
        while True:
            turn += 1
            await self.append(self.plain, "log", numbered(self.plain.end_offset))
            if turn % 3 == 0:
                await self.append(self.keyed, "keys", numbered(self.keyed.end_offset, keys=KEYS))
            if turn % 40 == 0:
                for log in (self.plain, self.keyed):
                    log.committed(max(log.known_high_watermark, log.end_offset - 30))
                self.store.tend(turn)
                self.store.checkpoint()
            if turn % 170 == 0:
                await self.cut()

    async def append(self, log: Log, name: str, batch: Any) -> None:
        await self.room.acquire()
        log.append([batch])
        end = log.end_offset

        def done(error: StorageError | None) -> None:
            if error is not None:
                raise error
            say(name, end)
            self.room.release()

        folder = self.store.folder_of(log.partition)
        assert folder is not None
        folder.flusher.appended(log, 0, done)

    async def cut(self) -> None:
        """Cut what is not committed, when no append is waiting."""
        for _ in range(IN_FLIGHT):
            await self.room.acquire()
        end = max(self.plain.known_high_watermark, self.plain.end_offset - 17)
        say("cut", end)
        await finished(partial(self.plain.turns.put, truncate(self.plain, end)))
        for _ in range(IN_FLIGHT):
            self.room.release()


async def main(folder: str, policy: str) -> None:
    """Open the folder, and append."""
    async with open_trio_disk(max_open_files=16) as disk:
        store = LogStore(
            disk,
            [folder],
            policy=FLUSH_ALWAYS if policy == "always" else FLUSH_NEVER,
            start_moved=lambda _, offset: say("start", offset),
        )
        await run(disk, store.open(CONFIGS.__getitem__))
        missing = [NewLog(each, config) for each, config in CONFIGS.items() if not store.log(each)]
        if missing:
            await run(disk, store.create(*missing))
        plain, keyed = store.log(PLAIN), store.log(KEYED)
        assert plain is not None
        assert keyed is not None
        say("open", plain.end_offset)
        await Appender(store, plain, keyed).go_on()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
