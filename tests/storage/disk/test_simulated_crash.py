"""What a crash of the simulated disk may leave, what it must leave, and that all of it happens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.disk.faults import Faults
from storage.disk.simulated import SimulatedDisk

SEEDS = range(300)
LOG = "/data/log"
WHOLE = Faults()
TORN = Faults(torn_sectors=True)


def new_disk(faults: Faults = WHOLE) -> SimulatedDisk:
    """Return a disk with a durable folder."""
    disk = SimulatedDisk(0, faults)
    disk.make_folder("/data")
    disk.fsync_folder("/")
    return disk


def with_file(content: bytes, faults: Faults = WHOLE) -> SimulatedDisk:
    """Return a disk with a durable file."""
    disk = new_disk(faults)
    disk.create(LOG)
    disk.write(LOG, [content], 0)
    disk.fsync(LOG)
    disk.fsync_folder("/data")
    return disk


def contents(disk: SimulatedDisk) -> set[bytes | None]:
    """Return all that the file may be after a crash; None is no file."""
    return {disk.crash(seed).files().get(LOG) for seed in SEEDS}


def names(disk: SimulatedDisk) -> set[tuple[str, ...]]:
    """Return all that the names may be after a crash."""
    return {tuple(disk.crash(seed).files()) for seed in SEEDS}


def test_what_was_synced_survives_every_crash() -> None:
    disk = with_file(b"bytes" * 1000)
    assert contents(disk) == {b"bytes" * 1000}


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["write", "truncate", "rename", "delete", "create", "sync"]),
            st.integers(0, 3),
            st.integers(0, 3),
            st.integers(0, 2000),
        ),
        max_size=30,
    ),
    seed=st.integers(0, 1000),
)
def test_whatever_happened_it_survives_once_all_is_synced(
    steps: list[tuple[str, int, int, int]], seed: int
) -> None:
    disk = new_disk(TORN)
    disk.make_folder("/data/sub")
    paths = ["/data/a", "/data/b", "/data/sub/a", "/data/sub/b"]
    folders = ["/", "/data", "/data/sub"]
    for operation, first, second, number in steps:
        if operation == "rename" and disk.exists(paths[first]):
            disk.rename(paths[first], paths[second])
        elif operation in ("create", "delete"):
            getattr(disk, operation)(paths[first])
        elif operation == "sync":
            disk.fsync_folder(folders[second % 3])
        elif disk.exists(paths[first]) and operation == "write":
            disk.write(paths[first], [bytes([second + 1]) * number], number // 2)
        elif disk.exists(paths[first]) and operation == "truncate":
            disk.truncate(paths[first], number)
    expected = disk.files()
    for path in expected:
        disk.fsync(path)
    for folder in folders:
        disk.fsync_folder(folder)
    assert disk.crash(seed).files() == expected
    assert disk.crash(seed).crash(seed).files() == expected


def test_the_same_seed_leaves_the_same() -> None:
    disk = with_file(b"a" * 3000, TORN)
    disk.write(LOG, [b"b" * 3000], 1000)
    disk.create("/data/other")
    disk.rename(LOG, "/data/renamed")
    left = [disk.crash(seed).files() for seed in SEEDS]
    assert left == [disk.crash(seed).files() for seed in SEEDS]
    assert len({tuple(files.items()) for files in left}) > 50


def test_a_crash_leaves_the_crashed_disk_as_it_was() -> None:
    disk = with_file(b"old")
    disk.crash(0).write(LOG, [b"zzz"], 0)
    assert disk.files() == {LOG: b"old"}
    disk.write(LOG, [b"new"], 0)
    for seed in SEEDS:
        disk.crash(seed).write(LOG, [b"zzz"], 0)
    assert disk.files() == {LOG: b"new"}
    assert contents(disk) == {b"old", b"new"}


def test_each_sector_that_was_not_synced_is_kept_or_lost_by_itself() -> None:
    disk = with_file(b"o" * 1536)
    disk.write(LOG, [b"n" * 1536], 0)
    old, new = b"o" * 512, b"n" * 512
    every = {a + b + c for a in (old, new) for b in (old, new) for c in (old, new)}
    assert contents(disk) == every


def test_a_write_touches_no_other_sector() -> None:
    disk = with_file(b"o" * 1536)
    disk.write(LOG, [b"n"], 700)
    assert contents(disk) == {b"o" * 1536, b"o" * 700 + b"n" + b"o" * 835}


def test_an_append_may_leave_any_size_and_zeros_for_what_was_lost() -> None:
    disk = with_file(b"o" * 512)
    disk.write(LOG, [b"n" * 1024], 512)
    left = contents(disk)
    assert {b"o" * 512, b"o" * 512 + b"n" * 1024} <= left
    assert b"o" * 512 + bytes(512) + b"n" * 512 in left
    assert b"o" * 512 + bytes(1024) in left
    assert any(content and 512 < len(content) < 1536 for content in left)
    for content in left:
        assert content is not None
        assert 512 <= len(content) <= 1536
        assert content[:512] == b"o" * 512
        for start in (512, 1024):
            sector = content[start : start + 512]
            assert sector in (b"n" * len(sector), bytes(len(sector)))


def test_an_append_into_a_durable_sector_keeps_what_was_durable() -> None:
    disk = with_file(b"o" * 100, TORN)
    disk.write(LOG, [b"n" * 100], 100)
    for content in contents(disk):
        assert content is not None
        assert content[:100] == b"o" * 100


def test_a_hole_in_front_of_a_write_reads_as_zeros() -> None:
    disk = with_file(b"o" * 10)
    disk.write(LOG, [b"n"], 2000)
    for content in contents(disk):
        assert content is not None
        assert content[:10] == b"o" * 10
        assert not any(content[10:2000])


def test_a_torn_sector_begins_new_and_ends_old() -> None:
    disk = with_file(b"o" * 512, TORN)
    disk.write(LOG, [b"n" * 512], 0)
    left = contents(disk)
    assert {b"o" * 512, b"n" * 512} < left
    for content in left:
        assert content == b"n" * content.count(b"n") + b"o" * content.count(b"o")  # type: ignore[union-attr]


def test_without_that_fault_no_sector_is_torn() -> None:
    disk = with_file(b"o" * 512)
    disk.write(LOG, [b"n" * 512], 0)
    assert contents(disk) == {b"o" * 512, b"n" * 512}


def test_a_cut_that_was_not_synced_may_be_undone() -> None:
    before = bytes(range(256)) * 6
    disk = with_file(before)
    disk.truncate(LOG, 700)
    left = contents(disk)
    assert {before, before[:700]} <= left
    assert any(content and 700 < len(content) < 1536 for content in left)
    assert all(content is not None and before.startswith(content) for content in left)


def test_zeros_behind_a_cut_may_be_there_before_the_new_size_is() -> None:
    disk = with_file(b"o" * 1536, TORN)
    disk.truncate(LOG, 700)
    left = contents(disk)
    assert b"o" * 700 + bytes(324) + b"o" * 512 in left
    for content in left:
        assert content is not None
        assert content[:700] + content[1024:] == b"o" * (700 + len(content[1024:]))


def test_what_was_cut_and_written_anew_may_mix_with_what_was_there() -> None:
    disk = with_file(b"o" * 1536)
    disk.truncate(LOG, 0)
    disk.write(LOG, [b"n" * 1024], 0)
    left = contents(disk)
    assert b"n" * 512 + b"o" * 1024 in left
    assert b"o" * 512 + b"n" * 512 + b"o" * 512 in left
    assert b"n" * 1024 in left
    assert b"o" * 1536 in left


def test_a_synced_cut_is_never_undone() -> None:
    disk = with_file(b"o" * 1536)
    disk.truncate(LOG, 700)
    disk.fsync(LOG)
    disk.write(LOG, [b"n" * 1000], 700)
    for content in contents(disk):
        assert content is not None
        assert content.count(b"o") == 700


def test_a_synced_file_without_a_synced_name_may_vanish() -> None:
    disk = new_disk()
    disk.create(LOG)
    disk.write(LOG, [b"bytes"], 0)
    disk.fsync(LOG)
    assert contents(disk) == {None, b"bytes"}


def test_a_synced_name_without_synced_bytes_may_be_an_empty_file() -> None:
    disk = new_disk()
    disk.create(LOG)
    disk.write(LOG, [b"bytes"], 0)
    disk.fsync_folder("/data")
    assert {b"", b"bytes", bytes(5)} <= contents(disk)
    assert None not in contents(disk)


def test_any_subset_of_the_changes_of_names_survives() -> None:
    disk = new_disk()
    for name in "abc":
        disk.create(f"/data/{name}")
    every = {
        tuple(f"/data/{name}" for name in "abc" if name in subset)
        for subset in ("", "a", "b", "c", "ab", "ac", "bc", "abc")
    }
    assert names(disk) == every


def test_a_rename_is_all_or_nothing() -> None:
    disk = with_file(b"old")
    disk.create("/data/swap")
    disk.write("/data/swap", [b"new"], 0)
    disk.fsync("/data/swap")
    disk.fsync_folder("/data")
    disk.rename("/data/swap", LOG)
    left = {tuple(disk.crash(seed).files().items()) for seed in SEEDS}
    assert left == {((LOG, b"old"), ("/data/swap", b"new")), ((LOG, b"new"),)}


def test_a_rename_of_a_file_that_was_never_there_is_skipped() -> None:
    """The file's creation is lost, and an older one of the same name must not be taken for it."""
    disk = new_disk()
    disk.create("/data/swap")
    disk.write("/data/swap", [b"stale"], 0)
    disk.fsync("/data/swap")
    disk.fsync_folder("/data")
    disk.delete("/data/swap")
    disk.create("/data/swap")
    disk.write("/data/swap", [b"fresh"], 0)
    disk.fsync("/data/swap")
    disk.rename("/data/swap", LOG)
    assert contents(disk) == {None, b"fresh"}
    assert names(disk) == {(), ("/data/swap",), (LOG,)}


