"""A folder with a file for each process is judged as one trace, partition by partition."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.folder import Folder
from spec.conformance.tracing.lines import TraceError
from spec.conformance.tracing.validation import Result, Settings, validate
from tests.spec.conformance.trace_runs import STORMY, Json, find, fresh, names, of

FAILOVERS = attrs.evolve(STORMY, seed=2, failovers=0.4)
KEY = ("t", 0)


def process_of(line: Json) -> int:
    """Name the process that wrote a line: there are three controllers."""
    node: int = line["node"]
    return 100 + line["incarnation"] % 3 if node == CONTROLLER else node


def write(folder: Path, lines: list[Json], process: Callable[[Json], int] = process_of) -> Path:
    for line in lines:
        with (folder / f"trace-{process(line)}.ndjson").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return folder


def judged(folder: Path, time_limit_s: float | None = None) -> Result:
    (result,) = validate(folder, Settings(time_limit_s=time_limit_s))
    return result


def decisions(lines: list[Json]) -> list[Json]:
    return [line for line in lines if line["node"] == CONTROLLER and line["steps"]]


def lost_decisions(lines: list[Json]) -> list[Json]:
    """Find decisions that the next controller did not begin with."""
    made = decisions(lines)
    return [
        line
        for line, following in pairwise(made)
        if line["incarnation"] < following["incarnation"]
        and line["offset"] >= following["begins"][0]
    ]


@pytest.mark.tlc
def test_brokers_and_controllers_that_follow_each_other_are_one_trace(tmp_path: Path) -> None:
    lines = fresh(FAILOVERS)
    assert len({line["incarnation"] for line in decisions(lines)}) > 2
    assert lost_decisions(lines)
    result = judged(write(tmp_path, lines))
    assert result.accepted, result.rejection
    assert result.lines == len(lines) - len(lost_decisions(lines))


def test_what_a_deposed_controller_could_not_commit_did_not_happen(tmp_path: Path) -> None:
    lines = fresh(FAILOVERS)
    folder = Folder(write(tmp_path, lines))
    states = [line.state for line in folder.lines(KEY) if line.node == CONTROLLER and line.steps]
    lost = lost_decisions(lines)
    assert states == [line["state"] for line in decisions(lines) if line not in lost]


@pytest.mark.tlc
def test_a_decision_that_was_lost_and_counts_is_rejected(tmp_path: Path) -> None:
    """The next controller says that it began after it, and went on as if it had not."""
    lines = fresh(FAILOVERS)
    lost = next(line for line in lost_decisions(lines) if names(line) != ["UnfenceBroker"])
    for line in decisions(lines):
        if line["incarnation"] > lost["incarnation"]:
            line["begins"] = [lost["offset"] + 1, lost["incarnation"]]
            line["offset"] += 10
    after = [line for line in lines if line["incarnation"] <= lost["incarnation"] + 1]
    result = judged(write(tmp_path, [line for line in lines if line in after]))
    assert result.rejection is not None


@pytest.mark.tlc
def test_a_decision_that_is_missing_is_noticed(tmp_path: Path) -> None:
    lines = fresh(FAILOVERS)
    lost = lost_decisions(lines)
    at = find(lines, lambda line: names(line) == ["CommitIsr"] and line not in lost)
    gone = lines.pop(at)
    for line in lines:
        same = (line["node"], line["incarnation"]) == (CONTROLLER, gone["incarnation"])
        if same and line["seq"] > gone["seq"]:
            line["seq"] -= 1
    result = judged(write(tmp_path, lines[: at + 150]))
    assert result.rejection is not None


def lags(line: Json) -> bool:
    """Whether there is more in a log than is committed."""
    return bool(0 < line["state"]["hw"] < line["state"]["end"])


@pytest.mark.tlc
def test_the_partition_and_the_line_that_are_wrong_are_named(tmp_path: Path) -> None:
    good = fresh()[:300]
    bad = [{**line, "topic": "other"} for line in fresh()[:300]]
    at = find(bad, lambda line: of("FollowerHandleAnswer")(line) and lags(line))
    bad[at]["state"]["hw"] = bad[at]["state"]["end"]
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    write(tmp_path, mixed)
    other, first = validate(tmp_path)
    assert first.accepted
    assert other.rejection is not None
    assert other.partition == ("other", 0)
    node = bad[at]["node"]
    number = 1 + [line for line in mixed if line["node"] == node].index(bad[at])
    said = f"trace-{node}.ndjson:{number}: broker {node} cannot have done FollowerHandleAnswer"
    assert str(other.rejection) == f"{said} on other-0"


@pytest.mark.tlc
def test_what_is_not_in_the_spec_ends_only_its_partition_and_what_came_before_counts(
    tmp_path: Path,
) -> None:
    lines = fresh()[:400]
    at = find(lines, of("CommitIsr"))
    lines[at]["state"]["min_isr"] = 1
    others = [{**line, "topic": "other"} for line in fresh()[:200]]
    other, result = validate(write(tmp_path, [*lines, *others]))
    assert other.accepted
    assert result.unjudged is not None
    assert "is not in the spec" in result.unjudged
    assert not result.accepted
    assert result.rejection is None
    assert result.steps > 50


def test_no_window_is_begun_when_time_is_up(tmp_path: Path) -> None:
    result = judged(write(tmp_path, fresh()[:100]), time_limit_s=0.0)
    assert not result.accepted
    assert result.unjudged == "0 s were over before this"
    assert result.steps == 0


@pytest.mark.tlc
def test_half_a_line_at_the_end_of_a_life_is_no_error(tmp_path: Path) -> None:
    """Nothing of it was sent: a line is written before its messages are."""
    lines = fresh()
    second = find(lines, lambda line: names(line) == ["Restart"], after=20)
    node = lines[second]["node"]
    for at, line in enumerate(lines[: second + 100]):
        with (tmp_path / f"trace-{process_of(line)}.ndjson").open("a") as file:
            file.write('{"format": 1, "top\n\n' if at == second else "")
            file.write(json.dumps(line) + "\n")
    with (tmp_path / f"trace-{node}.ndjson").open("a") as file:
        file.write('{"format": 1')
    assert judged(tmp_path).accepted


def test_half_a_line_elsewhere_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, fresh()[:50])
    file = tmp_path / "trace-2.ndjson"
    whole = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*whole[:3], whole[3][:40], *whole[4:]]), encoding="utf-8")
    with pytest.raises(TraceError, match=r"trace-2.ndjson:4: is not JSON, and no "):
        validate(tmp_path)


def test_a_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no trace-"):
        validate(tmp_path)


def test_two_controllers_of_one_epoch_are_an_error(tmp_path: Path) -> None:
    lines = fresh(FAILOVERS)
    for line in decisions(lines):
        line["incarnation"] = 0
    with pytest.raises(TraceError, match="must be the epoch of the quorum"):
        validate(write(tmp_path, lines))


def test_a_broker_writes_one_file(tmp_path: Path) -> None:
    lines = fresh()[:100]
    at = find(lines, lambda line: line["node"] == 2, after=50)
    moved = lines[at]
    result = judged(write(tmp_path, lines, lambda line: 9 if line is moved else process_of(line)))
    assert result.unjudged is not None
    assert "lines are missing or out of order" in result.unjudged


def test_a_partition_that_no_controller_tells_of_is_not_judged(tmp_path: Path) -> None:
    lines = [line for line in fresh()[:60] if line["node"] != CONTROLLER]
    result = judged(write(tmp_path, lines))
    assert result.unjudged is not None
    assert "no line of a controller" in result.unjudged
