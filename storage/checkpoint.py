"""Small files that are replaced whole, and the two that a log folder has: offsets and a clean stop.

A replacement is all or nothing, whenever the power fails, and durable when its job is done. The
formats are Kafka's, byte for byte; what does not read as one is `DamagedFile` and nothing else.
What becomes of a damaged file is not decided here: a recovery point can be done without, at the
price of a longer scan.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from protocol.errors import InvariantViolation
from storage.disk.jobs import Job
from storage.disk.seam import Buffer, Disk
from storage.errors import DamagedFile

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
TEMPORARY_SUFFIX: Final = ".tmp"

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""What is larger is not read: no file of ours comes near."""
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_NAME_BYTES: Final = 255

Mark = Literal["delete", "stray"]

_VERSION: Final = 0
_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_FOLDER: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")
_MARKED: Final = re.compile(r".+-[0-9]+\.[0-9A-Za-z_-]+-(delete|stray)")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class TopicPartition(NamedTuple):
    """A partition by name, and the folder that its log is in."""

    topic: str
    partition: int

    @property
    def folder_name(self) -> str:
        """As Kafka calls it: `topic-3`."""
        return f"{self.topic}-{self.partition}"

    @classmethod
    def from_folder_name(cls, name: str) -> TopicPartition | None:
        """Tell whose log is in a folder; `None` for a marked or foreign one, which is no log."""
        match = _FOLDER.fullmatch(name)
        if match is None or not _TOPIC.fullmatch(match[1]) or int(match[2]) > MAX_INT32:
            return None
        return cls(match[1], int(match[2]))

    def marked_folder_name(self, unique: str, mark: Mark) -> str:
        """Name the folder of a log that is to be deleted, or that nobody knows any more.

        `unique` keeps two such folders apart. A long topic is cut, as a name has 255 bytes.
        """
        tail = f"-{self.partition}.{unique}-{mark}"
        return self.topic[: MAX_NAME_BYTES - len(tail)] + tail


def folder_mark(name: str) -> Mark | None:
    """Tell how a folder is marked: `delete` and `stray` are no logs any more."""
    match = _MARKED.fullmatch(name)
    if match is None:
        return None
    return "delete" if match[1] == "delete" else "stray"


def replace(disk: Disk, path: str, content: bytes) -> Job[None]:
    """Give a file this content, all or nothing; durable when the job is done.

    Whoever starts it sees to it that two replacements of one file do not overlap: both would write
    `<path>.tmp`. After a failure that file may remain; the next replacement makes it anew.
    """
    temporary = path + TEMPORARY_SUFFIX
    disk.create(temporary)
    disk.write(temporary, (content,), 0)
    yield functools.partial(disk.fsync, temporary)
    disk.rename(temporary, path)
    yield functools.partial(disk.fsync_folder, str(PurePosixPath(path).parent))


def read_whole(disk: Disk, path: str) -> bytes:
    """Return what a file of this kind has, whose size is looked at first."""
    size = disk.size(path)
    if size > MAX_FILE_BYTES:
        raise _too_large(path, size)
    return bytes(disk.read(path, 0, size))


def check_size(content: Buffer, file: str) -> None:
    """Refuse what is too large to be any of these files."""
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(file, len(content))


def _too_large(file: str, size_bytes: int) -> DamagedFile:
    return DamagedFile(file, f"{size_bytes} bytes, where at most {MAX_FILE_BYTES} are believed")


def encode_rows(rows: Iterable[str]) -> bytes:
    """Write Kafka's text checkpoint: a version, the number of rows, the rows."""
    lines = list(rows)
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode("ascii")


def decode_rows(content: Buffer, file: str, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each row of a text checkpoint.

    It is stricter than Kafka: the last line ends, too, as a file that was cut within a number
    would otherwise pass; and an empty file, which Kafka takes for one without rows, is damaged.
    """
    check_size(content, file)
    try:
        lines = bytes(content).decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        line = bytes(content)[: error.start].count(b"\n") + 1
        raise DamagedFile(file, "a byte that is no ASCII character", line) from error
    if lines.pop():
        raise DamagedFile(file, "the last line does not end", len(lines) + 1)
    if len(lines) < 2:
        raise DamagedFile(file, "version or number of rows are missing", len(lines) + 1)
    if lines[0] != str(_VERSION):
        raise DamagedFile(file, f"version {_shown(lines[0])}, where only 0 is known", 1)
    expected = number(lines[1], MAX_INT32, file, 2)
    if expected != len(lines) - 2:
        raise DamagedFile(file, f"{expected} rows announced, {len(lines) - 2} found", 2)
    for line, row in enumerate(lines[2:], start=3):
        fields = row.split(" ")
        if len(fields) != columns:
            raise DamagedFile(file, f"{_shown(row)} has not {columns} fields", line)
        yield line, fields


def number(field: str, largest: int, file: str, line: int) -> int:
    """Read a number as it is written here: no sign, no space, no leading zero."""
    if not _NUMBER.fullmatch(field) or int(field) > largest:
        raise DamagedFile(file, f"{_shown(field)} is no number from 0 to {largest}", line)
    return int(field)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 100 else repr(text[:100]) + "..."


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Write an offset checkpoint: one row `topic partition offset` each, sorted."""
    for (topic, partition), offset in offsets.items():
        if not (
            _TOPIC.fullmatch(topic) and 0 <= partition <= MAX_INT32 and 0 <= offset <= MAX_INT64
        ):
            detail = f"{topic!r}, {partition} and {offset} do not make a row"
            raise InvariantViolation("CheckpointReadable", offsets, detail)
    return encode_rows(
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    )


def decode_offsets(content: Buffer, file: str) -> dict[TopicPartition, int]:
    """Read an offset checkpoint."""
    found: dict[TopicPartition, int] = {}
    for line, (topic, partition, offset) in decode_rows(content, file, columns=3):
        if not _TOPIC.fullmatch(topic):
            raise DamagedFile(file, f"{_shown(topic)} is no name of a topic", line)
        key = TopicPartition(topic, number(partition, MAX_INT32, file, line))
        if key in found:
            raise DamagedFile(file, f"{key.folder_name} is there twice", line)
        found[key] = number(offset, MAX_INT64, file, line)
    return found


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Write the marker of a clean stop, with the incarnation of the broker that stopped."""
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def decode_clean_shutdown(content: Buffer, file: str) -> int:
    """Read the broker epoch out of the marker of a clean stop. Fields not known are ignored.

    A damaged one says nothing: the stop was then not clean.
    """
    check_size(content, file)
    try:
        found = json.loads(bytes(content).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(file, "no JSON") from error
    if not isinstance(found, dict):
        raise DamagedFile(file, "no JSON object")
    version, epoch = found.get("version"), found.get("brokerEpoch")
    if type(version) is not int or version != _VERSION:
        raise DamagedFile(file, f"version {_shown(str(version))}, where only 0 is known")
    # A type, not isinstance: JSON's `true` is an int in Python. Kafka writes -1 for none.
    if type(epoch) is not int or not -1 <= epoch <= MAX_INT64:
        raise DamagedFile(file, "no broker epoch")
    return epoch
