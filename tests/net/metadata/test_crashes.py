"""A power failure in any operation of the disk: what was answered is there, whole."""

from collections.abc import Callable
from pathlib import PurePosixPath

import attrs
import pytest

from net.metadata import snapshots
from net.metadata.batches import record_batch
from net.metadata.log import Loaded, MetadataLog, open_metadata_log
from net.metadata.quorum_state import Vote
from net.metadata.storing import Downloaded, QuorumStorage
from protocol.controller.records import TopicRecord, replay
from protocol.controller.state import Image, TopicConfig
from protocol.machine import Effect, Event
from protocol.quorum import SnapshotId
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.replication.log import Log
from storage.batch.header import Batch
from storage.disk import jobs
from storage.disk.faults import Faults, fail_always
from storage.disk.seam import Disk
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.errors import DamagedLog
from storage.log.config import LogConfig

FOLDER = "meta"
CONFIG = LogConfig(segment_bytes=1_024)
ALL = frozenset({1, 2, 3})


def topics(*numbers: int) -> list[TopicRecord]:
    return [TopicRecord(f"t{number}", "x" * 60, TopicConfig()) for number in numbers]


def batch(base: int, epoch: int, count: int = 4) -> list[Batch]:
    return [record_batch(topics(*range(base, base + count)), base, epoch, 7)]


IMAGE = replay(topics(*range(1, 20)))


def open_log(disk: Disk) -> MetadataLog:
    return jobs.run(open_metadata_log(disk, FOLDER, CONFIG))


@attrs.frozen
class Kept:
    """What a restart finds."""

    vote: Vote
    log: Log
    image: Image

    @classmethod
    def of(cls, log: MetadataLog) -> "Kept":
        return cls(log.vote, log.as_protocol(), log.loaded.image)


Step = Callable[[MetadataLog, QuorumStorage], None]


def effect(one: Effect) -> Step:
    return lambda _log, storage: storage.carry_out(one)


def own_snapshot(end: int, epoch: int) -> Step:
    def write(log: MetadataLog, storage: QuorumStorage) -> None:
        loaded = Loaded(SnapshotId(end, epoch), replay(topics(*range(1, end))))
        snapshots.write(log.disk, log.path, loaded.snapshot, loaded.image, 7)
        log.loaded = loaded
        storage.carry_out(do.DeleteBefore(end))

    return write


def installed(end: int, epoch: int, *, keeps_log: bool) -> Step:
    def install(log: MetadataLog, storage: QuorumStorage) -> None:
        path, snapshot = log.part_path(SnapshotId(end, epoch), 1), SnapshotId(end, epoch)
        scratch = SimulatedDisk(1)
        scratch.make_folder("s")
        snapshots.write(scratch, "s", snapshot, IMAGE, 7)
        (content,) = scratch.files().values()
        log.disk.create(path)
        log.disk.write(path, (content,), 0)
        log.disk.fsync(path)
        storage.carry_out(do.InstallSnapshot(snapshot, keeps_log, Downloaded(path, IMAGE)))

    return install


STEPS: list[Step] = [
    effect(do.SaveVote(1, 1)),
    effect(do.Append(0, 1, 1, do.LeaderChange(1, ALL, ALL))),
    effect(do.Append(1, 5, 1, batch(1, 1))),
    effect(do.Append(5, 9, 1, batch(5, 1))),
    effect(do.SaveVote(2, -1)),
    effect(do.Truncate(5)),
    effect(do.Append(5, 9, 0, batch(5, 2))),
    effect(do.Append(9, 13, 0, batch(9, 2))),
    own_snapshot(9, 2),
    effect(do.Append(13, 17, 0, batch(13, 2))),
    effect(do.SaveVote(4, 3)),
    installed(13, 2, keeps_log=True),
    effect(do.Append(17, 21, 0, batch(17, 3))),
    installed(40, 4, keeps_log=False),
    effect(do.Append(40, 44, 0, batch(40, 4))),
]


