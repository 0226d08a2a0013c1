"""Whatever happens to a byte of a folder: `verify` sees it, or may not, and `repair` mends it."""

from collections.abc import Callable

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

from storage.batch.header import headers
from storage.checkpoint import RECOVERY_POINTS, decode_offsets
from storage.disk.simulated import SimulatedDisk
from storage.inspect import place, repair
from storage.inspect.findings import FolderReport, Level
from storage.inspect.verify import verify
from storage.log.log import Log

Files = dict[str, bytes]
ORDERED_BYTES = {*range(8), *range(12, 16)}
"""Base offset and leader epoch, which no checksum covers."""


@attrs.frozen
class Damage:
    """What happens to one file; `place` is a share of its size."""

    state: str
    file: int
    kind: str
    place: float
    length: int

    def path(self, files: Files) -> str:
        return sorted(files)[self.file % len(files)]

    def position(self, files: Files) -> int:
        return min(int(len(files[self.path(files)]) * self.place), len(files[self.path(files)]))

    def done_to(self, files: Files) -> Files:
        path, at = self.path(files), self.position(files)
        content = bytearray(files[path])
        if self.kind == "delete":
            return {each: files[each] for each in files if each != path}
        if self.kind == "flip" and at < len(content):
            content[at] ^= 1 << self.length % 8
        elif self.kind == "cut":
            del content[at:]
        elif self.kind == "zero":
            content[at : at + self.length] = bytes(len(content[at : at + self.length]))
        elif self.kind == "garbage":
            content += bytes((each * 37 + 11) % 256 for each in range(self.length))
        return {**files, path: bytes(content)}


damages = st.builds(
    Damage,
    st.sampled_from(["clean", "crash"]),
    st.integers(0, 100),
    st.sampled_from(["flip", "flip", "cut", "delete", "zero", "garbage"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 100),
)


def look(disk: SimulatedDisk) -> FolderReport:
    return verify(disk, place.find(disk, "data"))


def starts(content: bytes) -> list[int]:
    return [position for position, _ in headers(content)]


@given(damages)
def test_what_is_left_after_a_repair_is_sound_and_has_every_batch_before_the_damage(
    folders: dict[str, Files],
    on_disk: Callable[[Files], SimulatedDisk],
    reopen: Callable[..., Log],
    damage: Damage,
) -> None:
    files = folders[damage.state]
    damaged = damage.done_to(files)
    disk = on_disk(damaged)
    repair.run(disk, repair.plan(disk, look(disk)))
    after = look(disk)
    assert after.sound, after.all_findings
    left = disk.files()
    for path in files:
        if path.endswith(".log"):
            kept = left.get(path, b"")
            assert damaged.get(path, b"").startswith(kept)
            assert kept + moved(left, path, len(kept)) == damaged.get(path, b"")
            if path < damage.path(files):
                assert kept == files[path] or not damage.path(files).startswith(path[:10])
    check_batches_before(damage, files, left)
    for name in ("one", "two"):
        log = reopen(disk, name)
        report = next(each for each in after.partitions if each.partition.topic == name)
        assert log.end_offset == max(report.end_offset, report.start_offset)


def moved(left: Files, path: str, kept_bytes: int) -> bytes:
    """What was removed of a segment, wherever it is kept."""
    folder, _, name = path.rpartition("/")
    return left.get(f"{folder}.removed/1/{name}.from-{kept_bytes}", b"") + left.get(
        f"{folder}.removed/1/{name}", b""
    )


def check_batches_before(damage: Damage, files: Files, left: Files) -> None:
    path, at = damage.path(files), damage.position(files)
    if not path.endswith(".log") or damage.kind == "delete":
        return
    if damage.kind == "garbage":
        at = len(files[path])
    before = [each for each in starts(files[path]) if each <= at]
    # An epoch that falls may as well have been the wrong one of the batch before.
    hit = at - before[-1] if before else 0
    keep = before[-2] if len(before) > 1 and hit in ORDERED_BYTES else (before or [0])[-1]
    assert left.get(path, b"")[:keep] == files[path][:keep]


@given(damages)
def test_no_damage_stops_it_from_reporting(
    folders: dict[str, Files], on_disk: Callable[[Files], SimulatedDisk], damage: Damage
) -> None:
    disk = on_disk(damage.done_to(folders[damage.state]))
    before = disk.files()
    report = verify(disk, place.find(disk, "data"), decode=True)
    report.to_json()
    assert disk.files() == before


@given(st.sampled_from(["clean", "crash"]), st.integers(0, 100), st.integers(0, 10**6))
@example("clean", 7, 0)
def test_a_flipped_bit_of_a_durable_batch_is_damage_at_its_batch(
    folders: dict[str, Files],
    on_disk: Callable[[Files], SimulatedDisk],
    state: str,
    file: int,
    bit: int,
) -> None:
    """All but offset and epoch, which are judged by their order, and seen with it below."""
    files = folders[state]
    segments = sorted(path for path in files if path.endswith(".log") and files[path])
    path = segments[file % len(segments)]
    content = bytearray(files[path])
    at, mask = bit // 8 % len(content), 1 << bit % 8
    start, header = [each for each in headers(bytes(content)) if each[0] <= at][-1]
    points = decode_offsets(files[f"data/{RECOVERY_POINTS}"], "")
    point = next(value for key, value in points.items() if key.folder_name in path)
    content[at] ^= mask
    report = look(on_disk({**files, path: bytes(content)}))
    found = [each for each in report.all_findings if each.level is Level.DAMAGE]
    if header.base_offset >= point:
        assert not found
    elif at - start not in ORDERED_BYTES:
        assert (found[0].file, found[0].position) == (path, start)
        assert found[0].offset == header.base_offset


@given(st.integers(0, 100), st.integers(0, 95), st.sampled_from(["clean", "crash"]))
def test_a_flipped_offset_or_epoch_is_seen_by_its_order(
    folders: dict[str, Files],
    on_disk: Callable[[Files], SimulatedDisk],
    batch: int,
    bit: int,
    state: str,
) -> None:
    """Of each batch but a log's last durable one, behind which nothing is in order."""
    files = folders[state]
    every = [
        (path, position)
        for path in sorted(files)
        if path.startswith("data/one-0") and path.endswith(".log")
        for position, header in headers(files[path])
        if header.leader_epoch < 4
    ]
    path, position = every[batch % (len(every) - 1)]
    at = position + sorted(ORDERED_BYTES)[bit // 8]
    content = bytearray(files[path])
    content[at] ^= 1 << bit % 8
    report = look(on_disk({**files, path: bytes(content)}))
    assert not report.sound
