"""A recorded run of the machines is a behaviour of the spec, and a corrupted one is not.

The negative controls change one thing in a trace that is accepted, and look at the line that is
named. Some go unnoticed and should: what the spec does not have, nobody misses.
"""

import copy
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from protocol.controller import ControllerRules
from protocol.controller.trace import CONTROLLER
from protocol.replication import Rules
from spec.conformance.tracing.items import Fetch, Item
from spec.conformance.tracing.lines import TraceError, parse_line
from spec.conformance.tracing.order import Order
from spec.conformance.tracing.plan import Plan
from spec.conformance.tracing.recording import Recording
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


def test_a_seed_replays_a_run() -> None:
    assert Recording(STORMY).run() == list(recorded(STORMY))
    assert Recording(attrs.evolve(STORMY, seed=6)).run() != list(recorded(STORMY))


def test_a_run_exercises_every_step_of_the_spec() -> None:
    """All but late messages, which have no name of their own, and unclean elections."""
    runs = [recorded(attrs.evolve(STORMY, seed=seed, lines=3000)) for seed in (1, 2)]
    assert {name for run in runs for line in run for name in names(line)} == {
        *("Create", "Restart", "CleanRestart", "LossyRestart", "FenceBroker", "UnfenceBroker"),
        *("ElectLeader", "BecomeLeader", "BecomeFollower", "LearnIsr"),
        *("ExpandIsr", "ShrinkIsr", "CommitIsr", "RejectIsr"),
        *("Produce", "LeaderHandleFetch", "FollowerHandleAnswer", "Consume"),
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "x:1: is not JSON"),
        ("[]", "x:1: is not a JSON object"),
        ('{"format": 2}', "x:1: has format 2, and this reads 1"),
        ('{"format": 1, "node": "1"}', "x:1: node is '1', not a number"),
        ('{"format": 1, "node": 1, "steps": [1]}', "x:1: steps has 1, not an object"),
        ('{"format": 1, "node": 1, "steps": [{"name": "Produce"}]}', "x:1: base is None, not a n"),
        ('{"format": 1, "node": 1, "steps": [{"name": "Restart"}]}', "x:1: state is None, not an"),
    ],
)
def test_a_bad_line_is_named(text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match="x:1: ") as raised:
        parse_line(text, "x:1")
    assert str(raised.value).startswith(complaint)


def test_a_gap_is_noticed_by_the_reader() -> None:
    lines = fresh()
    at = find(lines, of("Produce"))
    del lines[at]
    with pytest.raises(TraceError, match="lines are missing or out of order"):
        judged(lines)


def test_a_partition_begins_with_its_creation() -> None:
    with pytest.raises(TraceError, match="first line is not its creation"):
        judged(fresh()[1:])


def test_a_partition_that_begins_out_of_sync_is_not_covered() -> None:
    lines = fresh()
    lines[0]["state"]["isr"] = [1, 2]
    with pytest.raises(TraceError, match="out of sync"):
        judged(lines)


def test_what_the_spec_does_not_have_is_not_judged() -> None:
    lines = fresh()
    at = find(lines, lambda line: line["node"] == CONTROLLER)
    lines[at]["state"]["min_isr"] = 1
    with pytest.raises(TraceError, match="is not in the spec"):
        judged(lines)


@pytest.mark.tlc
def test_a_run_is_accepted_and_windows_do_not_matter() -> None:
    whole, parts = judged(fresh(), window=5_000), judged(fresh(), window=250, lookahead=200)
    assert whole.accepted
    assert parts.accepted
    assert (whole.windows, whole.steps) == (1, parts.steps)
    assert parts.windows > 2


