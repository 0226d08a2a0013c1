"""Flip one bit in what was durable, and see that the next start says so and touches nothing.

What a start after a crash reads again is every segment from the one that has the newest snapshot at
or before the recovery point. Rot in there and before the recovery point is found. What lies in
earlier segments is trusted, as Kafka does: a reader finds it by the checksum, or a tool that
verifies all. Rot after the recovery point cannot be told from a torn tail.
"""

from __future__ import annotations

from random import Random
from typing import Final

from storage.batch.header import CRC_FROM
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.log import flushing
from storage.log.log import Log
from storage.testing.broker import SmallBroker
from storage.testing.checks import place
from storage.testing.crashes import CrashRun, Outcome
from storage.testing.model import Broken
from storage.testing.naive import Lying
from storage.testing.workload import draw

_OPERATIONS: Final = 25
_NEVER: Final = 1 << 60


def run_rot(seed: int) -> Outcome:
    """Work, make it durable, let a bit rot, start again."""
    run = CrashRun(seed, None, None)
    outcome = Outcome(seed, run.stage.journal)
    try:
        run.create_logs()
        run.stage.broker.disk.crash_at(_NEVER)
        for _ in range(_OPERATIONS):
            draw(run.random).act(run.stage, run.random.choice(run.partitions))
        for log in run.stage.broker.logs.values():
            jobs.run(flushing.flush(log))
        jobs.run(run.stage.broker.marks.save())
        outcome.starts = _rot(run)
    except Exception as error:
        outcome.failure = f"{type(error).__name__}: {error}"
    return outcome


def _rot(run: CrashRun) -> int:
    """Flip a bit of a random durable batch and start; return how many starts found damage."""
    broker, random = run.stage.broker, run.random
    partition = random.choice(run.partitions)
    log = broker.logs[partition]
    lying = place(log, run.stage.models[partition].batches)
    durable = [number for number, each in enumerate(lying) if _is_durable(log, each)]
    if not durable:
        return 0
    number = random.choice(durable)
    disk = broker.disk.kill()
    victim = lying[number]
    bit = _flip(disk, victim, random)
    run.stage.note(f"bit {bit} of {victim.path} rots, in {victim.batch.base_offset}")
    expected_offset = lying[number - 1].batch.end_offset if number else _first_base(log)
    before = disk.files()
    again = SmallBroker(disk, broker.config)
    again.load_marks()
    for each in run.partitions:
        again.open(each, clean=False)
        if each != partition and each in again.damaged:
            raise Broken(f"{each.folder_name} is offline, and {partition.folder_name} is damaged")
    return _judge(again, log, victim, expected_offset, before)


def _judge(
    again: SmallBroker, log: Log, victim: Lying, offset: int, before: dict[str, bytes]
) -> int:
    error = again.damaged.get(log.partition)
    if error is not None:
        _check_untouched(again.disk, log.partition, before)
    if not _is_scanned(log, victim):
        return 0
    if error is None:
        raise Broken(f"{victim.path}, byte {victim.position} rots and nobody says so")
    expected = (victim.path, victim.position, offset)
    if (error.file, error.position, error.offset) != expected:
        raise Broken(f"{error} is not {expected}")
    return 1


def _is_durable(log: Log, lying: Lying) -> bool:
    return log.start_offset < lying.batch.end_offset <= log.recovery_point


def _is_scanned(log: Log, lying: Lying) -> bool:
    """Whether a start after a crash reads this batch's segment."""
    names = log.disk.list(log.folder)
    snapshots = [int(name[:20]) for name in names if name.endswith(".snapshot")]
    first = _first_base(log)
    begin = max((each for each in snapshots if first <= each <= log.recovery_point), default=first)
    later = [each.base_offset for each in log.segments if each.path() > lying.path]
    return not later or later[0] > begin


def _first_base(log: Log) -> int:
    return log.segments[0].base_offset


def _flip(disk: SimulatedDisk, lying: Lying, random: Random) -> int:
    covered = range(lying.position + CRC_FROM, lying.position + len(lying.batch.data))
    bit = random.choice(covered) * 8 + random.randrange(8)
    disk.flip_bit(lying.path, bit)
    return bit


def _check_untouched(
    disk: SimulatedDisk, partition: TopicPartition, before: dict[str, bytes]
) -> None:
    """Every file of a damaged log is as it was; leftovers of interrupted work do not count."""
    prefix = f"/{partition.folder_name}/"
    after = disk.files()
    for path, content in before.items():
        if prefix in path and not path.endswith(".tmp") and after.get(path) != content:
            raise Broken(f"{path} is no longer as it was, in a damaged log")
