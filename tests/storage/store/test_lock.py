"""A log folder has one user: a second broker, and tools that would change it, are turned away."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hwmark.cli import app
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.posix import PosixDisk
from storage.errors import DiskFailed
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.store import LogStore

PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig()


def opened(disk: PosixDisk, folder: Path) -> LogStore:
    store = LogStore(disk, [str(folder)])
    jobs.run(store.open(lambda _partition: CONFIG))
    return store


def test_a_folder_is_its_brokers_until_that_has_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    disk, other = PosixDisk(), PosixDisk()
    store = opened(disk, folder)
    jobs.run(store.create(NewLog(PARTITION, CONFIG)))
    with pytest.raises(DiskFailed, match=r"logs is in use by a broker \(process \d+\)"):
        opened(other, folder)
    verified = CliRunner().invoke(app, ["log", "verify", str(folder)])
    assert verified.exit_code == 2
    ended: list[Exception | None] = []
    store.close(1, ended.append)
    assert ended == [None]
    assert CliRunner().invoke(app, ["log", "verify", str(folder)]).exit_code == 0
    assert PARTITION in opened(other, folder).folders[0]
    disk.close()
    other.close()


def test_a_disk_that_is_closed_gives_its_folders_back(tmp_path: Path) -> None:
    """As the end of a process does, however it ends."""
    disk, other = PosixDisk(), PosixDisk()
    opened(disk, tmp_path / "logs")
    with pytest.raises(DiskFailed, match="is in use"):
        opened(other, tmp_path / "logs")
    disk.close()
    assert opened(other, tmp_path / "logs").folders[0].failure is None
    other.close()