@pytest.mark.tlc
@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        Plan(seed=1, lines=3_000, fault_every_ms=300),
        Plan(seed=2, lines=1_500, fault_every_ms=80, brokers=5, min_isr=3),
        Plan(seed=3, lines=1_500, fault_every_ms=120, metadata_ms=(1, 100), min_isr=1),
        Plan(
            seed=4,
            lines=2_500,
            fault_every_ms=100,
            down_ms=(10, 60),
            metadata_ms=(1, 8),
            stragglers=0.1,
        ),
    ],
    ids=["long", "five-brokers", "slow-metadata", "late-fetches"],
)
def test_runs_of_all_kinds_are_accepted(plan: Plan) -> None:
    result = judged(fresh(plan), window=2_000)
    assert result.rejection is None
    assert result.lines == plan.lines


Corruption = Callable[[list[Json]], int]
"""Changes a trace, and gives the place of the first line that may be found wrong."""


def drop(wanted: Callable[[Json], bool]) -> Corruption:
    def corrupt(lines: list[Json]) -> int:
        at = find(lines, wanted)
        del lines[at]
        return at

    return corrupt


def drop_sending(lines: list[Json]) -> int:
    """Drop the line in which a fetch is sent that a leader learns something from."""
    at = find(lines, behind)
    request = lines[at]["steps"][0]["request"]
    lines.remove(next(line for line in lines if request in line.get("sent", ())))
    return at - 1


def swap(lines: list[Json]) -> int:
    """Swap two lines of a leader that say different things."""

    def differs(line: Json) -> bool:
        at = lines.index(line)
        return names(line) == ["Produce"] and names(lines[at - 1]) != ["Produce"]

    at = find(lines, differs)
    other = lines.index(before(lines, at))
    lines[at], lines[other] = lines[other], lines[at]
    return other


def change(wanted: Callable[[Json], bool], edit: Callable[[Json], None]) -> Corruption:
    def corrupt(lines: list[Json]) -> int:
        at = find(lines, wanted)
        edit(lines[at])
        return at

    return corrupt


def lags(line: Json) -> bool:
    """Whether there is more in a log than is committed."""
    return bool(0 < line["state"]["hw"] < line["state"]["end"])


def behind(line: Json) -> bool:
    return of("LeaderHandleFetch")(line) and lags(line)


def claims_more(line: Json) -> None:
    line["state"]["hw"] = line["state"]["end"]


def took_entries(line: Json) -> bool:
    return of("FollowerHandleAnswer")(line) and line["action"] == "FinishAppend"


def unknown_request(line: Json) -> None:
    line["steps"][0]["request"] = "9.9.9"


def other_isr(of_controller: bool) -> Callable[[Json], None]:
    def edit(line: Json) -> None:
        known = line["state"] if of_controller else line["state"]["view"]
        known["isr"] = [1, 2, 3] if len(known["isr"]) < 3 else known["isr"][:2]

    return edit


def set_view(name: str, value: Any) -> Callable[[Json], None]:
    return lambda line: line["state"]["view"].update({name: value})


def counts_too_much(line: Json) -> None:
    follower = str(line["steps"][0]["follower"])
    line["state"]["followers"][follower][0] = line["state"]["end"]


def twice(lines: list[Json]) -> int:
    at = find(lines, took_entries)
    lines.insert(at, copy.deepcopy(lines[at]))
    return at + 1


CORRUPTIONS: dict[str, Corruption] = {
    "a batch that nobody produced": drop(of("Produce")),
    "entries that nobody fetched": drop(took_entries),
    "a decision that nobody took": drop(of("CommitIsr")),
    "a leader that nobody made one": drop(of("BecomeLeader")),
    "a fetch that nobody sent": drop_sending,
    "two lines swapped": swap,
    "an answer taken twice": twice,
    "a high watermark too far": change(behind, claims_more),
    "a follower's offset too far": change(behind, counts_too_much),
    "a request that was never sent": change(of("LeaderHandleFetch"), unknown_request),
    "a proposal that was never sent": change(
        of("CommitIsr"), lambda line: line.update(received="9.9.9")
    ),
    "another epoch": change(of("BecomeFollower"), set_view("epoch", 99)),
    "another ISR at the leader": change(of("LearnIsr"), other_isr(False)),
    "another ISR at the controller": change(of("CommitIsr"), other_isr(True)),
    "an acknowledgement too early": change(
        lambda line: names(line) == ["Produce"] and lags(line),
        lambda line: line.update(acked=[line["steps"][0]["base"]]),
    ),
    "a broker back with more than it had": change(
        lambda line: of("Restart")(line) and lags(line),
        lambda line: line["state"].update(hw=line["state"]["end"]),
    ),
}


