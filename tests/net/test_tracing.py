"""The file of a trace: whole lines, at once, and after a restart the rest."""

import json
from pathlib import Path

import pytest

from net.tracing import TraceFile


def test_a_line_is_in_the_file_when_it_is_written(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path / "new" / "folder"), "trace-1")
    path = tmp_path / "new" / "folder" / "trace-1.ndjson"
    for number in range(3):
        file.write({"seq": number, "what": "ä\n"})
        assert len(lines(path)) == number + 1
    file.close()
    found = [json.loads(line) for line in lines(path)]
    assert found == [{"seq": number, "what": "ä\n"} for number in range(3)]


def lines(path: Path) -> list[str]:
    """The lines of a file, as its readers take them: empty ones mean nothing."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def test_a_restart_goes_on_in_the_same_file_behind_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "trace-1.ndjson"
    path.write_text('{"seq":0}\n{"seq":')
    file = TraceFile(str(tmp_path), "trace-1")
    file.write({"seq": 1})
    file.close()
    assert lines(path) == ['{"seq":0}', '{"seq":', '{"seq":1}']


def test_a_file_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(OSError, match="a file"):
        TraceFile(str(tmp_path / "a file"), "trace-1")
