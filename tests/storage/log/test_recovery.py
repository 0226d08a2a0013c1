"""Opening a log: little is read after a clean stop, all is made again after a crash."""

from collections.abc import Callable

import pytest

from storage.batch.control import MarkerKind
from storage.disk import jobs
from storage.disk.faults import Faults, matching
from storage.disk.seam import Disk
from storage.errors import DamagedLog
from storage.log import cutting, flushing
from storage.log.epochs import LEADER_EPOCHS
from storage.log.segment import LOG, file_name
from storage.testing.bench import PARTITION, Bench
from storage.testing.checks import look


@pytest.fixture
def filled(bench: Bench) -> Bench:
    """Several segments with everything in them, the last of them open; all flushed, committed."""
    for _ in range(5):
        bench.append(3)
        bench.log.append([bench.batch(producer_id=1, sequence=0, transactional=True)])
        bench.log.append([bench.marker(MarkerKind.ABORT, 1)])
        bench.log.append([bench.batch(producer_id=2, sequence=5, epoch=1)])
    bench.broker.marks.high_watermarks.values[PARTITION] = bench.log.end_offset
    bench.flush()
    return bench


def damage(bench: Bench) -> DamagedLog:
    """Start, which fails; nothing that was there may have changed."""
    before = bench.disk.files()
    disk = bench.disk.kill()
    with pytest.raises(DamagedLog) as caught:
        bench.start(disk)
    assert disk.files() == before
    return caught.value


def path_of(bench: Bench, number: int) -> str:
    return bench.log.segments[number].path()


