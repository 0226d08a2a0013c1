"""What `verify` calls damage, what it can have rebuilt, and what is only worth a note."""

from collections.abc import Callable

import pytest

from storage import checkpoint
from storage.batch.build import build
from storage.batch.header import CRC_FROM, HEADER_BYTES, checksum, headers
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk.simulated import SimulatedDisk
from storage.inspect import place
from storage.inspect.findings import Finding, FolderReport, Level
from storage.inspect.verify import size_bytes, verify
from storage.log.index import OFFSET_ENTRY

Files = dict[str, bytes]
OnDisk = Callable[[Files], SimulatedDisk]
ONE = TopicPartition("one", 0)


def look(disk: SimulatedDisk) -> FolderReport:
    return verify(disk, place.find(disk, "data"))


def found(report: FolderReport, level: Level) -> list[Finding]:
    return [each for each in report.all_findings if each.level is level]


def logs(files: Files) -> list[str]:
    return sorted(path for path in files if path.startswith("data/one-0/") and path[-4:] == ".log")


@pytest.fixture
def clean(folders: dict[str, Files]) -> Files:
    return folders["clean"]


@pytest.fixture
def crash(folders: dict[str, Files]) -> Files:
    return folders["crash"]


def test_a_sound_folder_has_no_findings_and_is_counted(
    folders: dict[str, Files], on_disk: OnDisk
) -> None:
    for files in folders.values():
        disk = on_disk(files)
        told: list[int] = []
        where = place.find(disk, "data")
        report = verify(disk, where, told.append, decode=True)
        assert report.all_findings == []
        one = report.partitions[0]
        every = [header for path in logs(files) for _, header in headers(files[path])]
        assert (one.batches, one.records) == (
            len(every),
            sum(header.record_count for header in every),
        )
        assert (one.start_offset, one.end_offset) == (0, every[-1].end_offset)
        assert (
            sum(told)
            == size_bytes(disk, where)
            == sum(len(files[p]) for p in files if p[-4:] == ".log")
        )


def test_a_torn_tail_is_no_damage_after_a_crash_and_damage_after_a_clean_stop(
    crash: Files, clean: Files, on_disk: OnDisk
) -> None:
    for files, level in ((crash, Level.NOTE), (clean, Level.DAMAGE)):
        last = logs(files)[-1]
        report = look(on_disk({**files, last: files[last] + bytes(30)}))
        (finding,) = report.all_findings
        assert (finding.level, finding.file) == (level, last)
        assert finding.position == len(files[last])
        assert report.sound is (level is Level.NOTE)
    assert "cut at the next start" in look(on_disk(with_tail(crash))).all_findings[0].advice


def with_tail(files: Files) -> Files:
    last = logs(files)[-1]
    return {**files, last: files[last] + bytes(30)}


def test_without_a_recovery_point_a_torn_tail_counts_as_damage(
    crash: Files, on_disk: OnDisk
) -> None:
    files = with_tail(crash)
    del files[f"data/{checkpoint.RECOVERY_POINTS}"]
    assert found(look(on_disk(files)), Level.DAMAGE)


def test_a_log_that_is_too_short_is_damaged(clean: Files, on_disk: OnDisk) -> None:
    last = logs(clean)[-1]
    at, header = list(headers(clean[last]))[-1]
    (finding,) = found(look(on_disk({**clean, last: clean[last][:at]})), Level.DAMAGE)
    assert (finding.position, finding.offset) == (at, header.base_offset)
    assert "was durable" in finding.reason


def test_every_damage_of_a_segment_is_told_not_only_the_first(
    clean: Files, on_disk: OnDisk
) -> None:
    path = logs(clean)[1]
    content = bytearray(clean[path])
    starts = [at for at, _ in headers(clean[path])]
    for at in (starts[1], starts[4]):
        content[at + 66] ^= 1
    report = look(on_disk({**clean, path: bytes(content)}))
    assert [each.position for each in found(report, Level.DAMAGE)] == [starts[1], starts[4]]


