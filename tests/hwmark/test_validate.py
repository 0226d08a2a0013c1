"""`hwmark validate` as its user meets it: what it prints, and the status it ends with."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hwmark.cli import app
from spec.conformance.tracing.plan import Plan
from spec.conformance.tracing.recording import Recording

Json = dict[str, Any]


def recorded() -> list[Json]:
    return Recording(Plan(seed=5, lines=250, fault_every_ms=100)).run()


def lags(line: Json) -> bool:
    """Whether there is more in a log than is committed."""
    state = line.get("state")
    return state is not None and bool(0 < state["hw"] < state["end"])


def written(folder: Path, lines: list[Json]) -> str:
    path = folder / "trace.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.tlc
def test_the_command_tells_the_verdict(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["validate", written(tmp_path, recorded())])
    assert result.exit_code == 0
    assert "accepted" in result.stdout


@pytest.mark.tlc
def test_the_command_shows_what_is_wrong(tmp_path: Path) -> None:
    lines = recorded()
    at = next(
        at for at, line in enumerate(lines) if line["action"] == "LeaderHandleFetch" and lags(line)
    )
    lines[at]["state"]["hw"] = lines[at]["state"]["end"]
    result = CliRunner().invoke(app, ["validate", "--json", written(tmp_path, lines)])
    assert result.exit_code == 1
    (told,) = json.loads(result.stdout)
    assert told["verdict"] == "rejected"
    assert told["rejection"]["line"] == f"trace.ndjson:{at + 1}"
    assert any(reason.startswith("hw: the spec has") for reason in told["rejection"]["reasons"])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "the trace is empty"), ("\n{}\n", "trace.ndjson:2: has format None")],
)
def test_the_command_refuses_what_is_no_trace(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "trace.ndjson"
    path.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(path)])
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_the_command_refuses_a_missing_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["validate", str(tmp_path / "gone.ndjson")])
    assert result.exit_code == 2
    assert "gone.ndjson" in result.stderr
