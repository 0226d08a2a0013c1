"""Throws bytes that no client sends at what reads bytes: coverage-guided fuzzing with atheris.

Whatever the bytes are, a reader answers with records or with the error that is documented; any
other exception, a hang or too much memory ends the program with a status other than 0 and the input
in a file. Without `--corpus`, inputs start from batches of every kind, in a folder that goes when
nothing was found. A target is a function of bytes and the seeds that it starts from.
"""

import argparse
import contextlib
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MAX_INPUT_BYTES = 4096
MAX_RECORDS_BYTES = 1 << 20
MAX_MEMORY_MIB = 512
MAX_SECONDS_PER_INPUT = 20


class Target(NamedTuple):
    """What is fuzzed: a function that accepts any bytes, and bytes that it finds interesting."""

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


def repaired(data: bytes) -> bytes:
    """Make bytes one batch with a good length, magic and checksum, so that its inside is read."""
    from storage.batch.header import CRC_FROM, HEADER_BYTES, LENGTH_FROM, MAGIC, checksum

    batch = bytearray(data.ljust(HEADER_BYTES, b"\0"))
    batch[0] &= 0x7F
    struct.pack_into(">i", batch, 8, len(batch) - LENGTH_FROM)
    batch[16] = MAGIC
    struct.pack_into(">I", batch, CRC_FROM - 4, checksum(memoryview(batch)))
    return bytes(batch)


def check_batch(data: bytes) -> None:
    """Read bytes as batches, as they are and repaired; what can be read can be written again."""
    from storage.batch.build import rebuild
    from storage.batch.control import read_marker
    from storage.batch.header import Batch, split
    from storage.batch.records import decode
    from storage.batch.validate import check_produced
    from storage.errors import InvalidBatch

    def read_again(batch: Batch) -> None:
        found = list(decode(batch, MAX_RECORDS_BYTES))
        (again,) = split(rebuild(batch.header, found))
        if list(decode(again, MAX_RECORDS_BYTES)) != found:
            raise RuntimeError("a batch that was written again has other records")

    for payload in (data, repaired(data)):
        try:
            batches = split(payload)
        except InvalidBatch:
            continue
        for batch in batches:
            for read in (read_again, read_marker):
                with contextlib.suppress(InvalidBatch):
                    read(batch)
        with contextlib.suppress(InvalidBatch):
            check_produced(batches, compacted=True, max_batch_bytes=MAX_INPUT_BYTES)


def batch_seeds() -> Iterator[bytes]:
    """Yield batches of every codec and kind."""
    from storage.batch.build import build
    from storage.batch.codecs import CODECS
    from storage.batch.control import MarkerKind, marker
    from storage.batch.records import Record

    found = [
        Record(10, 1_000, b"key", b"value" * 20, ((b"name", b"value"), (b"none", None))),
        Record(12, 900, None, b""),
        Record(13, 2_000, b"tombstone", None),
    ]
    for codec in CODECS:
        yield bytes(build(found, base_offset=10, codec=codec))
        yield bytes(build(found, base_offset=10, codec=codec, log_append_time_ms=5_000))
        yield bytes(build(found, base_offset=10, codec=codec, delete_horizon_ms=7_000))
    yield bytes(build([], base_offset=10, last_offset_delta=3))
    yield bytes(build([Record(0, 1, b"k", b"v")])) * 2
    for kind in MarkerKind:
        yield bytes(marker(kind, 1, 2, 3, 4))