def test_a_change_that_does_not_fit_what_is_left_takes_no_other_file_away() -> None:
    """The durable file is under its old or its new name, whichever changes are lost around it."""
    disk = new_disk()
    disk.make_folder("/data/sub")
    disk.create("/data/sub/kept")
    disk.fsync_folder("/data/sub")
    disk.fsync_folder("/data")
    disk.rename("/data/sub/kept", "/data/sub/moved")
    disk.create("/data/sub/kept")
    disk.rename("/data/sub/kept", "/data/sub/other")
    assert all({"/data/sub/kept", "/data/sub/moved"} & set(left) for left in names(disk))
    disk.delete("/data/sub/other")
    disk.rename("/data/sub/moved", "/data/moved")
    disk.delete_folder("/data/sub")
    disk.create("/data/sub")
    kept = {"/data/sub/kept", "/data/sub/moved", "/data/moved"}
    assert all(kept & set(left) for left in names(disk))
    assert ("/data/moved", "/data/sub") in names(disk)


def test_a_folder_renamed_over_another_takes_no_file_away() -> None:
    disk = new_disk()
    for folder in ("/data/full", "/data/empty"):
        disk.make_folder(folder)
    disk.create("/data/full/kept")
    disk.fsync_folder("/data/full")
    disk.fsync_folder("/data")
    disk.rename("/data/full/kept", "/data/moved")
    disk.rename("/data/empty", "/data/full")
    assert names(disk) == {("/data/full/kept",), ("/data/moved",)}