class Run:
    """The steps on a disk, one after the other, and what a restart would find after each."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.events: list[Event] = []
        self.failures: list[str] = []
        self.done = 0

    def go(self) -> list[Kept]:
        log = open_log(self.disk)
        storage = QuorumStorage(log, self.events.append, self.failures.append, lambda: 0)
        states = [Kept.of(log)]
        for step in STEPS:
            step(log, storage)
            self.done += 1
            states.append(Kept.of(log))
        return states


def test_each_write_is_answered_once_and_in_order() -> None:
    run = Run(SimulatedDisk(1))
    run.go()
    assert run.events == [
        e.VoteSaved(),
        e.Appended(1),
        e.Appended(5),
        e.Appended(9),
        e.VoteSaved(),
        e.Truncated(5),
        e.Appended(9),
        e.Appended(13),
        e.Appended(17),
        e.VoteSaved(),
        e.SnapshotInstalled(),
        e.Appended(21),
        e.SnapshotInstalled(),
        e.Appended(44),
    ]
    assert not run.failures


@pytest.mark.parametrize("seed", range(3))
def test_after_a_crash_anywhere_a_restart_finds_what_was_answered(seed: int) -> None:
    whole = Run(SimulatedDisk(seed))
    states = whole.go()
    for operation in range(1, whole.disk.operations + 1):
        run = Run(SimulatedDisk(seed))
        run.disk.crash_at(operation)
        with pytest.raises(SimulatedCrash):
            run.go()
        survivor = run.disk.crash(seed * 10_000 + operation)
        found = Kept.of(open_log(survivor))
        before, after = states[run.done], states[min(run.done + 1, len(states) - 1)]
        assert found in (before, after), (operation, run.done)
        # And so does the one after that.
        assert Kept.of(open_log(survivor.kill())) == found


def test_between_the_steps_nothing_at_all_is_lost() -> None:
    for count in range(len(STEPS) + 1):
        disk = SimulatedDisk(3)
        log = open_log(disk)
        storage = QuorumStorage(log, lambda _event: None, lambda _reason: None, lambda: 0)
        for step in STEPS[:count]:
            step(log, storage)
        for seed in range(5):
            assert Kept.of(open_log(disk.crash(seed))) == Kept.of(log)


@pytest.mark.parametrize("place", [0, 2, 5, 11])
def test_a_write_that_fails_is_told_as_the_last_thing(place: int) -> None:
    disk = SimulatedDisk(5)
    events: list[Event] = []
    failures: list[str] = []
    log = open_log(disk)
    storage = QuorumStorage(log, events.append, failures.append, lambda: 0)
    for step in STEPS[:place]:
        step(log, storage)
    told = len(events)
    disk.faults = Faults(fail=fail_always("fsync"))
    one: Effect = [do.SaveVote(9, 1), do.Append(5, 9, 1, batch(5, 1)), do.Truncate(5)][place % 3]
    if place == 2:
        one = do.Append(1, 5, 1, batch(1, 1))
    storage.carry_out(one)
    disk.faults = Faults()
    storage.carry_out(do.SaveVote(10, 1))
    assert [type(event) for event in events[told:]] == [e.StorageFailed]
    assert len(failures) == 1


def test_files_lie_where_kafka_has_them() -> None:
    run = Run(SimulatedDisk(1))
    run.go()
    names = {
        PurePosixPath(path).name for path in run.disk.files() if "__cluster_metadata-0" in path
    }
    assert "quorum-state" in names
    assert "00000000000000000040-0000000004.checkpoint" in names
    assert "00000000000000000040.log" in names
    assert not [name for name in names if name.endswith((".tmp", ".part"))]
    # What came before is gone.
    assert not [name for name in names if name.startswith("0") and int(name[:20]) < 40]


def test_damage_of_what_was_durable_is_not_taken_for_a_torn_tail() -> None:
    now_ms = 0
    disk = SimulatedDisk(2)
    log = open_log(disk)
    storage = QuorumStorage(log, lambda _event: None, lambda _reason: None, lambda: now_ms)
    for number, step in enumerate(STEPS[:4]):
        now_ms = number * 6_000
        step(log, storage)
    path = max(path for path in disk.files() if path.endswith(".log"))
    survivor = disk.crash(1)
    survivor.flip_bit(path, 8 * 100)
    with pytest.raises(DamagedLog, match="checksum"):
        open_log(survivor)