LEAPS = [
    pytest.param("crash", -1, 1, 6, id="an offset leaps"),
    pytest.param("clean", 2, 3, 15, id="an epoch leaps"),
    pytest.param("crash", 2, -1, 6, id="the last offset of a segment leaps"),
    pytest.param("clean", -1, -1, 6, id="the last offset of a closed log leaps"),
]


@pytest.mark.parametrize(("state", "segment", "batch", "byte"), LEAPS)
def test_a_batch_that_leaps_ahead_is_the_wrong_one_and_not_its_successor(
    folders: dict[str, Files], on_disk: OnDisk, state: str, segment: int, batch: int, byte: int
) -> None:
    files = folders[state]
    path = logs(files)[segment]
    at, header = list(headers(files[path]))[batch]
    content = bytearray(files[path])
    content[at + byte] ^= 8
    finding = found(look(on_disk({**files, path: bytes(content)})), Level.DAMAGE)[0]
    assert (finding.file, finding.position) == (path, at)
    assert finding.offset == header.base_offset


def test_a_stray_file_behind_does_not_speak_against_good_batches(
    crash: Files, on_disk: OnDisk
) -> None:
    last = logs(crash)[-1]
    stray = f"data/one-0/{int(last[-24:-4]) + 2:020d}.log"
    report = look(on_disk({**crash, stray: bytes(30)}))
    assert report.sound
    assert report.partitions[0].end_offset == look(on_disk(crash)).partitions[0].end_offset


def test_what_the_next_start_makes_anew_is_not_worth_a_word(crash: Files, on_disk: OnDisk) -> None:
    last = logs(crash)[-1]
    for suffix in (".index", ".timeindex"):
        path = last[:-4] + suffix
        assert look(on_disk({**crash, path: b"rubbish"})).all_findings == []


def test_an_entry_of_an_index_that_is_wrong_is_named(clean: Files, on_disk: OnDisk) -> None:
    path = logs(clean)[0][:-4] + ".index"
    content = bytearray(clean[path])
    content[15] ^= 1
    (finding,) = look(on_disk({**clean, path: bytes(content)})).all_findings
    assert (finding.level, finding.file, finding.position) == (Level.REBUILDABLE, path, 8)
    assert "no batch begins at byte" in finding.reason


def test_an_entry_behind_the_last_batch_and_half_an_entry_are_seen(
    clean: Files, on_disk: OnDisk
) -> None:
    path = logs(clean)[0][:-4] + ".index"
    for more, reason in ((OFFSET_ENTRY.pack(9999, 9999), "behind"), (b"half", "no whole entry")):
        (finding,) = look(on_disk({**clean, path: clean[path] + more})).all_findings
        assert (finding.level, finding.position) == (Level.REBUILDABLE, len(clean[path]))
        assert reason in finding.reason


def test_an_index_that_is_gone_is_only_noted(clean: Files, on_disk: OnDisk) -> None:
    files = {path: clean[path] for path in clean if not path.endswith(".index")}
    report = look(on_disk(files))
    assert report.sound
    assert {each.reason for each in report.all_findings} == {"it has no .index"}


def test_epochs_that_disagree_with_the_batches_are_seen(clean: Files, on_disk: OnDisk) -> None:
    path = "data/one-0/leader-epoch-checkpoint"
    rows = clean[path].decode().split("\n")
    epoch, start = rows[3].split(" ")
    rows[3] = f"{epoch} {int(start) - 1}"
    (finding,) = look(on_disk({**clean, path: "\n".join(rows).encode()})).all_findings
    assert (finding.level, finding.file) == (Level.REBUILDABLE, path)
    assert f"has epoch {epoch}" in finding.reason


def test_a_snapshot_of_another_time_is_seen(clean: Files, on_disk: OnDisk) -> None:
    """A sound file that tells of other batches: left by a log that was cut, for instance."""
    first, second, *_ = sorted(
        each for each in clean if each.startswith("data/one-0/") and each.endswith(".snapshot")
    )
    for older, newer in ((first, second), (second, first)):
        (finding,) = look(on_disk({**clean, newer: clean[older]})).all_findings
        assert (finding.level, finding.file) == (Level.REBUILDABLE, newer)