def test_what_follows_a_crash_is_not_durable_by_itself() -> None:
    disk = with_file(b"old").crash(0)
    disk.create("/data/other")
    disk.write(LOG, [b"new"], 0)
    assert names(disk) == {(LOG,), (LOG, "/data/other")}
    assert contents(disk) == {b"old", b"new"}


def test_a_deletion_that_was_not_synced_may_be_undone() -> None:
    disk = with_file(b"bytes")
    disk.delete(LOG)
    assert contents(disk) == {None, b"bytes"}
    disk.fsync_folder("/data")
    assert contents(disk) == {None}


def test_a_folder_whose_name_was_not_synced_takes_its_files_with_it() -> None:
    disk = SimulatedDisk(0)
    disk.make_folder("/data")
    disk.create(LOG)
    disk.write(LOG, [b"bytes"], 0)
    disk.fsync(LOG)
    disk.fsync_folder("/data")
    assert contents(disk) == {None, b"bytes"}
    disk.fsync_folder("/")
    assert contents(disk) == {b"bytes"}


def test_syncing_one_folder_does_nothing_for_another() -> None:
    disk = new_disk()
    disk.make_folder("/data/sub")
    disk.fsync_folder("/data")
    disk.create(LOG)
    disk.create("/data/sub/log")
    disk.fsync_folder("/data/sub")
    assert names(disk) == {("/data/sub/log",), (LOG, "/data/sub/log")}


def test_a_folder_made_anew_is_durable_with_its_parent() -> None:
    """Though the deletions inside the one before were never synced by themselves."""
    disk = new_disk()
    disk.make_folder("/data/sub")
    disk.create("/data/sub/old")
    disk.fsync_folder("/data/sub")
    disk.fsync_folder("/data")
    disk.delete("/data/sub/old")
    disk.delete_folder("/data/sub")
    disk.make_folder("/data/sub")
    disk.create("/data/sub/new")
    disk.fsync_folder("/data/sub")
    disk.fsync_folder("/data")
    assert names(disk) == {("/data/sub/new",)}


def test_a_rename_between_folders_is_durable_with_either() -> None:
    for synced in ("/data", "/data/sub"):
        disk = new_disk()
        disk.make_folder("/data/sub")
        disk.fsync_folder("/data")
        disk.create(LOG)
        disk.rename(LOG, "/data/sub/log")
        assert names(disk) == {(), (LOG,), ("/data/sub/log",)}
        disk.fsync_folder(synced)
        assert names(disk) == {("/data/sub/log",)}


def test_a_killed_process_loses_nothing_and_gains_no_durability() -> None:
    disk = with_file(b"o" * 512)
    disk.write(LOG, [b"n" * 512], 0)
    disk.create("/data/other")
    successor = disk.kill()
    assert successor.files() == disk.files()
    left = {tuple(successor.crash(seed).files().items()) for seed in SEEDS}
    old, new = (LOG, b"o" * 512), (LOG, b"n" * 512)
    assert left == {(old,), (new,), (old, ("/data/other", b"")), (new, ("/data/other", b""))}
    successor.fsync(LOG)
    successor.fsync_folder("/data")
    assert names(successor) == {(LOG, "/data/other")}
    assert contents(successor) == {b"n" * 512}
    assert contents(disk) == {b"o" * 512, b"n" * 512}
