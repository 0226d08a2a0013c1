"""What TLC says is folded into figures, and what is kept of it is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec.runner import Progress
from spec.runner.config import Config, read_config
from spec.runner.interpreter import PRINTED_LINES_KEPT, RAW_LINES_KEPT, Interpreter
from spec.runner.messages import Message


@pytest.fixture
def interpreter() -> Interpreter:
    """One that has heard nothing yet."""
    return Interpreter(Config(), Path("model.cfg"))


def _progress(interpreter: Interpreter, time: str, generated: str) -> Progress:
    text = (
        f"Progress(9) at 2026-01-01 {time}: {generated} states generated (5,000 s/min),"
        " 1,000 distinct states found (10 ds/min), 20 states left on queue."
    )
    progress = interpreter.handle(Message(2200, 0, text))
    assert progress is not None
    return progress


def test_the_rate_is_per_minute_since_the_last_report(interpreter: Interpreter) -> None:
    interpreter.handle(Message(2185, 0, "Starting... (2026-01-01 10:00:00)"))
    assert _progress(interpreter, "10:00:03", "6,000") == Progress(6000, 1000, 20, 9, 120_000)
    assert _progress(interpreter, "10:01:03", "36,000").states_per_minute == 30_000
    # Twice within a second, only TLC's own figure is left.
    assert _progress(interpreter, "10:01:03", "36,001").states_per_minute == 5000
    assert interpreter.statistics.generated == 36_001


def test_a_simulation_knows_only_how_many_states_it_generated(interpreter: Interpreter) -> None:
    text = (
        "Progress(-1) at 2026-01-01 10:00:00: 11 states generated,"
        " -1 distinct states found, -1 states left on queue."
    )
    assert interpreter.handle(Message(2209, 0, text)) == Progress(11, 0, 0, 0, None)


def test_only_the_last_coverage_report_counts(interpreter: Interpreter) -> None:
    for generated in (1, 7):
        action = f"<A line 3, col 1 to line 3, col 1 of module M>: 1:{generated}"
        for code, text in ((2201, "The coverage statistics"), (2772, action), (2202, "End")):
            interpreter.handle(Message(code, 0, text))
    assert interpreter.coverage is not None
    assert [item.generated for item in interpreter.coverage.actions] == [7]


def test_what_is_kept_of_endless_output_is_bounded(interpreter: Interpreter) -> None:
    for number in range(3 * RAW_LINES_KEPT):
        interpreter.handle(f"Parsing file {number}")
    interpreter.handle(Message(2219, 0, "SANY finished."))
    for number in range(3 * PRINTED_LINES_KEPT):
        interpreter.handle(f"<<{number}>>")
    assert len(interpreter.raw_lines) == RAW_LINES_KEPT
    assert interpreter.raw_lines[-1] == f"Parsing file {3 * RAW_LINES_KEPT - 1}"
    assert len(interpreter.printed) == PRINTED_LINES_KEPT
    assert interpreter.printed[0] == "<<0>>"


def test_unknown_messages_are_ignored_and_warnings_kept(interpreter: Interpreter) -> None:
    interpreter.handle(Message(9999, 0, "something new"))
    interpreter.handle(Message(9998, 3, "mind\nthis"))
    assert interpreter.error is None
    assert interpreter.warnings == ["mind this"]


def test_a_state_that_cannot_be_read_is_a_warning(interpreter: Interpreter) -> None:
    interpreter.handle(Message(2217, 4, "1: <Initial predicate>\nx = [Node -> Int]"))
    assert len(interpreter.trace) == 0
    assert "could not be read" in interpreter.warnings[0]


def test_the_first_error_is_the_one_told(interpreter: Interpreter) -> None:
    interpreter.handle(Message(1000, 1, "the cause"))
    interpreter.handle(Message(1000, 1, "its echo"))
    assert interpreter.error == "the cause"


def test_a_configuration_tells_its_properties(tmp_path: Path) -> None:
    config = tmp_path / "m.cfg"
    config.write_text(
        "INIT Init \\* PROPERTY No\n(* PROPERTY\nNever *)\nPROPERTIES A\n  B\nINVARIANT C\n",
        encoding="utf-8",
    )
    read = read_config(config)
    assert (read.properties, read.invariants, read.has_behaviour) == (("A", "B"), ("C",), True)
    assert read.only_property is None
    config.write_text("CONSTANT N = 1\n", encoding="utf-8")
    assert read_config(config) == Config(constants={"N": "= 1"})
    assert not read_config(config).has_behaviour
