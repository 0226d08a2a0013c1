"""What a killed broker may say of its logs: its epoch if the system has not gone down since."""

import json

import pytest

from net.broker.running import FILE_NAME, boot_id, epoch_that_lost_nothing, note_running
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk

FOLDERS = ("one", "two")


def noted(boot: str = "b", epoch: int = 7) -> SimulatedDisk:
    disk = SimulatedDisk(1)
    for folder in FOLDERS:
        disk.make_folder(folder)
    jobs.run(note_running(disk, FOLDERS, epoch, boot))
    return disk


def put(disk: SimulatedDisk, folder: str, content: bytes) -> None:
    path = f"{folder}/{FILE_NAME}"
    disk.create(path)
    disk.write(path, (content,), 0)


def test_in_the_same_boot_nothing_was_lost() -> None:
    assert epoch_that_lost_nothing(noted(), FOLDERS, "b") == 7


def test_in_another_boot_nobody_can_tell() -> None:
    assert epoch_that_lost_nothing(noted(), FOLDERS, "c") == 0


def test_where_boots_have_no_name_nobody_can_tell() -> None:
    assert epoch_that_lost_nothing(noted(boot=""), FOLDERS, "") == 0


def test_a_folder_without_a_note_may_have_lost_everything() -> None:
    disk = noted()
    disk.delete(f"two/{FILE_NAME}")
    assert epoch_that_lost_nothing(disk, FOLDERS, "b") == 0


def test_a_folder_of_another_incarnation_may_have_lost_something() -> None:
    disk = noted()
    jobs.run(note_running(disk, ("two",), 6, "b"))
    assert epoch_that_lost_nothing(disk, FOLDERS, "b") == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        json.dumps({"version": 1, "boot": "b"}).encode(),
        json.dumps({"version": 2, "boot": "b", "broker_epoch": 7}).encode(),
        json.dumps({"version": 1, "boot": "b", "broker_epoch": "7"}).encode(),
        json.dumps({"version": 1, "boot": "b", "broker_epoch": True}).encode(),
        json.dumps({"version": 1, "boot": "b", "broker_epoch": -7}).encode(),
    ],
)
def test_a_damaged_note_says_nothing(content: bytes) -> None:
    disk = noted()
    put(disk, "one", content)
    put(disk, "two", content)
    assert epoch_that_lost_nothing(disk, FOLDERS, "b") == 0


def test_this_boot_keeps_its_name() -> None:
    assert boot_id() == boot_id()
