"""A run: work, an accident, a start, a look at what is left, and again, all by one seed."""

from __future__ import annotations

from random import Random
from typing import Final

import attrs

from storage.checkpoint import TopicPartition
from storage.disk.faults import Faults
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.log.config import LogConfig
from storage.testing.broker import SmallBroker, fresh_disk
from storage.testing.checks import check, look
from storage.testing.left_out import LeftOut, Watch
from storage.testing.model import Broken, PartitionModel, Seen
from storage.testing.source import BatchSource
from storage.testing.workload import Stage, draw

_ROUNDS: Final = 4
_MOST_OPERATIONS: Final = 14


@attrs.define
class Outcome:
    """What became of a run."""

    seed: int
    journal: list[str]
    """Everything that was done, in order."""
    failure: str | None = None
    starts: int = 0
    torn: int = 0
    ignored: int = 0
    """How many operations of the disk were left out, if that was asked for."""
    seen: set[LeftOut] = attrs.Factory(set)
    """Every kind of fsync and rename that happened."""

    def report(self) -> str:
        """Say how it ended, and what led to it."""
        verdict = f"seed {self.seed}: {self.failure or 'everything is as promised'}"
        return "\n".join(
            [verdict, *(f"  {number:3} {text}" for number, text in enumerate(self.journal))]
        )


def run(seed: int, faults: Faults | None = None, ignore: LeftOut | None = None) -> Outcome:
    """Do one run. `ignore` leaves out a kind of fsync or rename; `faults` replace those drawn."""
    crashes = CrashRun(seed, faults, ignore)
    outcome = Outcome(seed, crashes.stage.journal)
    try:
        crashes.create_logs()
        for _ in range(_ROUNDS):
            crashes.round()
    # Whatever is raised is a failure of this run, and its report is worth more than the trace.
    except Exception as error:
        outcome.failure = f"{type(error).__name__}: {error}"
    outcome.starts, outcome.torn = crashes.starts, crashes.torn
    outcome.ignored, outcome.seen = crashes.stage.watch.ignored, crashes.stage.watch.seen
    return outcome


def draw_config(random: Random) -> LogConfig:
    """Small segments and dense indexes, so that everything happens often."""
    return LogConfig(
        segment_bytes=random.choice((1024, 1500, 2048, 4096)),
        index_interval_bytes=random.choice((0, 100, 200, 300)),
        segment_ms=random.choice((10**9, 10**9, 2000)),
        index_max_bytes=random.choice((10**6, 10**6, 32)),
    )


def draw_faults(random: Random) -> Faults:
    """Short reads and writes are no accident and happen in some runs all the time."""
    return Faults(
        short_reads=random.choice((0.0, 0.0, 0.2)),
        short_writes=random.choice((0.0, 0.0, 0.2)),
        torn_sectors=random.random() < 0.5,
    )


