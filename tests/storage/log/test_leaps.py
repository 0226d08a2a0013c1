"""An offset that leaps: compaction leaves some out, and rot changes what no checksum covers."""

import struct

import pytest

from storage.batch.build import build
from storage.batch.header import split
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk.simulated import SimulatedDisk
from storage.errors import DamagedLog, InvalidBatch
from storage.log.config import LogConfig
from storage.log.index import IndexCache
from storage.log.log import Log
from storage.log.marks import FolderMarks
from storage.log.recovery import create_log, open_log

PARTITION, FOLDER = TopicPartition("t", 0), "data/t-0"


def new_log(offsets: list[int]) -> Log:
    """Make a log of batches of one record each."""
    disk = SimulatedDisk(1)
    disk.make_folder("data")
    marks = FolderMarks(disk, "data")
    log = create_log(disk, IndexCache(), PARTITION, FOLDER, LogConfig(), marks)
    for offset in offsets:
        log.append(split(build([Record(offset, 1, b"k", b"v")], base_offset=offset)))
    return log


def reopened(log: Log, recovery_point: int) -> Log:
    """Open the log as after a crash, with so much of it believed to be durable."""
    marks = FolderMarks(log.disk, "data")
    marks.recovery_points.values[PARTITION] = recovery_point
    opened = open_log(log.disk, IndexCache(), PARTITION, FOLDER, LogConfig(), marks, clean=False)
    return opened.log


def test_offsets_that_compaction_left_out_are_no_damage() -> None:
    log = new_log([0, 1, 5, 9])
    assert reopened(log, recovery_point=10).end_offset == 10


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_wrong_offset_before_the_recovery_point_is_damage(wrong: int) -> None:
    log = new_log([0, 1, 2, 3, 4])
    size = log.size_bytes // 5
    log.disk.write(log.active.path(), (struct.pack(">q", 1000 + wrong),), wrong * size)
    with pytest.raises(DamagedLog, match="leaps") as raised:
        reopened(log, recovery_point=5)
    assert raised.value.offset == wrong
    assert log.disk.size(log.active.path()) == 5 * size


def test_a_control_batch_that_makes_no_sense_is_refused_and_leaves_nothing() -> None:
    log = new_log([0, 1])
    senseless = build([Record(3, 1, b"", b"")], base_offset=3, producer_id=1, control=True)
    good = split(build([Record(2, 1, b"k", b"v")], base_offset=2))
    with pytest.raises(InvalidBatch):
        log.append([*good, *split(senseless)])
    assert log.end_offset == 2


def test_a_control_batch_that_makes_no_sense_is_damage_where_it_was_durable() -> None:
    log = new_log([0, 1])
    senseless = build([Record(2, 1, b"", b"")], base_offset=2, producer_id=1, control=True)
    log.disk.write(log.active.path(), (senseless,), log.size_bytes)
    with pytest.raises(DamagedLog) as raised:
        reopened(log, recovery_point=3)
    assert raised.value.offset == 2
    assert reopened(log, recovery_point=2).end_offset == 2
