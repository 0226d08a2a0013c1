"""Whatever is done to real files and to simulated ones, both show the same."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.disk.faults import Faults
from storage.disk.posix import PosixDisk
from storage.disk.seam import Disk, PinnedFile
from storage.disk.simulated import SimulatedDisk

PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f"])
SIZES = st.one_of(st.integers(0, 1500), st.sampled_from([0, 511, 512, 513, 1024]))
BUFFERS = st.lists(st.binary(max_size=700), max_size=3)


def on_path(name: str) -> st.SearchStrategy[tuple[object, ...]]:
    """An operation that takes nothing but a path."""
    return st.tuples(st.just(name), PATHS)


STEPS = st.one_of(
    on_path("create"),
    on_path("make_folder"),
    st.tuples(st.just("write"), PATHS, BUFFERS, SIZES),
    st.tuples(st.just("read"), PATHS, SIZES, SIZES),
    st.tuples(st.just("truncate"), PATHS, SIZES),
    st.tuples(st.just("rename"), PATHS, PATHS),
    on_path("pin"),
    st.tuples(st.just("read_pin"), st.integers(0, 3), SIZES, SIZES),
    st.tuples(st.just("release"), st.integers(0, 3)),
    *map(on_path, ["delete", "delete_folder", "fsync", "fsync_folder", "size", "exists", "list"]),
)


def do(disk: Disk, folder: str, pins: list[PinnedFile], step: tuple[object, ...]) -> object:
    """Take one step, and return what came of it in a form that can be compared."""
    name, first, *rest = step
    try:
        if name in ("read_pin", "release"):
            return _use_pin(pins, *step)
        arguments = [f"{folder}/{first}", *rest]
        if name == "rename":
            arguments[1] = f"{folder}/{rest[0]}"
        result = getattr(disk, str(name))(*arguments)
        if name != "pin":
            return result
        pins.append(result)
    except OSError as error:
        return error.errno
    return "pinned"


def _use_pin(pins: list[PinnedFile], name: object, which: object, *place: object) -> object:
    if not isinstance(which, int) or which >= len(pins):
        return None
    return getattr(pins[which], "read" if name == "read_pin" else "release")(*place)


def shown(disk: Disk, path: str) -> object:
    """Return everything in a folder."""
    if disk.is_folder(path):
        return {name: shown(disk, f"{path}/{name}") for name in disk.list(path)}
    return bytes(disk.read(path, 0, disk.size(path)))


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_a_simulated_disk_shows_what_real_files_show(steps: list[tuple[object, ...]]) -> None:
    """With room for two open files, so that most operations find theirs closed or reopened."""
    real, simulated = PosixDisk(max_open_files=2), SimulatedDisk(seed=0)
    simulated.make_folder("/data")
    real_pins: list[PinnedFile] = []
    simulated_pins: list[PinnedFile] = []
    with tempfile.TemporaryDirectory() as folder:
        for step in steps:
            expected = do(real, folder, real_pins, step)
            assert do(simulated, "/data", simulated_pins, step) == expected, step
            assert shown(simulated, "/data") == shown(real, folder), step
        real.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 9))
def test_short_reads_and_writes_are_made_up_for(steps: list[tuple[object, ...]], seed: int) -> None:
    whole = SimulatedDisk(seed)
    hasty = SimulatedDisk(seed, Faults(short_reads=0.5, short_writes=0.5))
    for disk in (whole, hasty):
        disk.make_folder("/data")
    pins: tuple[list[PinnedFile], list[PinnedFile]] = ([], [])
    for step in steps:
        assert do(hasty, "/data", pins[0], step) == do(whole, "/data", pins[1], step)
    assert hasty.files() == whole.files()