@pytest.mark.tlc
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_trace_is_rejected_at_the_line_that_shows_it(name: str) -> None:
    lines = fresh()
    at = CORRUPTIONS[name](lines)
    result = judged(renumbered(lines[: at + 150]))
    assert result.rejection is not None
    line = result.rejection.first_line or result.rejection.line
    assert at <= int(line.where) <= at + 60, str(result.rejection)
    assert result.rejection.reasons


def by(**rules: Any) -> dict[str, Any]:
    return {"rules": attrs.evolve(Rules(), **rules)}


WRONG: dict[str, Plan] = {
    "high_watermark_isr": attrs.evolve(
        STORMY, seed=3, produce_every_ms=5, **by(high_watermark_isr=lambda view: view.isr)
    ),
    "truncation_offset": attrs.evolve(
        STORMY,
        seed=3,
        lines=1_000,
        fault_every_ms=120,
        **by(truncation_offset=lambda _log, hw, _end: hw),
    ),
    "kept_on_becoming_follower": attrs.evolve(
        STORMY, seed=1, fault_every_ms=150, **by(kept_on_becoming_follower=lambda _log, hw: hw)
    ),
    "counts_as_progress": attrs.evolve(
        STORMY, seed=1, fault_every_ms=120, **by(counts_as_progress=lambda _diverges: True)
    ),
    "acknowledged_up_to": attrs.evolve(STORMY, **by(acknowledged_up_to=lambda end, _hw: end)),
    "may_join_isr": attrs.evolve(STORMY, **by(may_join_isr=lambda *_: True)),
    "read_limit": attrs.evolve(STORMY, **by(read_limit=lambda log, _hw: log.end_offset)),
    "eligible_leader_replicas": attrs.evolve(
        STORMY,
        controller_rules=attrs.evolve(
            ControllerRules(), eligible_leader_replicas=lambda *_: frozenset()
        ),
    ),
    "loses_eligibility": attrs.evolve(
        STORMY,
        controller_rules=attrs.evolve(ControllerRules(), loses_eligibility=lambda _clean: False),
    ),
}


@pytest.mark.tlc
@pytest.mark.slow
@pytest.mark.parametrize("rule", WRONG)
def test_machines_with_a_wrong_rule_are_rejected(rule: str) -> None:
    result = judged(fresh(WRONG[rule]))
    assert result.rejection is not None


@pytest.mark.tlc
def test_a_line_that_is_no_step_and_no_message_is_not_missed() -> None:
    lines = fresh()[:300]
    lines.remove(lines[find(lines, lambda line: line["action"] == "ReserveOffsets")])
    assert judged(renumbered(lines)).accepted


@pytest.mark.tlc
def test_windows_reject_what_the_whole_rejects() -> None:
    lines = fresh()
    at = CORRUPTIONS["a high watermark too far"](lines)
    whole = judged(lines, window=5_000)
    parts = judged(lines, window=120, lookahead=100)
    assert whole.rejection is not None
    assert parts.rejection is not None
    assert whole.rejection.line == parts.rejection.line
    assert whole.rejection.line.where == str(at)
    assert whole.rejection.reasons == parts.rejection.reasons


@pytest.mark.tlc
def test_another_order_is_found_where_the_proposed_one_will_not_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of a fetch is counted before its sender goes on by an empty answer, as others are."""

    def take_answer(order: Order, item: Item, fetch: Fetch, taker: Item) -> None:
        fetch.taken_by = taker
        order.hard(item, taker)

    monkeypatch.setattr(Order, "_take_answer", take_answer)
    plan = attrs.evolve(STORMY, seed=7, lines=420, lost=0.05, fetch_timeout_ms=60)
    result = judged(fresh(plan))
    assert result.accepted
    assert result.reordered > 0
