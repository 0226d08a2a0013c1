"""What is wrong with a model or its configuration is told in one line, with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from spec.runner import Outcome, Verdict, run

pytestmark = pytest.mark.tlc

Check = Callable[..., Outcome]
HEAD = "---- MODULE Bad ----\nEXTENDS Naturals\nVARIABLE x\n"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("Init == x = 0\nNext == x' = = 1\n", r"^Bad\.tla:5:\d+: syntax error"),
        ("Init == x = \"open\nNext == x' = 1\n", r"^Bad\.tla:4:\d+: lexical error"),
        ("Init == x = y\nNext == x' = 1\n", r"^Bad\.tla:4:13: Unknown operator: `y'\.$"),
        ("Init == x = 0 /\\ FALSE\nNext == x' = 1\n", "^no state satisfies the initial predicate"),
        (
            "Init == x = 0\nNext == x' = 1 \\div x\n",
            r"^Bad\.tla:5:\d+: .*second argument of .* is 0",
        ),
    ],
)
def test_a_mistake_in_a_module(models: Any, body: str, told: str) -> None:
    outcome = run(models.job("Bad", f"{HEAD}{body}====\n"))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.verdict.exit_status == 2
    assert outcome.message is not None
    assert "\n" not in outcome.message
    assert re.search(told, outcome.message), outcome.message


def test_a_mistake_in_an_extended_module_names_that_module(models: Any) -> None:
    library = models.folder / "library"
    library.mkdir()
    body = "Init == x = y\nNext == x' = 1\n====\n"
    (library / "Bad.tla").write_text(HEAD + body, encoding="utf-8")
    job = models.job("Top", "---- MODULE Top ----\nEXTENDS Bad\n====\n", library=(library,))
    outcome = run(job)
    assert outcome.message == "Bad.tla:4:13: Unknown operator: `y'."


def test_an_unknown_invariant_names_it_and_the_configuration(violated: Check) -> None:
    outcome = violated("INVARIANT Nowhere")
    assert outcome.verdict is Verdict.ERROR
    assert outcome.message is not None
    assert outcome.message.startswith("counter.cfg: The invariant Nowhere")


def test_a_missing_constant_is_named(models: Any) -> None:
    job = models.counter()
    job.config.write_text("SPECIFICATION Spec\nCONSTANT Limit = 2\n", encoding="utf-8")
    message = run(job).message
    assert message is not None
    assert message.startswith("counter.cfg: The constant parameter Nodes is not assigned a value")


def test_a_malformed_configuration_names_its_line(models: Any) -> None:
    job = models.counter()
    job.config.write_text("SPECIFICATION Spec\nNONSENSE\n= (\n", encoding="utf-8")
    message = run(job).message
    assert message is not None
    assert message.startswith("counter.cfg:2: It was expecting a keyword")


def test_an_error_of_evaluation_shows_the_way_to_it(violated: Check) -> None:
    outcome = violated("INVARIANT Misapplied")
    assert outcome.verdict is Verdict.ERROR
    assert outcome.violation is None
    assert outcome.message is not None
    assert "is not in the domain of the function" in outcome.message
    assert outcome.error_trace is not None
    assert outcome.error_trace.steps[-1].state["x"] == 1
