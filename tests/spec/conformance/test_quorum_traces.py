"""Traces of a quorum: TLC accepts what the machines do, and rejects what they cannot have done."""

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from protocol.quorum import Rules
from protocol.quorum.trace import Line
from spec.conformance.quorum.recording import Plan, Recording
from spec.conformance.quorum.tracing import Result, validate
from spec.conformance.tracing.lines import TraceError

pytestmark = pytest.mark.tlc

SHORT = Plan(seed=10, lines=80)


def recorded(plan: Plan, path: Path) -> list[Line]:
    lines = Recording(plan).run()
    write(lines, path)
    return lines


def write(lines: list[Line], path: Path) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def judged(lines: list[Line], path: Path) -> Result:
    write(lines, path)
    return validate(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.ndjson"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 6, 12])
def test_a_run_with_elections_restarts_cuts_and_lost_messages_is_accepted(
    seed: int, path: Path
) -> None:
    lines = recorded(Plan(seed=seed, lines=200), path)
    found = validate(path)
    assert found.accepted, found.rejected
    assert (found.accepted_lines, found.windows) == (found.lines, 2)
    states = [line["state"] for line in lines[1:]]
    assert max(state["epoch"] for state in states) > 1
    assert max(state["hw"] for state in states) > 3
    assert any(state["start"] for state in states)
    assert sum(line["action"] == "Restart" for line in lines[1:]) > 4


def test_the_same_seed_gives_the_same_lines() -> None:
    assert Recording(SHORT).run() == Recording(SHORT).run()


def place_of(lines: list[Line], fits: Callable[[Line], bool]) -> int:
    return next(at for at, line in enumerate(lines) if at > 20 and fits(line["state"]))


CORRUPTIONS: dict[str, tuple[Callable[[Line], bool], Callable[[Line], object]]] = {
    "a high watermark that nobody else has": (
        lambda state: state["role"] == "leader" and state["end"] > state["hw"],
        lambda state: state.update(hw=state["end"]),
    ),
    "a follower further than its leader": (
        lambda state: state["role"] == "follower" and state["end"] > 0,
        lambda state: state.update(end=state["end"] + 30),
    ),
    "an epoch that nobody stood in": (
        lambda state: state["role"] == "follower",
        lambda state: state.update(epoch=state["epoch"] + 1),
    ),
    "progress that was not made": (
        lambda state: state["role"] == "leader" and len(state["followers"]) > 1,
        lambda state: state["followers"].update({"2": 40, "1": 40}),
    ),
    "an entry of another epoch": (
        lambda state: state["role"] == "follower" and len(state["epochs"]) > 0,
        lambda state: state.update(epochs=[[state["epoch"] + 4, state["epochs"][0][1]]]),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_line_that_was_changed_by_hand_is_rejected(name: str, path: Path) -> None:
    fits, change = CORRUPTIONS[name]
    lines = Recording(SHORT).run()
    at = place_of(lines, fits)
    change(lines[at]["state"])
    found = judged(lines[: at + 1], path)
    assert not found.accepted
    assert found.accepted_lines < found.lines


@pytest.mark.slow
def test_a_vote_given_twice_is_rejected(path: Path) -> None:
    """A voter that forgets its vote when it restarts: its second one is no step of the spec."""
    forgetful = attrs.evolve(Rules(), persisted_vote=lambda epoch, _voted: (epoch, -1))
    for seed in range(1, 40):
        plan = Plan(seed=seed, lines=60, rules=forgetful, fault_every_ms=(20, 60))
        lines = Recording(plan).run()
        at = next((at for at, line in enumerate(lines) if _has_forgotten(lines, at, line)), None)
        if at is not None:
            assert not judged(lines[: at + 1], path).accepted
            return
    raise AssertionError("no run in which a voter has forgotten its vote")


def _has_forgotten(lines: list[Line], at: int, line: Line) -> bool:
    """Whether this is a restart of a node that had voted in the epoch that it starts in."""
    if line.get("action") != "Restart" or line["incarnation"] == 1:
        return False
    earlier = [each for each in lines[:at] if each.get("node") == line["node"]]
    before, after = earlier[-1]["state"], line["state"]
    return bool(before["epoch"] == after["epoch"] and before["voted"] != after["voted"])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", ":2: is not JSON"),
        ("[]", ":2: is not a JSON object"),
        ('{"node": 1}', ":2: is not a line of a trace"),
        ('{"node": 9, "incarnation": 1, "seq": 0, "state": {}}', "there is no node 9"),
    ],
)
def test_a_bad_line_is_named(line: str, says: str, path: Path) -> None:
    write(Recording(SHORT).run()[:1], path)
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(TraceError, match=says):
        validate(path)


def test_a_missing_line_and_another_format_are_refused(path: Path) -> None:
    lines = Recording(SHORT).run()
    with pytest.raises(TraceError, match="lines are missing"):
        judged([*lines[:10], *lines[14:]], path)
    with pytest.raises(TraceError, match="has format 2"):
        judged([{**lines[0], "format": 2}], path)
    with pytest.raises(TraceError, match="does not begin as the trace of a quorum"):
        judged(lines[1:], path)
