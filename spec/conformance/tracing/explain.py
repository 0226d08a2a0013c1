"""Tells why TLC cannot take a step: what the spec would have allowed instead.

It lets TLC take the same action once more without comparing the outcome, and compares by itself.
Where the action may have several outcomes, one of them is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from spec.conformance.tracing.rebase import shifted_remote
from spec.conformance.tracing.windows import Machine, Task, Window, take
from spec.runner import Function, Value, format_value


def explain(window: Window, taken: int, machine: Machine) -> Iterator[str]:
    """Give the reasons why no more than `taken` steps of a window can be taken."""
    step = window.steps[taken]
    fields: Any = window.fields(step)
    act = str(fields["act"])
    if step.item.unsent:
        yield "it refers to a message or a decision that no line of the trace sent or took"
        return
    task = Task((taken + 1,), relaxed_from=taken)
    tried = take(attrs.evolve(window, steps=window.steps[: taken + 1]), machine, task)
    if isinstance(tried, int):
        yield f"{act} is not enabled in the state that the lines before lead to"
        return
    yield f"{act} is enabled, but leads to another state (offsets count batches here):"
    state: Any = tried[0].state
    said: Any = step.fields["state"]
    node = fields["node"]
    if said != ():
        yield from _replica(state, said, node, window.base)
    if fields["record"] != ():
        record: Any = fields["record"]
        yield from _differences("ctl", state["ctl"], record["ctl"])
        yield from _differences("broker", state["broker"], record["broker"])
    entries = _at(state["log"], node) if said != () else ()
    for offset in sorted(fields["acked"]):
        if offset >= len(entries) or entries[offset]["id"] not in state["acked"]:
            shown = offset + window.base
            yield f"the batch at {shown} is not acknowledged there, and here it was"


def _replica(state: Any, said: Any, node: Value, base: int) -> Iterator[str]:
    entries = _at(state["log"], node)
    yield from _differences("hw", _at(state["hw"], node) + base, said["hw"])
    yield from _differences("view", _at(state["view"], node), said["view"])
    remote = shifted_remote(_at(state["remote"], node), -base)
    yield from _differences("remote", remote, said["remote"])
    yield from _differences("log end", len(entries) + base, said["end"])
    if entries and said["runs"]:
        yield from _differences("last epoch", entries[-1]["epoch"], said["runs"][-1]["epoch"])


def _differences(name: str, allowed: Value, said: Value) -> Iterator[str]:
    """Say where two values differ, as deep inside as that can be told."""
    if allowed == said:
        return
    if isinstance(allowed, Function) and isinstance(said, Function):
        for key in allowed:
            yield from _differences(f"{name}.{key}", allowed[key], said.get(key, ()))
    elif isinstance(allowed, tuple) and isinstance(said, tuple) and len(allowed) == len(said):
        for place, (one, other) in enumerate(zip(allowed, said, strict=True), start=1):
            yield from _differences(f"{name}[{place}]", one, other)
    else:
        yield f"{name}: the spec has {format_value(allowed)}, the line {format_value(said)}"


def _at(table: Any, node: Value) -> Any:
    return table[node - 1] if isinstance(table, tuple) and isinstance(node, int) else table[node]
