"""The operations that a run draws from, each with what the model has to know of it.

An operation tells the model what it is about to do before it touches the disk, because a crash may
come anywhere in between, and that it is done when it is done. To add one, write a function like
those here and put it into `OPERATIONS`: compaction, which leaves the meaning of a log as it is but
not its bytes, will have to tell the model what it may look like during and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple, TypeAlias, TypeVar

from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.jobs import Job
from storage.errors import NO_ROOM, DiskFull
from storage.log import cutting, flushing
from storage.log.log import Log
from storage.testing.broker import SmallBroker
from storage.testing.checks import check, look
from storage.testing.left_out import Watch
from storage.testing.model import Broken, Kept, PartitionModel
from storage.testing.source import BatchSource

T = TypeVar("T")
Marks: TypeAlias = tuple[dict[TopicPartition, int], dict[TopicPartition, int]]


class Stage:
    """What an operation works with: the broker of the moment, and what is known of each log."""

    def __init__(self, random: Random, watch: Watch, broker: SmallBroker) -> None:
        self.random = random
        self.questions = Random(random.random())
        """Chance for the checks alone: more of them do not change what a seed does."""
        self.watch = watch
        self.broker = broker
        self.models: dict[TopicPartition, PartitionModel] = {}
        self.sources: dict[TopicPartition, BatchSource] = {}
        self.marks: list[Marks] = [({}, {})]
        """High watermarks and cleaned offsets: of the last complete checkpoint, and ever since."""
        self.journal: list[str] = []

    def note(self, text: str) -> None:
        """Write down what is about to happen."""
        self.journal.append(text)

    def marks_changed(self, *, durable: bool = False) -> None:
        """The marks may have changed, in memory or, if a checkpoint is complete, durably."""
        marks = self.broker.marks
        now = dict(marks.high_watermarks.values), dict(marks.cleaned.values)
        self.marks = [now] if durable else [*self.marks, now]

    def cleaned_at_most(self, partition: TopicPartition, offset: int) -> None:
        """A cut is complete: what comes after it has not been cleaned, and no mark says so."""
        self.marks_changed()
        # The high watermarks are another file: an older one of those may still be there.
        self.marks = [
            (committed, {**cleaned, partition: offset})
            if cleaned.get(partition, 0) > offset
            else (committed, cleaned)
            for committed, cleaned in self.marks
        ]

    def go(self, job: Job[T], between: Callable[[], None] | None = None) -> T:
        """Do a job; `between` may do something else whenever the job waits for the disk."""
        return jobs.run(_interrupted(job, between) if between else job)


def _interrupted(job: Job[T], between: Callable[[], None]) -> Job[T]:
    answer: object = None
    try:
        while True:
            work = job.send(answer)
            between()
            answer = yield work
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class Operation(NamedTuple):
    """Something to do with one of the logs, and how often."""

    name: str
    weight: int
    act: Callable[[Stage, TopicPartition], None]


def append(stage: Stage, partition: TopicPartition) -> None:
    """Append one to three batches."""
    log, model = stage.broker.logs[partition], stage.models[partition]
    count = stage.random.choice((1, 1, 2, 3))
    drawn = stage.sources[partition].draw(model, count, log.end_offset)
    offsets = ", ".join(f"{kept.base_offset}-{kept.end_offset - 1}" for _, kept in drawn)
    stage.note(f"append {partition.folder_name} {offsets}")
    model.appended([kept for _, kept in drawn])
    log.append([batch for batch, _ in drawn])
    if log.end_offset != drawn[-1][1].end_offset:
        raise Broken(f"appended to {drawn[-1][1].end_offset}, and the log ends at {log.end_offset}")


def flush(stage: Stage, partition: TopicPartition) -> None:
    """Flush, sometimes with appends meanwhile."""
    log, model = stage.broker.logs[partition], stage.models[partition]
    stage.note(f"flush {partition.folder_name} at {log.end_offset}")
    end_offset = log.end_offset
    flushed = stage.go(flushing.flush(log), _appends(stage, partition))
    if flushed != end_offset:
        raise Broken(f"flushed to {flushed}, where the log ended at {end_offset}")
    model.flushed(flushed)


def _appends(stage: Stage, partition: TopicPartition) -> Callable[[], None] | None:
    if stage.random.random() < 0.5:
        return None
    job = stage.watch.job

    def between() -> None:
        if stage.random.random() < 0.5:
            stage.watch.job = "append"
            try:
                append(stage, partition)
            except DiskFull:
                stage.models[partition].refused_from(stage.broker.logs[partition].end_offset)
            stage.watch.job = job

    return between


def save(stage: Stage, partition: TopicPartition) -> None:
    """Save the marks of the folder, with a new high watermark."""
    broker = stage.broker
    committed = stage.random.randint(0, broker.logs[partition].end_offset)
    broker.marks.high_watermarks.values[partition] = committed
    # Only a cut takes back what is clean, and sees to it that the file says so too.
    cleaned = broker.marks.cleaned.values
    cleaned[partition] = max(cleaned.get(partition, 0), stage.random.randint(0, committed))
    stage.note(f"save marks, {partition.folder_name} committed to {committed}")
    stage.go(broker.marks.save())
    stage.marks_changed(durable=True)


def roll(stage: Stage, partition: TopicPartition) -> None:
    """Begin a new segment, as a broker does when the old one is old enough."""
    log = stage.broker.logs[partition]
    if log.active.size_bytes:
        stage.note(f"roll {partition.folder_name} at {log.end_offset}")
        log.roll()


def truncate(stage: Stage, partition: TopicPartition) -> None:
    """Cut the end off, at an arbitrary offset; a cut that leaves nothing is a reset."""
    log, model = stage.broker.logs[partition], stage.models[partition]
    offset = stage.random.randint(max(log.start_offset - 4, 0), log.end_offset)
    stage.note(f"truncate {partition.folder_name} to {offset}")
    first_base_offset = log.segments[0].base_offset
    if offset == log.end_offset:
        stage.go(cutting.truncate(log, offset))
    elif min(offset, model.kept_end(offset, first_base_offset)) < log.start_offset:
        model.resetting_to = min(offset, log.start_offset)
        stage.go(cutting.truncate(log, offset))
        model.reset(model.resetting_to)
    else:
        model.cutting_to = offset
        stage.go(cutting.truncate(log, offset))
        model.origins.add(first_base_offset)
        model.cut(offset)
    stage.cleaned_at_most(partition, log.end_offset)


def reset(stage: Stage, partition: TopicPartition) -> None:
    """Drop everything and begin at an arbitrary offset."""
    log, model = stage.broker.logs[partition], stage.models[partition]
    lowest = max(log.start_offset - 20, 0)
    offset = stage.random.choice(
        (lowest, log.end_offset, stage.random.randint(lowest, log.end_offset + 30))
    )
    stage.note(f"reset {partition.folder_name} to {offset}")
    model.resetting_to = offset
    stage.go(cutting.reset(log, offset))
    model.reset(offset)
    stage.cleaned_at_most(partition, log.end_offset)


def advance(stage: Stage, partition: TopicPartition) -> None:
    """Delete records, or segments that retention has no need of; appends go on meanwhile."""
    log, model = stage.broker.logs[partition], stage.models[partition]
    bases = [
        segment.base_offset for segment in log.segments if segment.base_offset > log.start_offset
    ]
    anywhere = stage.random.randint(log.start_offset, log.end_offset)
    offset = stage.random.choice((*bases[:2], anywhere))
    stage.note(f"advance the start of {partition.folder_name} to {offset}")
    if offset <= log.start_offset:
        return
    model.advancing_to = offset
    stage.go(cutting.advance_start(log, offset), _appends(stage, partition))
    model.advanced(offset)


def fill(stage: Stage, partition: TopicPartition) -> None:
    """Do something while the disk is full; then there is room, and it is done again."""
    disk, random = stage.broker.disk, stage.random
    name, _, act = random.choice([each for each in OPERATIONS if each.name in _WITHOUT_ROOM])
    used = sum(map(len, disk.files().values()))
    plenty = disk.capacity_bytes
    disk.capacity_bytes = used + random.choice((0, 1, 20, 80, random.randint(0, 2000)))
    stage.note(f"{disk.capacity_bytes - used} bytes of room")
    log, model = stage.broker.logs[partition], stage.models[partition]
    stage.watch.job = name
    try:
        act(stage, partition)
    except (DiskFull, OSError) as error:
        if isinstance(error, OSError) and error.errno not in NO_ROOM:
            raise
        disk.capacity_bytes = plenty
        stage.note(f"no room for {name}")
        _after_refusal(stage, log, model)
        stage.watch.job = "flush"
        flush(stage, partition)
    finally:
        disk.capacity_bytes = plenty


def _after_refusal(stage: Stage, log: Log, model: PartitionModel) -> None:
    """What was refused left nothing; what it was about to do is done now that there is room."""
    model.refused_from(log.end_offset)
    if model.resetting_to is not None:
        stage.go(cutting.reset(log, model.resetting_to))
        model.reset(model.resetting_to)
    if model.cutting_to is not None:
        stage.go(cutting.truncate(log, model.cutting_to))
        model.origins.add(log.segments[0].base_offset)
        model.cut(model.cutting_to)
    if model.advancing_to is not None:
        stage.go(cutting.advance_start(log, model.advancing_to))
        model.advanced(model.advancing_to)
    check_at_rest(stage, log.partition)


def check_at_rest(stage: Stage, partition: TopicPartition) -> None:
    """The log has exactly what it was given, and answers every question."""
    log, model = stage.broker.logs[partition], stage.models[partition]
    seen = look(log)
    here = [each.data for each in model.batches if each.base_offset >= seen.first_base_offset]
    if seen.batches != here:
        raise Broken(f"{len(seen.batches)} batches are in the log, and {len(here)} should be")
    if seen.start_offset != model.start_offset:
        raise Broken(f"the log begins at {seen.start_offset}, and not at {model.start_offset}")
    if seen.producers not in list(model.producer_states(model.batches)):
        raise Broken(f"wrong producers: {seen.producers}")
    check(log, model.batches, stage.questions)


def observe(stage: Stage, partition: TopicPartition) -> None:
    """Check the log while it is in use."""
    stage.note(f"check {partition.folder_name}")
    check_at_rest(stage, partition)


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("append", 40, append),
    Operation("flush", 14, flush),
    Operation("save", 8, save),
    Operation("roll", 6, roll),
    Operation("truncate", 7, truncate),
    Operation("reset", 2, reset),
    Operation("advance", 6, advance),
    Operation("fill", 3, fill),
    Operation("observe", 3, observe),
)
_WITHOUT_ROOM: Final = ("append", "flush", "roll", "save", "truncate", "advance")


def draw(random: Random) -> Operation:
    """Choose an operation, by weight."""
    return random.choices(OPERATIONS, [each.weight for each in OPERATIONS])[0]


__all__ = ["OPERATIONS", "Kept", "Operation", "Stage", "check_at_rest", "draw"]
