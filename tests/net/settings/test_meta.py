"""A node starts on its own folders and on no others."""

import uuid
from pathlib import Path

import pytest

from net.settings import (
    BadFolder,
    BadSetting,
    Meta,
    check_cluster_id,
    check_folders,
    format_folder,
    random_id,
    read_meta,
)
from storage.disk.jobs import run
from storage.disk.posix import PosixDisk
from storage.disk.simulated import SimulatedDisk

CLUSTER = "abcdefghijklmnopqrstuv"
OTHER = "ABCDEFGHIJKLMNOPQRSTUV"


def formatted(folder: Path, node: int = 1, cluster: str = CLUSTER) -> Meta:
    """Format a folder on the real disk."""
    return run(format_folder(PosixDisk(), str(folder), cluster, node))


def test_a_formatted_folder_says_whose_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    meta = formatted(folder)
    assert read_meta(PosixDisk(), str(folder)) == meta
    text = (folder / "meta.properties").read_text()
    assert text == (
        f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id={meta.directory_id}\n"
    )


def test_formatting_again_changes_nothing(tmp_path: Path) -> None:
    assert formatted(tmp_path) == formatted(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_formatted_survives_a_power_failure(seed: int) -> None:
    disk = SimulatedDisk(seed)
    meta = run(format_folder(disk, "a/b", CLUSTER, 1))
    disk = disk.crash(seed)
    assert read_meta(disk, "a/b") == meta


def test_kafkas_own_file_is_read(tmp_path: Path) -> None:
    lines = (
        "#",
        "#Tue Nov 18 05:00:00 UTC 2025",
        "node.id=1",
        "version=1",
        f"cluster.id={CLUSTER}",
    )
    (tmp_path / "meta.properties").write_text("\n".join(lines) + "\n")
    assert read_meta(PosixDisk(), str(tmp_path)) == Meta(CLUSTER, 1, "")


def test_a_folder_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    formatted(tmp_path / "a")
    formatted(tmp_path / "b", cluster=OTHER)
    formatted(tmp_path / "c", node=2)
    disk, a, b, c = PosixDisk(), *(str(tmp_path / name) for name in "abc")
    assert check_folders(disk, [a], 1)[0].cluster_id == CLUSTER
    with pytest.raises(BadFolder, match=f"belongs to cluster {OTHER}, not to {CLUSTER}"):
        check_folders(disk, [a, b], 1)
    with pytest.raises(BadFolder, match="belongs to node 2, not to node 1"):
        check_folders(disk, [a, c], 1)
    with pytest.raises(BadFolder, match="belongs to cluster"):
        formatted(tmp_path / "a", cluster=OTHER)
    with pytest.raises(BadFolder, match="belongs to node 1"):
        formatted(tmp_path / "a", node=2)


def test_a_folder_that_is_not_formatted_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match="not formatted: run `hwmark format"):
        read_meta(PosixDisk(), str(tmp_path))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe", "does not read as properties"),
        (b"version=1\nversion=1\n", "was set in line 1"),
        (b"version=0\ncluster.id=x\nnode.id=1\n", "version=0, where only 1"),
        (b"version=1\nnode.id=1\n", "has no cluster.id"),
        (b"version=1\ncluster.id=x\nnode.id=one\n", "which is no number"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(BadFolder, match=told):
        read_meta(PosixDisk(), str(tmp_path))


def test_an_id_has_22_characters_and_no_leading_dash() -> None:
    dash, fine = uuid.UUID(int=0xF8 << 120), uuid.UUID(int=1)
    draws = iter([dash, fine])
    assert random_id(lambda: next(draws)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert check_cluster_id(random_id())
    for bad in ("", "short", "-bcdefghijklmnopqrstuv", "a" * 23, "a" * 21 + "/"):
        with pytest.raises(BadSetting, match="22 characters"):
            check_cluster_id(bad)