def counting_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many bytes each read asks for and gets."""
    sizes: list[int] = []
    read_into = Disk.read_into

    def counted(disk: Disk, path: str, buffer: memoryview, position: int) -> int:
        got = read_into(disk, path, buffer, position)
        sizes.append(got)
        return got

    monkeypatch.setattr(Disk, "read_into", counted)
    return sizes


@pytest.mark.parametrize("seed", range(5))
def test_a_new_log_is_there_after_a_power_failure(bench: Bench, seed: int) -> None:
    assert bench.start(bench.disk.crash(seed)).log.end_offset == 0


def test_after_a_clean_stop_only_tails_are_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.append(400, value_bytes=300)
    bench.stop()
    before = look(bench.log)
    sizes = counting_reads(monkeypatch)
    recovery = bench.start(bench.disk.crash(5), clean=True)
    read = sum(sizes)
    monkeypatch.undo()
    assert (recovery.scanned_bytes, recovery.torn) == (0, None)
    assert len(recovery.log.segments) > 100
    # Marks, epochs and a snapshot, an index entry of each segment, and the last of them.
    assert read < 100 * len(recovery.log.segments) + 5000 < recovery.log.size_bytes / 5
    assert look(recovery.log) == before


def test_after_a_crash_nothing_before_the_newest_snapshot_is_scanned(filled: Bench) -> None:
    sizes = [segment.size_bytes for segment in filled.log.segments]
    recovery = filled.start(filled.disk.crash(1))
    assert recovery.scanned_bytes == sizes[-1]
    assert len(sizes) > 2


def test_everything_is_scanned_without_a_recovery_point(filled: Bench) -> None:
    filled.broker.marks.recovery_points.values.clear()
    jobs.run(filled.broker.marks.save())
    recovery = filled.start()
    assert recovery.scanned_bytes == recovery.log.size_bytes
    assert recovery.torn is None


def test_a_torn_tail_is_cut_and_named(filled: Bench) -> None:
    end, size = filled.log.end_offset, filled.log.active.size_bytes
    content = filled.content()
    filled.append(value_bytes=200)
    path = filled.log.active.path()
    filled.disk.truncate(path, filled.disk.size(path) - 1)
    recovery = filled.start()
    assert recovery.torn is not None
    assert (recovery.torn.file, recovery.torn.position, recovery.torn.offset) == (path, size, end)
    assert recovery.torn.lost_bytes > 200
    assert filled.content() == content
    assert filled.start().torn is None


def test_what_comes_after_a_torn_segment_goes_with_it(bench: Bench) -> None:
    bench.append(25)
    first, second, third = bench.log.segments[:3]
    bench.disk.truncate(second.path(), second.size_bytes - 1)
    recovery = bench.start()
    last_size = bench.batch().header.size_bytes
    assert recovery.log.end_offset == third.base_offset - 1
    assert [each.base_offset for each in recovery.log.segments] == [0, second.base_offset]
    assert not bench.disk.exists(third.path())
    assert recovery.torn is not None
    assert recovery.torn.lost_bytes > last_size
    assert first.end_offset == second.base_offset


Spoil = Callable[[Disk, str], None]


def remove(disk: Disk, path: str) -> None:
    disk.delete(path)


def garble(disk: Disk, path: str) -> None:
    disk.truncate(path, 0)
    disk.write(path, (b"\xff" * 20,), 0)


@pytest.mark.parametrize("spoil", [remove, garble])
@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot", LEADER_EPOCHS])
@pytest.mark.parametrize("clean", [False, True])
def test_what_follows_from_the_batches_is_made_again(
    filled: Bench, spoil: Spoil, kind: str, clean: bool
) -> None:
    before, epochs = look(filled.log), filled.log.as_protocol()
    aborted = filled.log.aborted_between(0, 100)
    times = [filled.log.find_time(at_ms, 100) for at_ms in range(1000, 1040)]
    if clean:
        filled.stop()
    spoiled = [name for name in filled.disk.list(filled.folder) if name.endswith(kind)]
    assert spoiled
    if kind == ".timeindex" and spoil is garble:
        spoiled = spoiled[-1:] if not clean else []
    for name in spoiled:
        spoil(filled.disk, f"{filled.folder}/{name}")
    recovery = filled.start(clean=clean)
    assert recovery.torn is None
    assert look(recovery.log) == before
    assert recovery.log.as_protocol() == epochs
    assert recovery.log.aborted_between(0, 100) == aborted
    assert [recovery.log.find_time(at_ms, 100) for at_ms in range(1000, 1040)] == times


def test_a_lost_index_of_aborted_transactions_is_made_again_where_it_is_scanned(
    bench: Bench,
) -> None:
    bench.log.append([bench.batch(producer_id=1, transactional=True)])
    bench.log.append([bench.marker(MarkerKind.ABORT, 1)])
    bench.flush()
    expected = bench.log.aborted_between(0, 2)
    bench.disk.delete(bench.log.active.path(".txnindex"))
    assert len(expected) == 1
    assert bench.start().log.aborted_between(0, 2) == expected


def test_a_missing_segment_in_the_middle_is_damage(filled: Bench) -> None:
    _, second, third = filled.log.segments[:3]
    filled.disk.delete(second.path())
    error = damage(filled)
    assert (error.file, error.position, error.offset) == (third.path(), 0, second.base_offset)


def test_a_missing_first_segment_is_damage(filled: Bench) -> None:
    filled.disk.delete(path_of(filled, 0))
    error = damage(filled)
    assert (error.file, error.offset) == (filled.folder, 0)


def test_a_log_without_any_segment_is_damage_if_it_had_something_durable(filled: Bench) -> None:
    for number in range(len(filled.log.segments)):
        filled.disk.delete(path_of(filled, number))
    assert damage(filled).offset == 0


def test_a_missing_last_segment_is_damage(filled: Bench) -> None:
    filled.disk.delete(path_of(filled, -1))
    error = damage(filled)
    assert error.file == path_of(filled, -2)
    assert error.offset == filled.log.active.base_offset


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_segment_that_is_too_short_is_damage(filled: Bench, number: int) -> None:
    path = path_of(filled, number)
    filled.disk.truncate(path, filled.disk.size(path) - 5)
    assert damage(filled).file == path


def test_a_rotten_batch_below_the_recovery_point_is_damage(filled: Bench) -> None:
    active = filled.log.active
    position, header = list(active.walk(0))[1]
    filled.disk.flip_bit(active.path(), (position + 70) * 8)
    error = damage(filled)
    assert (error.file, error.position) == (active.path(), position)
    assert error.offset == header.base_offset
    assert "checksum" in error.reason


def test_after_a_clean_stop_a_log_that_lost_its_last_batch_is_damage(bench: Bench) -> None:
    """Its indexes do not tell: no entry points to that batch."""
    bench.append(2)
    bench.stop()
    (_, first), (position, _) = bench.log.active.walk(0)
    assert bench.log.active.offsets.entries() == []
    bench.disk.truncate(bench.log.active.path(), position)
    with pytest.raises(DamagedLog, match="was durable") as caught:
        bench.start(clean=True)
    assert (caught.value.position, caught.value.offset) == (first.size_bytes, 1)


def test_of_a_damaged_log_not_even_what_lies_before_its_start_is_deleted(filled: Bench) -> None:
    first = path_of(filled, 0)
    content = filled.disk.files()[first]
    jobs.run(cutting.advance_start(filled.log, filled.log.segments[1].base_offset))
    filled.disk.create(first)
    filled.disk.write(first, (content,), 0)
    active = filled.log.active
    filled.disk.flip_bit(active.path(), (active.size_bytes - 1) * 8)
    assert damage(filled).file == active.path()


def test_a_rotten_batch_above_the_recovery_point_is_a_torn_tail(filled: Bench) -> None:
    end = filled.log.end_offset
    filled.append(3)
    filled.disk.flip_bit(filled.log.active.path(), (filled.log.active.size_bytes - 1) * 8)
    recovery = filled.start()
    assert recovery.torn is not None
    assert recovery.log.end_offset == end + 2


def test_a_log_whose_beginning_was_never_durable_is_empty_at_its_start(bench: Bench) -> None:
    """A later segment may have survived: it comes after a hole."""
    bench.append(25)
    bench.disk.delete(path_of(bench, 0))
    recovery = bench.start()
    assert (recovery.log.start_offset, recovery.log.end_offset) == (0, 0)
    assert recovery.torn is not None
    assert "no segment has offset 0" in recovery.torn.reason


def test_a_snapshot_of_a_tail_that_is_gone_is_not_believed_later(bench: Bench) -> None:
    bench.log.append([bench.batch(producer_id=1, sequence=0)])
    bench.flush()
    bench.log.append([bench.batch(producer_id=1, sequence=1)])
    bench.log.roll()
    bench.disk.truncate(path_of(bench, 0), bench.log.segments[0].size_bytes - 1)
    assert bench.start().log.end_offset == 1
    bench.append(3)
    bench.flush()
    log = bench.start().log
    assert log.end_offset == 4
    assert log.producers.entries[1].last_sequence == 0


@pytest.mark.parametrize("clean", [False, True])
def test_a_marker_that_is_not_committed_keeps_its_transaction_from_readers_after_a_start(
    bench: Bench, clean: bool
) -> None:
    """The newest snapshot calls the transaction ended: an older one is needed."""
    bench.append(1)
    bench.log.roll()
    bench.log.append([bench.batch(producer_id=1, transactional=True)])
    bench.log.append([bench.marker(MarkerKind.COMMIT, 1)])
    bench.log.committed(2)
    bench.log.roll()
    bench.flush()
    if clean:
        bench.stop()
    assert bench.log.producers.last_stable_offset(2) == 1
    log = bench.start(clean=clean).log
    assert log.producers.last_stable_offset(2) == 1
    assert log.producers.last_stable_offset(3) == 3


def test_what_is_missing_below_the_start_is_no_damage(bench: Bench) -> None:
    """Retention deleted two segments, and a crash brought one back and took a new one away."""
    bench.append(8)
    bench.log.roll()
    bench.append(8)
    bench.flush()
    bench.log.roll()
    first, lost = path_of(bench, 0), bench.log.active.path()
    content = bench.disk.files()[first]
    bench.append(4)
    bench.log.roll()
    bench.append(1)
    jobs.run(cutting.advance_start(bench.log, 18))
    assert not bench.disk.exists(first)
    bench.disk.create(first)
    bench.disk.write(first, (content,), 0)
    bench.disk.delete(lost)
    log = bench.start().log
    assert (log.start_offset, log.end_offset) == (18, 18)


def test_a_start_that_was_acted_on_is_not_taken_back(bench: Bench) -> None:
    """A process is killed right after a rename; the next one has to make the name durable."""
    bench.append(20)
    bench.flush()
    bench.disk.faults = Faults(ignore=matching("fsync_folder", suffix="data"))
    jobs.run(cutting.advance_start(bench.log, 5))
    disk = bench.disk.kill()
    disk.faults = Faults()
    assert bench.start(disk).log.start_offset == 5
    for seed in range(10):
        again = Bench()
        again.broker = bench.broker
        assert again.start(disk.crash(seed)).log.start_offset == 5


def test_leftovers_of_interrupted_work_are_removed(bench: Bench) -> None:
    for name in ("leader-epoch-checkpoint.tmp", f"{file_name(7, LOG)}.cleaned"):
        bench.disk.create(f"{bench.folder}/{name}")
    bench.start()
    names = bench.disk.list(bench.folder)
    assert not [name for name in names if name.endswith((".tmp", ".cleaned"))]


def test_a_flush_says_what_it_covers_and_scans_begin_there(bench: Bench) -> None:
    bench.append(3)
    assert bench.log.unflushed_records == 3
    job = flushing.flush(bench.log)
    work = next(job)
    bench.append(2)
    work()
    with pytest.raises(StopIteration) as stop:
        job.send(None)
    assert stop.value.value == 3
    assert bench.log.recovery_point == bench.broker.marks.recovery_points.values[PARTITION] == 3
    assert bench.log.unflushed_records == 2
