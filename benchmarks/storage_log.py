"""Measures the log on disk: `python -m benchmarks.storage_log`.

Each figure is a ratio against the least that could be done with the same bytes in the same run:
appending against `os.write`, sending against `os.sendfile`, the scan after a crash against the
checksum alone. Both sides take turns, and the median of the ratios of neighbouring rounds counts,
so that a noisy machine hurts both alike. Look-ups are given in microseconds.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crc32c import crc32c

from storage.batch.build import build
from storage.batch.header import CRC_FROM, assign, split
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.posix import PosixDisk
from storage.log.config import LogConfig
from storage.log.flushing import flush
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.recovery import create_log, open_log

KIB, MIB = 1 << 10, 1 << 20
PARTITION = TopicPartition("measured", 0)
ROUNDS = 15
APPEND_GOALS = {16 * KIB: 0.45, 100 * KIB: 0.7, MIB: 0.75}
SCAN_GOALS = {16 * KIB: 0.3, MIB: 0.45}
SEND_GOAL = 0.9
LOOK_UP_GOAL_US = 50


def batch_of(size_bytes: int) -> bytearray:
    """Build a batch of this size, of records of about a kilobyte that do not compress."""
    chance = random.Random(size_bytes)
    count = max(size_bytes // KIB, 1)
    room = (size_bytes - 61) // count - 24
    made = [Record(i, 1_000 + i, b"key-%d" % i, chance.randbytes(room), ()) for i in range(count)]
    return build(made)


@contextmanager
def new_log(folder: Path) -> Iterator[Log]:
    """Make an empty log of default settings in a folder that goes away."""
    path = Path(tempfile.mkdtemp(dir=folder))
    disk = PosixDisk()
    marks = FolderMarks(disk, str(path))
    try:
        log_folder = f"{path}/{PARTITION.folder_name}"
        yield create_log(disk, IndexCache(), PARTITION, log_folder, LogConfig(), marks)
    finally:
        disk.close()
        shutil.rmtree(path)


def seconds(work: Callable[[], object]) -> float:
    """Time a piece of work without the garbage collector."""
    gc.collect()
    gc.disable()
    started_s = time.perf_counter()
    work()
    elapsed_s = time.perf_counter() - started_s
    gc.enable()
    return elapsed_s


def median_ratio(
    bare: Callable[[], float], ours: Callable[[], float]
) -> tuple[float, float, float]:
    """Let both sides take turns; return the median of their ratios, and the median times."""
    bare(), ours()
    pairs = [(bare(), ours()) for _ in range(ROUNDS)]
    least, taken = (statistics.median(times) for times in zip(*pairs, strict=True))
    return statistics.median(one / other for one, other in pairs), least, taken


def append_ratio(folder: Path, size: int, total: int) -> tuple[float, float, float]:
    """Append batches as a leader does: split and check them, give them offsets, write them."""
    payload = batch_of(size)
    count = total // len(payload)

    def bare() -> float:
        path = folder / "bare"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def write() -> None:
            for _ in range(count):
                os.write(file, payload)

        taken = seconds(write)
        os.close(file)
        path.unlink()
        return taken

    def ours() -> float:
        with new_log(folder) as log:

            def append() -> None:
                for _ in range(count):
                    batch = split(payload, log.config.max_batch_bytes)[0]
                    log.append((assign(batch, log.end_offset, 1),))

            return seconds(append)

    return median_ratio(bare, ours)


def filled(log: Log, size: int, total: int) -> int:
    """Append batches until there are so many bytes; return how large one is."""
    payload = batch_of(size)
    for _ in range(total // len(payload)):
        log.append([assign(batch, log.end_offset, 1) for batch in split(payload)])
    return len(payload)


def send_ratio(folder: Path, total: int, piece: int = MIB) -> tuple[float, float, float]:
    """Send a log to a local socket, a fetch of one mebibyte after another."""
    with new_log(folder) as log:
        filled(log, 64 * KIB, total)
        end, disk, path = log.end_offset, log.disk, log.active.path()
        # A consumer knows from what it has read where to go on.
        next_offsets = {
            position + header.size_bytes: header.end_offset
            for position, header in log.active.walk(0)
        }

        def bare(out: int) -> None:
            file = os.open(path, os.O_RDONLY)
            position, size = 0, log.size_bytes
            while position < size:
                position += os.sendfile(out, file, position, min(piece, size - position))
            os.close(file)

        def ours(out: int) -> None:
            offset = 0
            while (found := log.read(offset, end, piece)) is not None:
                with disk.pin(found.path) as file:
                    position, left = found.position, found.length
                    while left:
                        sent = file.sendfile(out, position, left)
                        position, left = position + sent, left - sent
                offset = next_offsets[found.position + found.length]

        return median_ratio(lambda: to_a_socket(bare), lambda: to_a_socket(ours))


def to_a_socket(send: Callable[[int], None]) -> float:
    """Time what sends to a local socket whose other end is read as fast as possible."""
    left, right = socket.socketpair()
    buffer = bytearray(MIB)

    def drain() -> None:
        while right.recv_into(buffer):
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    taken = seconds(lambda: send(left.fileno()))
    left.close()
    reader.join()
    right.close()
    return taken


def scan_ratio(folder: Path, size: int, total: int) -> tuple[float, float, float]:
    """Open a log of which nothing is known to be durable, against its checksums in memory."""
    with new_log(folder) as log:
        length = filled(log, size, total)
        jobs.run(flush(log))
        content = memoryview(Path(log.active.path()).read_bytes())

        def bare() -> float:
            def checksums() -> None:
                for at in range(0, len(content), length):
                    crc32c(content[at + CRC_FROM : at + length])

            return seconds(checksums)

        def ours() -> float:
            marks = FolderMarks(log.disk, "unused")

            def scan() -> None:
                opened = open_log(
                    log.disk, IndexCache(), PARTITION, log.folder, log.config, marks, clean=False
                )
                if opened.log.end_offset != log.end_offset or opened.torn:
                    raise ValueError("the scan did not find the whole log")

            return seconds(scan)

        return median_ratio(bare, ours)


def look_up_us(folder: Path, total: int, count: int = 20_000) -> float:
    """Look up random offsets in a log that is in the page cache and whose index is loaded."""
    with new_log(folder) as log:
        filled(log, 16 * KIB, total)
        chance = random.Random(1)
        offsets = [chance.randrange(log.end_offset) for _ in range(count)]
        end = log.end_offset

        def look_up() -> None:
            for offset in offsets:
                log.read(offset, end, MIB)

        look_up()
        return seconds(look_up) / count * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=128, help="bytes per round, in MiB")
    parser.add_argument("--look-up-mib", type=int, default=1024, help="the log to look up in")
    arguments = parser.parse_args()
    total = arguments.mib * MIB
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as name:
        folder = Path(name)
        for size, goal in APPEND_GOALS.items():
            report(
                f"append, {size // KIB} KiB batches", append_ratio(folder, size, total), goal, total
            )
        report("sendfile to a socket", send_ratio(folder, total), SEND_GOAL, total)
        for size, goal in SCAN_GOALS.items():
            report(f"scan, {size // KIB} KiB batches", scan_ratio(folder, size, total), goal, total)
        found_us = look_up_us(folder, arguments.look_up_mib * MIB)
        print(f"look-up by offset: {found_us:.1f} us (goal: under {LOOK_UP_GOAL_US})")


def report(what: str, measured: tuple[float, float, float], goal: float, total: int) -> None:
    """Print one ratio, with the speeds that it is made of."""
    ratio, least_s, taken_s = measured
    print(
        f"{what}: {ratio:.2f} of the bare speed (goal {goal});"
        f" {total / taken_s / MIB:,.0f} against {total / least_s / MIB:,.0f} MiB/s"
    )


if __name__ == "__main__":
    main()