SEPARATOR = b"\xfe|\xfe"
"""Between the files of a log in one input."""
LOG_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def check_log(data: bytes) -> None:
    """Open a folder whose files are these bytes, after a crash or a clean stop, and read it all.

    The first byte says which, how much is believed to be durable, and whether the first batch gets
    a good checksum. A log opens or is damaged; one that opens opens again and is the same.
    """
    from storage.checkpoint import TopicPartition
    from storage.disk.simulated import SimulatedDisk
    from storage.errors import DamagedFile, DamagedLog, InvalidBatch
    from storage.log.config import LogConfig
    from storage.log.index import IndexCache
    from storage.log.marks import FolderMarks
    from storage.log.recovery import open_log

    flags, *contents = data[:1], *data[1:].split(SEPARATOR)
    flag = flags[0] if flags else 0
    partition, folder, disk = TopicPartition("t", 0), "data/t-0", SimulatedDisk(1)
    disk.make_folder("data")
    disk.make_folder(folder)
    if flag & 1:
        contents[0] = repaired(contents[0])
    names = [f"{0:020d}{suffix}" for suffix in LOG_FILES] + ["leader-epoch-checkpoint"]
    for name, content in zip(names, contents, strict=False):
        disk.create(f"{folder}/{name}")
        disk.write(f"{folder}/{name}", (content,), 0)
    marks = FolderMarks(disk, "data")
    marks.recovery_points.values[partition] = 5 if flag & 2 else 0
    settings = (partition, folder, LogConfig(index_interval_bytes=50), marks)
    with contextlib.suppress(DamagedLog, DamagedFile, InvalidBatch):
        log = open_log(disk, IndexCache(), *settings, clean=bool(flag & 4)).log
        for offset in range(log.start_offset, min(log.end_offset, log.start_offset + 20)):
            log.read(offset, log.end_offset, 100)
        log.aborted_between(log.start_offset, log.end_offset)
        log.newest_time(log.end_offset)
        again = open_log(disk.kill(), IndexCache(), *settings, clean=False).log
        if again.end_offset != log.end_offset and not flag & 4:
            raise RuntimeError("a log that was opened is another when it is opened again")


def log_seeds() -> Iterator[bytes]:
    """Yield the files of a small log, for every way to open it."""
    from storage.batch.build import build
    from storage.batch.records import Record
    from storage.log.epochs import Epochs
    from storage.log.index import OFFSET_ENTRY, TIME_ENTRY
    from storage.log.producers import Producers

    batches = [
        build([Record(i, 1_000 + i, b"k", b"v")], base_offset=i, leader_epoch=1, producer_id=7)
        for i in range(6)
    ]
    size = len(batches[0])
    files = [
        b"".join(batches),
        OFFSET_ENTRY.pack(1, size) + OFFSET_ENTRY.pack(3, 3 * size),
        TIME_ENTRY.pack(1_001, 1) + TIME_ENTRY.pack(1_005, 5),
        b"",
        Producers().encode(),
        Epochs(((1, 0),)).encode(),
    ]
    for flag in range(8):
        yield bytes([flag]) + SEPARATOR.join(files)


TARGETS = {"batch": Target(check_batch, batch_seeds), "log": Target(check_log, log_seeds)}


def fuzz(target: Target, corpus: Path, runs: int) -> None:
    """Fuzz in this process, which libFuzzer ends; its status says whether something was found."""
    try:
        import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise SystemExit(
            "atheris is not installed: it comes with the `dev` extra, on Linux x86-64 alone"
        ) from None
    with atheris.instrument_imports(include=["storage"]):
        for _ in target.seeds():
            pass
        target.check(b"")
    options = [
        *(f"-runs={runs}", f"-max_len={MAX_INPUT_BYTES}", f"-rss_limit_mb={MAX_MEMORY_MIB}"),
        *(f"-timeout={MAX_SECONDS_PER_INPUT}", f"-artifact_prefix={corpus}/found-"),
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.check)
    atheris.Fuzz()


def fuzz_in_fresh_folder(arguments: argparse.Namespace) -> int:
    """Write the seeds, fuzz in a process of its own, and clean up if nothing was found."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for number, seed in enumerate(TARGETS[arguments.target].seeds()):
        folder.joinpath(f"seed-{number}").write_bytes(seed)
    command: list[Any] = [sys.executable, __file__, "--target", arguments.target]
    command += ["--runs", str(arguments.runs), "--corpus", folder]
    status = subprocess.run(command, check=False).returncode
    if status and any(folder.glob("found-*")):
        print(f"the inputs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return status


def main() -> int:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(description="Fuzz what reads untrusted bytes.")
    parser.add_argument("--target", choices=sorted(TARGETS), default="batch")
    parser.add_argument("--runs", type=int, default=20_000, help="inputs to try")
    parser.add_argument("--corpus", type=Path, help="a folder of inputs to start from and to fill")
    arguments = parser.parse_args()
    if arguments.corpus is None:
        return fuzz_in_fresh_folder(arguments)
    fuzz(TARGETS[arguments.target], arguments.corpus, arguments.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
