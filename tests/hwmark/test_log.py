"""`hwmark log` as its user meets it: what it prints, and the status it ends with."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hwmark.cli import app
from hwmark.log_dump import shown, time_text
from storage.batch.build import build
from storage.batch.header import assign, headers, split
from storage.batch.records import Record
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.folder_lock import FolderLock
from storage.disk.posix import PosixDisk
from storage.log import flushing
from storage.log.config import LogConfig
from storage.log.index import IndexCache
from storage.log.marks import FolderMarks
from storage.log.recovery import create_log

CONFIG = LogConfig(segment_bytes=4096, index_interval_bytes=500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log folder with two partitions of some segments, all durable."""
    path = tmp_path / "logs"
    path.mkdir()
    disk, marks = PosixDisk(), FolderMarks(PosixDisk(), str(path))
    for number in range(2):
        partition = TopicPartition("t", number)
        where = str(path / partition.folder_name)
        log = create_log(disk, IndexCache(), partition, where, CONFIG, marks)
        for turn in range(120):
            records = [Record(0, 1_700_000_000_000 + turn, b"key", b"\x1b[31mred\xff")]
            log.append([assign(split(build(records))[0], log.end_offset, 1)])
        jobs.run(flushing.flush(log))
    jobs.run(marks.save())
    disk.close()
    return path


def damage(folder: Path) -> tuple[Path, int, int]:
    """Let a bit rot; return the file, and the position and the offset of its batch."""
    path = sorted(folder.joinpath("t-1").glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    position, header = list(headers(bytes(content)))[3]
    content[position + 70] ^= 4
    path.write_bytes(content)
    return path, position, header.base_offset


def hwmark(*arguments: object, answer: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["log", *map(str, arguments)], input=answer)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def test_a_sound_folder_is_fine(folder: Path) -> None:
    status, output, _ = hwmark("verify", folder)
    assert status == 0
    assert "t-0" in output
    assert "t-1" in output
    assert "damage" not in output


def test_damage_is_told_with_file_place_reason_and_advice(folder: Path) -> None:
    path, position, offset = damage(folder)
    status, output, _ = hwmark("verify", folder)
    assert status == 1
    assert f"damage: {path}, byte {position}, offset {offset}\n" in output
    assert "the checksum does not fit the bytes" in output
    assert "hwmark log repair --truncate" in output
    status, output, _ = hwmark("verify", folder, "--partition", "t-0")
    assert status == 0


def test_json_tells_the_same(folder: Path) -> None:
    path, position, offset = damage(folder)
    status, output, _ = hwmark("verify", folder / "t-1", "--json")
    report = json.loads(output)
    assert status == 1
    assert report["verdict"] == "damaged"
    (partition,) = report["partitions"]
    assert (partition["topic"], partition["partition"], partition["verdict"]) == ("t", 1, "damaged")
    (finding,) = partition["findings"]
    assert (finding["level"], finding["file"]) == ("damage", str(path))
    assert (finding["position"], finding["offset"]) == (position, offset)


def test_a_repair_says_what_goes_asks_and_does_nothing_without_a_yes(folder: Path) -> None:
    path, position, offset = damage(folder)
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    status, output, _ = hwmark("repair", folder, "--truncate", answer="n\n")
    assert status == 1
    assert f"offsets from {offset} to 119" in output
    assert f"{path.name} is cut to {position:,} bytes" in output
    assert str(folder / "t-1.removed" / "1") in output
    after = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    assert before.items() <= after.items()
    assert {each.name for each in after.keys() - before.keys()} == {".lock"}


def test_a_repair_that_is_wanted_leaves_a_sound_folder(folder: Path) -> None:
    path, position, _ = damage(folder)
    content = path.read_bytes()
    status, output, _ = hwmark("repair", folder, "--truncate", answer="y\n")
    assert status == 0
    assert "fine" in output
    assert path.read_bytes() == content[:position]
    kept = folder / "t-1.removed" / "1" / f"{path.name}.from-{position}"
    assert kept.read_bytes() == content[position:]
    assert "WRONG" in hwmark("dump", kept)[1]
    assert hwmark("verify", folder)[0] == 0
    status, output, _ = hwmark("repair", folder, "--truncate")
    assert (status, output) == (0, "nothing is wrong, and nothing was done\n")


def test_a_repair_in_json_asks_nothing(folder: Path) -> None:
    _, _, offset = damage(folder)
    status, output, _ = hwmark("repair", folder, "--truncate", "--json")
    told = json.loads(output)
    assert status == 0
    assert told["done"]["partitions"][0]["loss"]["first_offset"] == offset
    assert told["after"]["verdict"] == "fine"


def test_a_dump_shows_batches_and_records_safely(folder: Path) -> None:
    status, output, _ = hwmark("dump", folder, "--partition", "t-0", "--from-offset", 5)
    assert status == 0
    first = output.splitlines()[2].split()
    assert first[0] == "5-5"
    assert first[-1] == "ok"
    status, output, _ = hwmark("dump", folder / "t-0", "--to-offset", 5, "--records")
    assert status == 0
    assert r'"key" = "\x1b[31mred\xff"' in output
    assert "\x1b" not in output
    assert "6-6" not in output


def test_a_dump_in_json_is_one_object_a_line(folder: Path) -> None:
    damage(folder)
    _, output, _ = hwmark("dump", folder / "t-1", "--json", "--records")
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["crc"] for row in rows if row["kind"] == "batch"].count("wrong") == 1
    assert len([row for row in rows if row["kind"] == "record"]) == 119


