"""A trace survives being stored as JSON and as a scenario, and reads well when printed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from spec.runner import (
    FileFormatError,
    Function,
    Location,
    ModelValue,
    Outcome,
    Trace,
    ValueSyntaxError,
    format_scenario,
    make_trace,
    parse_scenario,
    parse_value,
    print_trace,
    read_scenario,
    render_trace,
    write_scenario,
)
from spec.runner.state_text import parse_state
from spec.runner.trace import RawStep

EXAMPLE = make_trace(
    [
        RawStep(parse_state("/\\ log = (r1 :> <<>> @@ r2 :> <<>>)\n/\\ msgs = {}\n/\\ n = 1")),
        RawStep(
            parse_state(
                "/\\ log = (r1 :> <<>> @@ r2 :> <<[epoch |-> 1, id |-> 1]>>)\n"
                '/\\ msgs = {[kind |-> "fetch"]}\n/\\ n = 1'
            ),
            "Produce",
            Location("M", 4, 3, 9, 20),
        ),
        RawStep(
            parse_state(
                "/\\ log = (r1 :> <<>> @@ r2 :> <<[epoch |-> 2, id |-> 1]>>)\n"
                '/\\ msgs = {[kind |-> "records"]}\n/\\ n = TRUE'
            ),
            "Answer",
        ),
        RawStep(
            parse_state(
                "/\\ log = (r1 :> <<>> @@ r2 :> <<[epoch |-> 2, id |-> 1]>>)\n"
                '/\\ msgs = {[kind |-> "records"]}\n/\\ n = TRUE'
            ),
            "Idle",
        ),
    ],
    loops_to=2,
    loop_action="Answer",
)

simple = st.sampled_from(["0", "1", "TRUE", "{}", "<<1, 2>>", "[a |-> 1]", "(r1 :> {2})", '"\\n"'])
states = st.fixed_dictionaries({"x": simple.map(parse_value), "y": simple.map(parse_value)})
actions = st.none() | st.sampled_from(["A", "Next", "r_1"])
locations = st.none() | st.just(Location("M", 1, 2, 3, 4))
steps = st.lists(st.builds(RawStep, states, actions, locations), min_size=1, max_size=4)
traces = st.builds(
    lambda raw, loop, by, stutters: make_trace(
        raw, loops_to=1 if loop else None, loop_action=by if loop else None, stutters=stutters
    ),
    steps,
    st.booleans(),
    actions,
    st.booleans(),
)


@given(traces)
def test_a_scenario_reads_back_the_same(trace: Trace) -> None:
    assert parse_scenario(format_scenario(trace, ["a header\nof two lines"])) == trace


@given(traces)
def test_json_reads_back_the_same(trace: Trace) -> None:
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace


def test_what_changed_is_told_as_tla_sees_it() -> None:
    assert [step.changed for step in EXAMPLE.steps] == [
        {"log", "msgs", "n"},
        {"log", "msgs"},
        {"log", "msgs", "n"},
        frozenset(),
    ]


def test_a_printed_trace_shows_only_what_changed() -> None:
    assert render_trace(EXAMPLE).plain.splitlines() == [
        "  1  (initial)",
        "     log   (r1: <<>>, r2: <<>>)",
        "     msgs  {}",
        "     n     1",
        "  2  Produce  M 4:3-9:20",
        "     log[r2]  <<>> -> <<[epoch 1, id 1]>>",
        '     msgs     +[kind "fetch"]',
        "  3  Answer",
        "     log[r2][1].epoch  1 -> 2",
        '     msgs              +[kind "records"]  -[kind "fetch"]',
        "     n                 1 -> TRUE",
        "  4  Idle",
        "     nothing changed",
        "   back to step 2 by Answer, for ever",
    ]


def test_keys_that_come_and_go_are_shown() -> None:
    r1, r2 = ModelValue("r1"), ModelValue("r2")
    trace = make_trace(
        [RawStep({"f": Function({r1: 1})}), RawStep({"f": Function({r2: 2})})], stutters=True
    )
    assert render_trace(trace).plain.splitlines()[2:] == [
        "  2  (unnamed)",
        "     f[r1]  removed",
        "     f[r2]  +2",
        "   and stays there for ever (stuttering)",
    ]


def test_colours_appear_only_on_a_terminal() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    for console, has_colours in ((terminal, True), (Console(file=io.StringIO()), False)):
        with console.capture() as capture:
            print_trace(EXAMPLE, console)
        assert ("\x1b[" in capture.get()) == has_colours


@pytest.mark.tlc
def test_a_counterexample_is_kept_as_a_scenario(
    violated: Callable[..., Outcome], tmp_path: Path
) -> None:
    trace = violated("PROPERTY Beyond", "FairSpec").trace
    assert trace is not None
    write_scenario(trace, tmp_path / "beyond.txt", ["temporal property Beyond"])
    assert read_scenario(tmp_path / "beyond.txt") == trace
    text = (tmp_path / "beyond.txt").read_text(encoding="utf-8")
    assert text.startswith("# temporal property Beyond\n\n(initial)\n----\n")
    assert text.endswith("\nloops to 1 by Reset\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "s.txt:1: a value before the first action"),
        ("A\nx = 1\n", "s.txt:2: expected ----"),
        ("A\n----\nx = {\n", "s.txt:3: expected a value"),
        ("A\n----\n\nB", "s.txt:4: the file ends"),
        ("two words\n", "s.txt:1: expected an action's name"),
        ("A  @ nowhere\n", "s.txt:1: not a location"),
        ("A\n----\nloops to 3\n", "there is no step 3"),
    ],
)
def test_a_malformed_scenario_names_the_line(text: str, told: str) -> None:
    with pytest.raises(FileFormatError, match=told):
        parse_scenario(text, "s.txt")


@pytest.mark.parametrize("data", [None, [], {"steps": 1}, {"steps": [{}], "loops_to": None}])
def test_other_json_is_no_trace(data: object) -> None:
    with pytest.raises(ValueError, match="not a trace"):
        Trace.from_json(data)  # type: ignore[arg-type]


def test_a_state_is_read_over_several_lines_and_without_a_list() -> None:
    assert parse_state("x = 0") == {"x": 0}
    assert parse_state("/\\ a = <<1,\n  2>>\n/\\ b = {}") == {"a": (1, 2), "b": frozenset()}
    with pytest.raises(ValueSyntaxError):
        parse_state("nothing here")