class CrashRun:
    """The state of a run."""

    def __init__(self, seed: int, faults: Faults | None, ignore: LeftOut | None) -> None:
        self.random = Random(seed)
        config = draw_config(self.random)
        drawn = draw_faults(self.random)
        watch = Watch(ignore)
        disk = SimulatedDisk(seed, attrs.evolve(faults or drawn, ignore=watch))
        self.stage = Stage(self.random, watch, SmallBroker(fresh_disk(disk), config))
        count = self.random.choice((1, 2))
        self.partitions = [TopicPartition("t", number) for number in range(count)]
        self.stopped: dict[TopicPartition, Seen] = {}
        """What was in the logs at the last clean stop, producers included, if all was committed."""
        self.starts = self.torn = 0

    def create_logs(self) -> None:
        """Make the logs, perhaps with a crash in it."""
        stage, random = self.stage, self.random
        starts = {each: random.choice((0, 0, 100)) for each in self.partitions}
        if random.random() < 0.3:
            stage.broker.disk.crash_at(stage.broker.disk.operations + random.randint(1, 40))
        for partition, start_offset in starts.items():
            stage.sources[partition] = BatchSource(random)
            stage.models[partition] = PartitionModel(start_offset)
            # Before its start is written down, a new log may begin at 0 as well.
            stage.models[partition].advancing_to = 0
        stage.watch.job = "create"
        try:
            for partition, start_offset in starts.items():
                stage.note(f"create {partition.folder_name} at {start_offset}")
                stage.broker.create(partition, start_offset)
                stage.models[partition].advancing_to = None
        except SimulatedCrash as crash:
            stage.note(f"crash {crash}")
            self._start_after(self._accident(), clean=False)

    def round(self) -> None:
        """Work until something happens, and start again."""
        random, stage = self.random, self.stage
        disk = stage.broker.disk
        count = random.randint(1, _MOST_OPERATIONS)
        crashes_in = random.randint(0, count * 2)
        try:
            for number in range(count):
                operation = draw(random)
                if number == crashes_in:
                    disk.crash_at(
                        disk.operations + random.choice((1, 2, 4, 8, 16)) + random.randint(0, 4)
                    )
                stage.watch.job = operation.name
                operation.act(stage, random.choice(self.partitions))
                stage.marks_changed()
            self._end_round(disk)
        except SimulatedCrash as crash:
            stage.note(f"crash {crash}")
            stage.marks_changed()
            self._start_after(self._accident(), clean=False)

    def _end_round(self, disk: SimulatedDisk) -> None:
        stage, random = self.stage, self.random
        stage.watch.job = "close"
        kind = random.choice(("kill", "power", "stop", "stop"))
        if kind == "stop":
            self._stop()
            self._start_after(self._accident(), clean=True)
        elif kind == "kill":
            stage.note("kill")
            self._start_after(disk.kill(), clean=False, nothing_lost=True)
        else:
            self._start_after(self._accident(), clean=False)

    def _stop(self) -> None:
        """Stop cleanly, mostly with everything committed, as in an orderly shutdown."""
        stage = self.stage
        logs, values = stage.broker.logs, stage.broker.marks.high_watermarks.values
        if self.random.random() < 0.6:
            values.update({partition: log.end_offset for partition, log in logs.items()})
            stage.broker.marks.cleaned.values.update(values)
        stage.note(f"stop, committed to {list(values.values())}")
        stage.broker.stop()
        for partition, log in logs.items():
            stage.models[partition].flushed(log.end_offset)
            if values.get(partition) == log.end_offset:
                self.stopped[partition] = look(log)
        stage.marks_changed(durable=True)

    def _accident(self) -> SimulatedDisk:
        """Kill the process or take its power away."""
        disk, random = self.stage.broker.disk, self.random
        if random.random() < 0.25:
            self.stage.note("killed")
            return disk.kill()
        seed = random.randrange(2**32)
        self.stage.note(f"power fails, {seed}")
        return disk.crash(seed)

    def _start_after(self, disk: SimulatedDisk, *, clean: bool, nothing_lost: bool = False) -> None:
        """Start on what is left, perhaps only at a further attempt; check; and start once more."""
        stage, random = self.stage, self.random
        stage.watch.restart()
        for _ in range(3):
            if random.random() < 0.65:
                break
            disk.crash_at(disk.operations + random.randint(1, 25))
            stage.broker = SmallBroker(disk, stage.broker.config)
            try:
                stage.note("start, with a crash to come")
                self._open(clean)
                break
            except SimulatedCrash as crash:
                stage.note(f"crash {crash}")
                disk = self._accident()
                stage.watch.restart()
                # Only the first start after a clean stop may rely on it.
                clean = nothing_lost = False
        if stage.broker.disk is not disk or not stage.broker.logs:
            stage.broker = SmallBroker(disk, stage.broker.config)
            stage.note("start")
            self._open(clean)
        disk.crash_at(disk.operations + 10**9)
        if nothing_lost:
            for model in stage.models.values():
                model.flushed(model.end_offset)
        self._check_opened(clean)
        self._check_again()

    def _open(self, clean: bool) -> None:
        broker = self.stage.broker
        broker.load_marks()
        for partition in self.partitions:
            if broker.has(partition):
                broker.open(partition, clean=clean)
                if partition in broker.damaged:
                    raise broker.damaged[partition]
            else:
                broker.create(partition, self.stage.models[partition].start_offset)
        self.starts += 1

    def _check_opened(self, clean: bool) -> None:
        stage = self.stage
        broker = stage.broker
        for partition in self.partitions:
            recovery = broker.recoveries.get(partition)
            if recovery and clean and (recovery.scanned_bytes or recovery.torn):
                raise Broken(f"{partition.folder_name} was read again after a clean stop")
            if recovery and recovery.torn:
                self.torn += 1
                stage.note(f"torn {recovery.torn}")
            log, model = broker.logs[partition], stage.models[partition]
            seen = look(log)
            before = self.stopped.get(partition, seen)
            if clean and seen.producers != before.producers:
                raise Broken(f"a clean stop changed the {_difference(before, seen)}")
            model.adopt(seen)
            check(log, model.batches, stage.questions)
        self.stopped.clear()
        committed, cleaned = broker.marks.high_watermarks.values, broker.marks.cleaned.values
        if not any(committed == each for each, _ in stage.marks):
            raise Broken(f"the high watermarks are {committed}, and not one of {stage.marks}")
        if not any(cleaned == each for _, each in stage.marks):
            raise Broken(f"the cleaned offsets are {cleaned}, and not one of {stage.marks}")
        stage.marks_changed(durable=True)

    def _check_again(self) -> None:
        """What a start has found is durable: another one finds the same, and nothing torn."""
        disk = self.stage.broker.disk
        power = self.random.random() < 0.7
        copy = disk.crash(self.random.randrange(2**32)) if power else disk.kill()
        again = SmallBroker(copy, self.stage.broker.config)
        self.stage.watch.restart()
        again.load_marks()
        for partition, log in self.stage.broker.logs.items():
            if not again.has(partition):
                raise Broken(f"{partition.folder_name} is gone after a start and another crash")
            again.open(partition, clean=False)
            if partition in again.damaged:
                raise again.damaged[partition]
            if again.recoveries[partition].torn:
                raise Broken(f"torn again: {again.recoveries[partition].torn}")
            one, other = look(log), look(again.logs[partition])
            if one != other:
                raise Broken(f"a second start finds {_difference(one, other)}")


def _difference(one: Seen, other: Seen) -> str:
    return "; ".join(
        f"{name}: {_short(was)} became {_short(now)}"
        for name, was, now in zip(Seen._fields, one, other, strict=True)
        if was != now
    )


def _short(value: object) -> str:
    return f"{len(value)} batches" if isinstance(value, list) else str(value)
