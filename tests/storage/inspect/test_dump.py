"""`dump` shows every batch and every entry as it lies there, whatever is wrong with it."""

from collections.abc import Callable

import pytest

from storage.batch.header import headers
from storage.disk.simulated import SimulatedDisk
from storage.errors import DamagedFile
from storage.inspect import dump
from storage.inspect.dump import SeenBatch, SeenFault
from storage.log import aborted
from storage.log.index import OFFSET_ENTRY, TIME_ENTRY

Files = dict[str, bytes]
OnDisk = Callable[[Files], SimulatedDisk]


@pytest.fixture
def files(folders: dict[str, Files]) -> Files:
    return folders["clean"]


def logs(files: Files) -> list[str]:
    return sorted(path for path in files if path.startswith("data/one-0/") and path[-4:] == ".log")


def seen(disk: SimulatedDisk, path: str) -> list[SeenBatch]:
    found = list(dump.batches(disk, path))
    assert all(isinstance(each, SeenBatch) for each in found)
    return [each for each in found if isinstance(each, SeenBatch)]


def test_every_batch_is_shown_with_its_place_and_its_header(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk(files)
    for path in logs(files):
        shown = seen(disk, path)
        assert [(each.position, each.header) for each in shown] == list(headers(files[path]))
        assert all(each.crc_fits and each.fault is None for each in shown)


def test_markers_say_how_the_transaction_ended(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk(files)
    markers = {
        each.marker for path in logs(files) for each in seen(disk, path) if each.header.is_control
    }
    assert markers == {"commit", "abort"}


def test_a_wrong_checksum_is_shown_and_what_follows_it_too(files: Files, on_disk: OnDisk) -> None:
    path = logs(files)[0]
    starts = [at for at, _ in headers(files[path])]
    content = bytearray(files[path])
    content[starts[2] + 70] ^= 1
    shown = seen(on_disk({**files, path: bytes(content)}), path)
    assert [each.crc_fits for each in shown] == [at != starts[2] for at in starts]


def test_a_place_without_a_batch_ends_the_file(files: Files, on_disk: OnDisk) -> None:
    path = logs(files)[0]
    starts = [at for at, _ in headers(files[path])]
    for tail, reason in ((bytes(99), "magic 0"), (bytes(20), "less than a header")):
        *good, last = dump.batches(on_disk({**files, path: files[path] + tail}), path)
        assert len(good) == len(starts)
        assert isinstance(last, SeenFault)
        assert (last.position, last.left_bytes) == (len(files[path]), len(tail))
        assert reason in last.reason


def test_an_offset_out_of_order_is_said(files: Files, on_disk: OnDisk) -> None:
    path = logs(files)[0]
    twice = on_disk({**files, path: files[path] * 2})
    faults = [each.fault for each in seen(twice, path) if each.fault]
    assert "was to come" in faults[0]


def test_only_the_offsets_asked_for_are_shown(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk(files)
    paths = dump.segments(disk, "data/one-0", 20, 40)
    shown = [
        each
        for path in paths
        for each in dump.batches(disk, path, 20, 40)
        if isinstance(each, SeenBatch)
    ]
    every = [header for path in logs(files) for _, header in headers(files[path])]
    assert [each.header for each in shown] == [
        header for header in every if header.last_offset >= 20 and header.base_offset <= 40
    ]
    assert len(paths) < len(logs(files))


def test_records_are_decoded_in_every_codec(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk(files)
    every = [each for path in logs(files) for each in seen(disk, path)]
    assert {each.header.codec for each in every} == {0, 1, 2, 3, 4}
    for each in every:
        records = list(dump.records_of(disk, each))
        assert len(records) == each.header.record_count
        assert records[-1].offset == each.header.last_offset


def test_every_other_file_is_shown_entry_by_entry(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk(files)
    counts = {path: len(list(dump.rows(disk, path))) for path in files if not path.endswith(".log")}
    for path, count in counts.items():
        if path.endswith(".index"):
            assert count == len(files[path]) // OFFSET_ENTRY.size
        elif path.endswith(".timeindex"):
            assert count == len(files[path]) // TIME_ENTRY.size
        elif path.endswith(".txnindex"):
            assert count == len(files[path]) // aborted.ENTRY_BYTES
    assert counts["data/recovery-point-offset-checkpoint"] == 2
    assert counts["data/one-0/leader-epoch-checkpoint"] == 3
    assert counts["data/.kafka_cleanshutdown"] == 1
    assert any(count == 2 for path, count in counts.items() if path.endswith(".snapshot"))


def test_an_index_shows_true_offsets_and_positions(files: Files, on_disk: OnDisk) -> None:
    path = logs(files)[1]
    there = {(header.last_offset, position) for position, header in headers(files[path])}
    rows = list(dump.rows(on_disk(files), path[:-4] + ".index"))
    assert rows
    assert {(row["last_offset"], row["position"]) for row in rows} <= there


def test_what_is_no_file_of_a_log_is_refused(files: Files, on_disk: OnDisk) -> None:
    disk = on_disk({**files, "data/notes": b"", "data/one-0/00000000000000000000.snapshot": b"x"})
    with pytest.raises(dump.NothingToShow, match="notes"):
        list(dump.rows(disk, "data/notes"))
    with pytest.raises(DamagedFile, match="snapshot"):
        list(dump.rows(disk, "data/one-0/00000000000000000000.snapshot"))
