"""TLC as a Python library: run a TLA+ model, and get its verdict, trace and graph as typed values.

    from pathlib import Path
    from spec.runner import Job, run

    outcome = run(Job(module=Path("Counter.tla"), config=Path("Counter.cfg")))
    print(outcome.verdict, outcome.statistics.distinct)

It stands alone: it imports attrs, rich and the standard library, and nothing of hwmark. It is not a
parser for TLA+ modules, only for what TLC prints. `docs/runner.md` is its page; `python -m
spec.runner` is its command.
"""

from spec.runner.coverage import ActionCoverage, Coverage, ExpressionCoverage
from spec.runner.ending import ended
from spec.runner.errors import (
    FileFormatError,
    JobError,
    RunnerError,
    ToolchainError,
    ValueSyntaxError,
)
from spec.runner.graph import Edge, Graph, Node, load_graph, read_graph
from spec.runner.job import Job, Simulation
from spec.runner.location import Location
from spec.runner.outcome import Outcome, Progress, Statistics, Verdict, Violation
from spec.runner.process import run
from spec.runner.progress import Bar
from spec.runner.render import VERDICT_COLOURS, print_trace, render_trace
from spec.runner.scenario import format_scenario, parse_scenario, read_scenario, write_scenario
from spec.runner.simulation import read_simulation, read_simulations
from spec.runner.toolchain import find_jar, find_java
from spec.runner.trace import Step, Trace, make_trace
from spec.runner.value_json import from_json, to_json
from spec.runner.value_text import format_value, parse_value
from spec.runner.values import Function, ModelValue, State, Value, function, same_value, set_of
from spec.runner.witness import rule_answers, witness_job

__all__ = [
    "VERDICT_COLOURS",
    "ActionCoverage",
    "Bar",
    "Coverage",
    "Edge",
    "ExpressionCoverage",
    "FileFormatError",
    "Function",
    "Graph",
    "Job",
    "JobError",
    "Location",
    "ModelValue",
    "Node",
    "Outcome",
    "Progress",
    "RunnerError",
    "Simulation",
    "State",
    "Statistics",
    "Step",
    "ToolchainError",
    "Trace",
    "Value",
    "ValueSyntaxError",
    "Verdict",
    "Violation",
    "ended",
    "find_jar",
    "find_java",
    "format_scenario",
    "format_value",
    "from_json",
    "function",
    "load_graph",
    "make_trace",
    "parse_scenario",
    "parse_value",
    "print_trace",
    "read_graph",
    "read_scenario",
    "read_simulation",
    "read_simulations",
    "render_trace",
    "rule_answers",
    "run",
    "same_value",
    "set_of",
    "to_json",
    "witness_job",
    "write_scenario",
]