def test_a_dump_shows_any_file(folder: Path) -> None:
    for name, expected in (
        ("t-0/00000000000000000000.index", "last offset"),
        ("t-0/00000000000000000000.timeindex", "timestamp ms"),
        ("t-0/leader-epoch-checkpoint", "start offset"),
        ("recovery-point-offset-checkpoint", "120"),
        ("t-0/00000000000000000000.log", "position"),
    ):
        status, output, _ = hwmark("dump", folder / name)
        assert status == 0
        assert expected in output


@pytest.mark.parametrize("command", [("verify",), ("repair", "--truncate"), ("dump",)])
def test_a_folder_in_use_is_refused(folder: Path, command: tuple[str, ...]) -> None:
    with FolderLock(str(folder), "broker 7"):
        status, _, error = hwmark(*command, folder)
        assert status == 2
        assert "in use by broker 7" in error
        assert hwmark("dump", folder, "--live")[0] == 0
        assert hwmark("dump", folder / "t-0" / "leader-epoch-checkpoint")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("verify", "nowhere"), "nowhere: there is no such folder"),
        (("dump", "nowhere"), "nowhere"),
        (("verify", "{folder}", "--partition", "t-9"), "there is no partition t-9"),
        (("repair", "{folder}"), "say --truncate"),
        (("dump", "{folder}/notes"), "no file of a log"),
        (("verify", "{folder}/.."), "neither a log folder nor"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    folder: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    folder.joinpath("notes").touch()
    status, output, error = hwmark(*(each.format(folder=folder) for each in arguments))
    assert (status, output) == (2, "")
    assert complaint in error
    assert error.count("\n") == 1


def test_a_reader_that_has_seen_enough_ends_a_dump_quietly(folder: Path) -> None:
    big = folder / "t-0" / "00000000000000000000.log"
    big.write_bytes(big.read_bytes() * 400)
    command = [sys.executable, "-c", "from hwmark.cli import main; main()", "log", "dump"]
    with subprocess.Popen(
        [*command, str(big)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as dumping:
        assert dumping.stdout is not None
        assert dumping.stderr is not None
        assert dumping.stdout.readline().endswith(b" bytes\n")
        dumping.stdout.close()
        assert dumping.stderr.read() == b""
        assert dumping.wait() == 141


def test_times_and_bytes_of_any_kind_can_be_shown() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(-1) == "-"
    assert time_text(2**62) == f"{2**62} ms"
    assert shown(None) is None
    assert shown("größer".encode()) == "größer"
    assert shown(b"\x00\r\n\xfe") == r"\x00\r\n\xfe"
    assert shown(b"x" * 1000) == "x" * 60 + "... (1,000 bytes)"


def seen_on_a_terminal(arguments: list[str], output: Path) -> str:
    """Run a command whose standard error is a terminal and whose output is a file."""
    terminal, ours = pty.openpty()
    with output.open("wb") as file:
        command = [str(Path(sys.executable).with_name("hwmark")), "log", *arguments]
        environment = os.environ | {"TERM": "xterm"}
        process = subprocess.Popen(
            command, stdout=file, stderr=ours, stdin=subprocess.DEVNULL, env=environment
        )
    os.close(ours)
    shown = b""
    # A terminal that everybody has left reads as an error.
    with suppress(OSError):
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    assert process.wait() == 0
    return shown.decode("utf-8", "replace")


@pytest.mark.parametrize(("command", "word"), [("dump", "dumping"), ("verify", "verifying")])
def test_long_work_shows_a_bar_on_a_terminal(
    folder: Path, tmp_path: Path, command: str, word: str
) -> None:
    shown = seen_on_a_terminal([command, str(folder)], tmp_path / "output")
    assert word in shown
    assert "kB" in shown or "KiB" in shown or "bytes" in shown
    assert word not in (tmp_path / "output").read_text(encoding="utf-8")