def test_a_snapshot_that_knows_what_comes_later_is_seen(clean: Files, on_disk: OnDisk) -> None:
    newest = max(each for each in clean if "one-0" in each and each.endswith(".snapshot"))
    early = "data/one-0/00000000000000000001.snapshot"
    (finding,) = look(on_disk({**clean, early: clean[newest]})).all_findings
    assert (finding.level, finding.file) == (Level.REBUILDABLE, early)
    assert "which is later" in finding.reason


def test_an_aborted_transaction_that_the_index_lacks_is_seen(clean: Files, on_disk: OnDisk) -> None:
    path = next(each for each in sorted(clean) if each.endswith(".txnindex"))
    (finding,) = look(on_disk({**clean, path: b""})).all_findings
    assert (finding.level, finding.file) == (Level.REBUILDABLE, path)
    assert "is missing" in finding.reason


def test_committed_offsets_that_are_missing_are_noted(clean: Files, on_disk: OnDisk) -> None:
    path = f"data/{checkpoint.HIGH_WATERMARKS}"
    report = look(on_disk({**clean, path: checkpoint.encode_offsets({ONE: 10_000})}))
    assert report.sound
    assert "10,000 were committed" in report.all_findings[0].reason


def test_records_that_do_not_decode_are_seen_if_asked_for(on_disk: OnDisk) -> None:
    batch = build([Record(0, 1, b"key", b"value")])
    batch[HEADER_BYTES] = 99
    batch[CRC_FROM - 4 : CRC_FROM] = checksum(memoryview(batch)).to_bytes(4, "big")
    files = {"data/x-0/00000000000000000000.log": bytes(batch)}
    disk = on_disk(files)
    assert verify(disk, place.find(disk, "data")).sound
    report = verify(disk, place.find(disk, "data"), decode=True)
    assert "they are no records" in found(report, Level.DAMAGE)[0].reason
    assert report.partitions[0].cut is None


def test_an_unfinished_compaction_counts_as_finished(clean: Files, on_disk: OnDisk) -> None:
    second = logs(clean)[1]
    files = {**clean, second + ".swap": clean[second], second: b"half gone"}
    report = look(on_disk(files))
    assert report.sound
    assert "the next start finishes it" in [each.advice for each in report.all_findings]


def test_a_damaged_swap_does_not_replace_what_is_there(clean: Files, on_disk: OnDisk) -> None:
    second = logs(clean)[1]
    report = look(on_disk({**clean, second + ".swap": b"rubbish"}))
    assert [each.file for each in found(report, Level.DAMAGE)] == [second + ".swap"]
    assert report.partitions[0].cut is None
    assert report.partitions[0].set_aside == [second + ".swap"]


def test_foreign_and_left_over_files_are_noted(clean: Files, on_disk: OnDisk) -> None:
    more = {"data/one-0/notes.txt": b"", "data/one-0/00000000000000000000.log.cleaned": b""}
    report = look(on_disk({**clean, **more}))
    assert report.sound
    assert {each.file for each in report.all_findings} == set(more)


def test_a_partition_that_is_only_remembered_is_noted(clean: Files, on_disk: OnDisk) -> None:
    files = {path: clean[path] for path in clean if not path.startswith("data/two-0")}
    report = look(on_disk(files))
    assert report.sound
    assert [each.file for each in report.all_findings] == ["data/two-0"]


def test_one_partition_can_be_asked_for_by_its_folder_or_by_name(
    clean: Files, on_disk: OnDisk
) -> None:
    disk = on_disk(clean)
    assert place.find(disk, "data/one-0") == place.find(disk, "data", "one-0")
    for path, only in (("data", "one-1"), ("nowhere", None), ("data/one-0", "two-0")):
        with pytest.raises(place.NotALog):
            place.find(disk, path, only)
