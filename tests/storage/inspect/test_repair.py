"""`repair` on damage of every kind, and cut short at every one of its steps."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from storage import checkpoint
from storage.batch.header import headers
from storage.checkpoint import TopicPartition, decode_offsets
from storage.disk.simulated import SimulatedCrash, SimulatedDisk
from storage.errors import DamagedLog
from storage.inspect import place, repair
from storage.inspect.findings import FolderReport
from storage.inspect.repair import FolderPlan
from storage.inspect.verify import verify
from storage.log.log import Log

Files = dict[str, bytes]
OnDisk = Callable[[Files], SimulatedDisk]
ONE = TopicPartition("one", 0)


def look(disk: SimulatedDisk) -> FolderReport:
    return verify(disk, place.find(disk, "data"))


def planned(disk: SimulatedDisk) -> FolderPlan:
    return repair.plan(disk, look(disk))


def logs(files: Files) -> list[str]:
    return sorted(path for path in files if path.startswith("data/one-0/") and "log" in path[-4:])


def flipped(files: Files, path: str, at: int) -> Files:
    content = bytearray(files[path])
    content[at] ^= 1
    return {**files, path: bytes(content)}


def without(files: Files, *paths: str) -> Files:
    return {path: files[path] for path in files if path not in paths}


def pieces(files: Files) -> list[bytes]:
    """Every batch of a log, as it lies there."""
    return [
        files[path][at : at + header.size_bytes]
        for path in logs(files)
        for at, header in headers(files[path])
    ]


@pytest.fixture(params=["clean", "crash"])
def files(folders: dict[str, Files], request: pytest.FixtureRequest) -> Files:
    return folders[request.param]


@pytest.fixture
def bare(folders: dict[str, Files]) -> Files:
    """The last segment has a wrong byte in its second batch, and nothing lies beside it."""
    files = folders["crash"]
    path = logs(files)[-1]
    damaged = flipped(files, path, list(headers(files[path]))[1][0] + 70)
    beside = [each for each in files if each.startswith(path[:-4]) and each != path]
    return without(damaged, *beside)


@pytest.fixture
def damaged(files: Files) -> Files:
    """The third segment has a wrong byte in its third batch."""
    path = logs(files)[2]
    return flipped(files, path, list(headers(files[path]))[2][0] + 70)


def test_a_sound_folder_is_left_alone(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk(files)
    what = planned(disk)
    repair.run(disk, what)
    assert what.empty
    assert disk.files() == files


def test_the_plan_says_what_goes(damaged: Files, on_disk: OnDisk) -> None:
    (what,) = planned(on_disk(damaged)).partitions
    segments = logs(damaged)
    at, header = list(headers(damaged[segments[2]]))[2]
    assert what.loss is not None
    assert (what.cut_path, what.cut_position) == (segments[2], at)
    assert what.loss.first_offset == header.base_offset
    later = [len(damaged[path]) for path in segments[3:]]
    assert what.loss.size_bytes == len(damaged[segments[2]]) - at + sum(later)
    behind = [each for path in segments for _, each in headers(damaged[path])]
    behind = [each for each in behind if each.base_offset > header.base_offset]
    assert what.loss.readable_batches == len(behind)
    assert what.loss.readable_records == sum(each.record_count for each in behind)
    assert what.loss.end_offset == behind[-1].end_offset
    assert what.to_json()["kept_in"] == "data/one-0.removed/1"


def test_marks_and_the_clean_stop_do_not_outlive_what_they_tell_of(
    damaged: Files, on_disk: OnDisk
) -> None:
    high = f"data/{checkpoint.HIGH_WATERMARKS}"
    marked = {**damaged, high: checkpoint.encode_offsets({ONE: 90, TopicPartition("two", 0): 9})}
    disk = on_disk(marked)
    what = planned(disk)
    loss = what.partitions[0].loss
    assert loss is not None
    repair.run(disk, what)
    left = disk.files()
    points = decode_offsets(left[f"data/{checkpoint.RECOVERY_POINTS}"], "")
    before = decode_offsets(damaged[f"data/{checkpoint.RECOVERY_POINTS}"], "")
    assert points == {**before, ONE: loss.first_offset}
    assert decode_offsets(left[high], "") == {ONE: loss.first_offset, TopicPartition("two", 0): 9}
    assert f"data/{checkpoint.CLEAN_SHUTDOWN}" not in left


def test_the_other_partition_is_not_touched(damaged: Files, on_disk: OnDisk) -> None:
    disk = on_disk(damaged)
    repair.run(disk, planned(disk))
    left = disk.files()
    for path in damaged:
        if path.startswith("data/two-0"):
            assert left[path] == damaged[path]


def test_a_second_repair_finds_nothing_to_do(damaged: Files, on_disk: OnDisk) -> None:
    disk = on_disk(damaged)
    repair.run(disk, planned(disk))
    assert planned(disk).empty


def test_a_missing_segment_is_cut_there_and_the_later_ones_are_kept(
    files: Files, on_disk: OnDisk, reopen: Callable[..., Log]
) -> None:
    segments = logs(files)
    disk = on_disk(without(files, segments[3]))
    repair.run(disk, planned(disk))
    left = disk.files()
    assert logs(left) == segments[:3]
    for path in segments[4:]:
        assert left[path.replace("one-0", "one-0.removed/1")] == files[path]
    assert look(disk).sound
    assert reopen(disk, "one").end_offset == int(segments[3][-24:-4])


def test_a_log_without_its_first_segment_becomes_empty(
    files: Files, on_disk: OnDisk, reopen: Callable[..., Log]
) -> None:
    disk = on_disk(without(files, logs(files)[0]))
    repair.run(disk, planned(disk))
    assert look(disk).sound
    log = reopen(disk, "one")
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert len([path for path in disk.files() if path.startswith("data/one-0.removed")]) > 20


def test_a_first_segment_without_a_good_batch_keeps_its_name(files: Files, on_disk: OnDisk) -> None:
    """Its name may be all that says where the log begins."""
    first = logs(files)[0]
    starts = f"data/{checkpoint.LOG_STARTS}"
    disk = on_disk(without(flipped(files, first, 30), starts))
    repair.run(disk, planned(disk))
    assert disk.files()[first] == b""
    assert disk.files()[f"data/one-0.removed/1/{first[-24:]}.from-0"] == disk_content(files, first)


def disk_content(files: Files, path: str) -> bytes:
    return flipped(files, path, 30)[path]


def test_a_damaged_index_costs_no_record_and_is_made_again(
    folders: dict[str, Files], on_disk: OnDisk, reopen: Callable[..., Log]
) -> None:
    files = folders["clean"]
    for suffix in (".index", ".timeindex", ".txnindex"):
        path = next(each for each in sorted(files) if each.endswith(suffix) and files[each])
        disk = on_disk(flipped(files, path, 3))
        what = planned(disk)
        assert [each.loss for each in what.partitions] == [None]
        repair.run(disk, what)
        log = reopen(disk, "one")
        assert log.end_offset == reopen(on_disk(files), "one").end_offset
        assert disk.files()[path] == files[path]


def test_a_cut_segment_gets_its_aborted_transactions_back(
    folders: dict[str, Files], on_disk: OnDisk, reopen: Callable[..., Log]
) -> None:
    """Also if a snapshot from within the segment would make a start skip them."""
    files = folders["clean"]
    whole = reopen(on_disk(files), "one")
    path = next(each for each in sorted(files) if each.endswith(".txnindex"))[:-9] + ".log"
    last = list(headers(files[path]))[-1]
    within = f"data/one-0/{last[1].base_offset:020d}.snapshot"
    newest = max(each for each in files if each.endswith(".snapshot") and "one-0" in each)
    disk = on_disk({**flipped(files, path, last[0] + 65), within: files[newest]})
    repair.run(disk, planned(disk))
    log = reopen(disk, "one")
    assert log.end_offset == last[1].base_offset
    assert (
        log.aborted_between(0, log.end_offset)
        == [
            each
            for each in whole.aborted_between(0, whole.end_offset)
            if each.last_offset < log.end_offset
        ]
        != []
    )


def test_checkpoints_of_the_folder_that_do_not_read_are_set_aside(
    files: Files, on_disk: OnDisk, reopen: Callable[..., Log]
) -> None:
    for name in place.OFFSET_FILES:
        path = f"data/{name}"
        disk = on_disk({**files, path: b"rubbish"})
        repair.run(disk, planned(disk))
        left = disk.files()
        assert left.get(path, b"0\n0\n") != b"rubbish"
        assert left[f"data/checkpoints.removed/1/{name}"] == b"rubbish"
        assert look(disk).sound
        reopen(disk, "one")


def test_what_is_repaired_stays_so_when_the_power_fails(damaged: Files, on_disk: OnDisk) -> None:
    disk = on_disk(damaged)
    repair.run(disk, planned(disk))
    for seed in range(10):
        assert disk.crash(seed).files() == disk.files()


def test_a_crash_at_any_step_loses_nothing_and_the_repair_can_go_on(
    damaged: Files, on_disk: OnDisk
) -> None:
    check_crashes(damaged, on_disk)


def test_the_recovery_point_is_lowered_before_the_file_is_cut(
    damaged: Files, on_disk: OnDisk
) -> None:
    """So that a broker started in between cuts it there by itself, and calls nothing damage."""
    disk = on_disk(damaged)
    plan = planned(disk)
    disk.trace = []
    repair.run(disk, plan)
    point, cut = "data/recovery-point-offset-checkpoint.tmp", plan.partitions[0].cut_path
    steps = [step[:2] for step in disk.trace if step[0] in ("rename", "truncate")]
    assert [step for step in steps if step[1] in (point, cut)] == [
        ("rename", point),
        ("truncate", cut),
    ]


def test_neither_does_one_where_only_the_end_of_a_file_goes(bare: Files, on_disk: OnDisk) -> None:
    check_crashes(bare, on_disk)


def check_crashes(damaged: Files, on_disk: OnDisk) -> None:
    everything = pieces(damaged)
    whole = on_disk(damaged)
    before = whole.operations
    repair.run(whole, planned(whole))
    steps = whole.operations - before
    assert steps > 10
    for step in range(1, steps + 1):
        survivor = crashed(on_disk(damaged), step)
        check_all_there(survivor.files(), everything)
        repair.run(survivor, planned(survivor))
        assert look(survivor).sound
        left = survivor.files()
        check_all_there(left, everything)
        # What is saved already may still lie there, too: the next start cuts it.
        for path in logs(damaged):
            assert left.get(path, b"").startswith(whole.files().get(path, b""))


def test_a_broker_started_after_a_crash_at_any_step_loses_nothing_either(
    damaged: Files, bare: Files, on_disk: OnDisk, reopen: Callable[..., Log]
) -> None:
    check_starts(damaged, on_disk, reopen)
    check_starts(bare, on_disk, reopen)


def check_starts(damaged: Files, on_disk: OnDisk, reopen: Callable[..., Log]) -> None:
    """It has the log as it was, since damage before a good snapshot is not met; or cut; or none."""
    everything = pieces(damaged)
    whole = on_disk(damaged)
    ends = set()
    with suppress(DamagedLog):
        ends.add(reopen(on_disk(damaged), "one").end_offset)
    before = whole.operations
    repair.run(whole, planned(whole))
    steps = whole.operations - before
    ends.add(reopen(whole, "one").end_offset)
    for step in range(1, steps + 1):
        survivor = crashed(on_disk(damaged), step)
        with suppress(DamagedLog):
            assert reopen(survivor, "one").end_offset in ends
        check_all_there(survivor.files(), everything)


def crashed(disk: SimulatedDisk, step: int) -> SimulatedDisk:
    """Crash in this step of a repair; whatever was not durable is lost, or not."""
    what = planned(disk)
    disk.crash_at(disk.operations + step)
    with pytest.raises(SimulatedCrash):
        repair.run(disk, what)
    return disk.crash(step)


def check_all_there(files: Files, everything: list[bytes]) -> None:
    there = b"|".join(content for path, content in files.items() if path.startswith("data/one-0"))
    assert all(piece in there for piece in everything)
