"""What real brokers do and `Replication` leaves out is accepted; what looks like it is not.

Each kind of run is looked at first: it has in it what it is named after. Each corruption changes
one thing in such a run, so that the step is no longer the harmless one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.plan import Plan
from tests.spec.conformance.trace_runs import (
    STORMY,
    Json,
    before,
    find,
    fresh,
    judged,
    names,
    of,
    recorded,
    renumbered,
)

pytestmark = pytest.mark.tlc

LOSSY = attrs.evolve(STORMY, seed=1, lost=0.05, fetch_timeout_ms=60)
TWICE_REFUSED = attrs.evolve(
    STORMY, seed=26, fault_every_ms=60, lost=0.25, fetch_timeout_ms=60, stragglers=0.1
)
SLOW = attrs.evolve(STORMY, seed=1, metadata_ms=(1, 300), skips=0.3, down_ms=(10, 60))
CHECKPOINTS = attrs.evolve(STORMY, seed=1, checkpoint_every_ms=200)
UNTOLD = attrs.evolve(STORMY, seed=2, untold=0.7, write_ms=(1, 12), produce_every_ms=6)
SHUTDOWNS = attrs.evolve(STORMY, seed=3, shutdowns=0.7, untold=0.5, write_ms=(1, 12))


def lost_answers(lines: list[Json]) -> Iterator[int]:
    """Find fetches that were answered, were not received, and were asked for again at once."""
    received = {line.get("received") for line in lines}
    for at, line in enumerate(lines):
        for step in line["steps"]:
            if step["name"] != "LeaderHandleFetch" or step.get("parked"):
                continue
            if step["request"] not in received and _asked_again(lines, at, step):
                yield at


def _asked_again(lines: list[Json], at: int, fetch: Json) -> bool:
    """Whether the next fetch of this follower that arrives is for the same, in the same epoch."""
    later = (step for line in lines[at + 1 :] for step in line["steps"])
    nexts = (s for s in later if s.get("follower") == fetch["follower"] and "epoch" in s)
    following: Json = next(nexts, {})
    same = (following.get("offset"), following.get("epoch")) == (
        fetch["offset"],
        fetch.get("epoch"),
    )
    return same and following.get("request") != fetch["request"]


def learned_late(lines: list[Json]) -> Iterator[int]:
    """Find learned records that were not the newest any more when they were learned."""
    epoch = version = 0
    for at, line in enumerate(lines):
        if line["node"] == CONTROLLER and line["steps"]:
            epoch, version = line["state"]["epoch"], line["state"]["version"]
        elif names(line)[:1] in (["BecomeLeader"], ["BecomeFollower"], ["LearnIsr"]):
            view = line["state"]["view"]
            if view["epoch"] < epoch or 0 < view["version"] < version:
                yield at


def no_changes(lines: list[Json]) -> Iterator[int]:
    """Find proposals to change nothing that were accepted."""
    for at, line in enumerate(lines):
        same = names(line) == ["CommitIsr"]
        if same and line["state"]["isr"] == before(lines, at)["state"]["isr"]:
            yield at


def restarts(lines: list[Json], wanted: Callable[[Json, Json], bool]) -> Iterator[int]:
    """Find first lines of an incarnation by what the broker had before and has kept."""
    known: dict[int, Json] = {}
    for at, line in enumerate(lines):
        if not line["steps"] or line["node"] == CONTROLLER:
            continue
        was, now = known.get(line["node"]), line["state"]
        if names(line) == ["Restart"] and was is not None and wanted(was, now):
            yield at
        known[line["node"]] = now


def with_older_mark(lines: list[Json]) -> Iterator[int]:
    return restarts(lines, lambda was, now: bool(now["hw"] < was["hw"] <= now["end"]))


def with_more(lines: list[Json]) -> Iterator[int]:
    return restarts(lines, lambda was, now: bool(now["end"] > was["end"]))


def shutdowns(lines: list[Json]) -> Iterator[int]:
    for at, line in enumerate(lines):
        if names(line) == ["FenceBroker"] and line["action"] == "UnfenceBroker":
            yield at


def stranded(lines: list[Json]) -> Iterator[int]:
    for at in shutdowns(lines):
        if lines[at]["state"]["leader"] == lines[at]["steps"][0]["broker"]:
            yield at


Look = Callable[[list[Json]], Iterator[int]]
KINDS: dict[str, tuple[Plan, Look]] = {
    "an answer is lost": (LOSSY, lost_answers),
    "a record is learned late": (SLOW, learned_late),
    "a high watermark is older after a restart": (CHECKPOINTS, with_older_mark),
    "a batch is on disk that nobody was told of": (UNTOLD, with_more),
    "a proposal changes nothing": (TWICE_REFUSED, no_changes),
    "a broker shuts down": (SHUTDOWNS, shutdowns),
    "a leader shuts down that nobody can succeed": (SHUTDOWNS, stranded),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_has_it_is_accepted(kind: str) -> None:
    plan, look = KINDS[kind]
    assert list(look(list(recorded(plan))))
    result = judged(fresh(plan))
    assert result.rejection is None
    assert result.lines >= plan.lines


def test_both_a_leader_and_a_follower_come_back_with_more_than_they_knew_of() -> None:
    lines = list(recorded(UNTOLD))
    led = {before(lines, at)["state"]["view"]["leader"] == lines[at]["node"]
           for at in with_more(lines)}  # fmt: skip
    assert led == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 3))
def test_runs_in_which_everything_goes_wrong_are_accepted(seed: int) -> None:
    plan = attrs.evolve(
        STORMY,
        seed=seed,
        lines=1_500,
        lost=0.04,
        fetch_timeout_ms=60,
        metadata_ms=(1, 150),
        skips=0.2,
        checkpoint_every_ms=200,
        untold=0.5,
        write_ms=(1, 8),
        shutdowns=0.3,
        down_ms=(10, 200),
    )
    assert judged(fresh(plan)).rejection is None


Places = tuple[int, int]
"""The first and the last line that may be named."""


def _takes_a_lost_answer(lines: list[Json]) -> Places:
    """A follower says that it took an answer which it had given up, to another request."""
    received = {line.get("received") for line in lines}
    given_up: dict[int, tuple[str, int]] = {}
    for at, line in enumerate(lines):
        for step in line["steps"]:
            if step["name"] == "LeaderHandleFetch" and step["request"] not in received:
                given_up[step["follower"]] = (step["request"], step["offset"])
        lost = given_up.get(line["node"])
        took = line["action"] == "FollowerHandleAnswer" and "writing" in line
        if lost and took and before(lines, at)["state"]["end"] != lost[1]:
            line["received"] = lost[0]
            return at - 60, at + 30
    raise LookupError("no such answer")


def _learns_what_was_before_it_registered(lines: list[Json]) -> Places:
    """A broker that comes back learns the epoch before the one in which it registered."""
    leaders: dict[int, int] = {}
    registered: dict[int, int] = {}
    for at, line in enumerate(lines):
        if line["node"] == CONTROLLER and line["steps"]:
            state = line["state"]
            leaders[state["epoch"]] = state["leader"]
            if names(line)[0] in ("CleanRestart", "LossyRestart"):
                registered[line["steps"][0]["broker"]] = state["epoch"]
        elif names(line) == ["BecomeFollower"] and line["node"] in registered:
            older = registered.pop(line["node"]) - 1
            if leaders.get(older, -1) not in (-1, line["node"]):
                line["state"]["view"].update(epoch=older, leader=leaders[older])
                return at, at
    raise LookupError("nobody learns an epoch after a restart")


def _learns_backwards(lines: list[Json]) -> Places:
    """A leader that has learned an ISR learns the one before it."""
    views: dict[int, list[Json]] = {}
    for at, line in enumerate(lines):
        if names(line)[:1] == ["BecomeLeader"]:
            views[line["node"]] = [line["state"]["view"]]
        elif names(line)[:1] == ["LearnIsr"]:
            known = views.setdefault(line["node"], [])
            if len(known) > 1:
                line["state"]["view"].update(known[-2])
                return at, at
            known.append(line["state"]["view"])
    raise LookupError("no leader learns two ISRs")


def _loses_in_a_clean_restart(lines: list[Json]) -> Places:
    at = find(lines, of("CleanRestart"))
    broker = lines[at]["steps"][0]["broker"]
    back = find(lines, lambda line: of("Restart")(line) and line["node"] == broker, at)
    lines[back]["state"].update(end=0, hw=0, epochs=[])
    return back, back


def _has_more_than_was_written(lines: list[Json]) -> Places:
    """Drop the line that says what storage was asked for."""
    at = next(with_more(lines))
    writing = [
        place
        for place in range(at)
        if lines[place]["node"] == lines[at]["node"] and "writing" in lines[place]
    ]
    del lines[writing[-1]]
    return at - 1, at - 1


def _commits_no_change(lines: list[Json]) -> Places:
    at = find(lines, of("CommitIsr"))
    was = before(lines, at)["state"]
    lines[at]["state"].update(isr=was["isr"], elr=was["elr"])
    return at, at


def _stays(lines: list[Json], at: int) -> Places:
    """The controller fences a broker and leaves it in the record as it was."""
    was = before(lines, at)["state"]
    lines[at]["state"].update(
        {name: was[name] for name in ("leader", "epoch", "version", "isr", "elr")}
    )
    return at, at


def _expires_and_stays(lines: list[Json]) -> Places:
    def in_sync(line: Json) -> bool:
        if names(line) != ["FenceBroker"] or line["action"] != "FenceBroker":
            return False
        isr = before(lines, lines.index(line))["state"]["isr"]
        return line["steps"][0]["broker"] in isr and len(isr) > 1

    return _stays(lines, find(lines, in_sync, 0))


def _shuts_down_and_stays(lines: list[Json]) -> Places:
    for at in shutdowns(lines):
        was, now = before(lines, at)["state"], lines[at]["state"]
        if was["leader"] == lines[at]["steps"][0]["broker"] != now["leader"]:
            return _stays(lines, at)
    raise LookupError("no leader shuts down")


CORRUPTIONS: dict[str, tuple[Plan, Callable[[list[Json]], Places]]] = {
    "a lost answer is taken": (LOSSY, _takes_a_lost_answer),
    "a record from before the registration": (SLOW, _learns_what_was_before_it_registered),
    "a record older than the one known": (SLOW, _learns_backwards),
    "a clean restart that loses the log": (CHECKPOINTS, _loses_in_a_clean_restart),
    "a restart with more than was written": (UNTOLD, _has_more_than_was_written),
    "a proposal to change something changes nothing": (LOSSY, _commits_no_change),
    "a broker that is gone stays in sync": (STORMY, _expires_and_stays),
    "a leader that shuts down stays without need": (SHUTDOWNS, _shuts_down_and_stays),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_what_only_looks_like_it_is_rejected(name: str) -> None:
    plan, corrupt = CORRUPTIONS[name]
    lines: list[Any] = fresh(plan)
    first, last = corrupt(lines)
    result = judged(renumbered(lines[: last + 120]))
    assert result.rejection is not None
    line = result.rejection.first_line or result.rejection.line
    assert first <= int(line.where) <= last, str(result.rejection)
