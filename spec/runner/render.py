"""Prints a trace for people: each step with only what changed in it, down to the changed field.

    3  Produce  Replication 41:3-47:20
       log[r1]  <<>> -> <<[epoch 1, id 1]>>
       msgs     +[kind "fetch", to r1]

Values are written more loosely than TLA+ here (`[epoch 1]` for `[epoch |-> 1]`). What must be read
back is written by `scenario` or as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from rich.console import Console
from rich.text import Text

from spec.runner.outcome import Verdict
from spec.runner.trace import Step, Trace
from spec.runner.value_text import format_value, in_order, is_field_name
from spec.runner.values import Function, Value, same_value

VERDICT_COLOURS = {
    Verdict.HOLDS: "bold green",
    Verdict.VIOLATED: "bold red",
    Verdict.UNKNOWN: "bold yellow",
    Verdict.ERROR: "bold red",
}
_ADDED, _REMOVED, _PATH, _ACTION, _QUIET = "green", "red", "yellow", "bold cyan", "dim"


@attrs.frozen
class Change:
    """One changed place within a variable: what left it and what came.

    A set tells its lost and new elements apart; anything else went from `old` to `new`, of which
    either is None where the place itself came or went.
    """

    path: str
    old: Value | None = None
    new: Value | None = None
    lost: tuple[Value, ...] = ()
    gained: tuple[Value, ...] = ()


def render_trace(trace: Trace) -> Text:
    """Write a trace as coloured text; its `.plain` is the same without colour."""
    text = Text()
    before: Step | None = None
    for step in trace.steps:
        _render_step(text, before, step)
        before = step
    if trace.loops_to is not None:
        by = f" by {trace.loop_action}" if trace.loop_action else ""
        text.append(f"   back to step {trace.loops_to}{by}, for ever\n", _ACTION)
    if trace.stutters:
        text.append("   and stays there for ever (stuttering)\n", _ACTION)
    return text


def print_trace(trace: Trace, console: Console) -> None:
    """Print a trace; colours appear only if the console is a terminal that has them."""
    console.print(render_trace(trace), end="", soft_wrap=True)


def changes(path: str, old: Value, new: Value) -> Iterator[Change]:
    """Find the smallest places in which two values of one variable differ."""
    if same_value(old, new):
        return
    if isinstance(old, Function) and isinstance(new, Function):
        yield from _function_changes(path, old, new)
    elif isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for number, (left, right) in enumerate(zip(old, new, strict=True), start=1):
            yield from changes(f"{path}[{number}]", left, right)
    elif isinstance(old, frozenset) and isinstance(new, frozenset):
        lost, gained = in_order(old - new), in_order(new - old)
        yield Change(path, lost=tuple(lost), gained=tuple(gained))
    else:
        yield Change(path, old, new)


def compact(value: Value) -> str:
    """Write a value shortly: `[epoch 1]` for a record, `(r1: 0, r2: 1)` for a function."""
    if isinstance(value, tuple):
        return "<<" + ", ".join(map(compact, value)) + ">>"
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(compact, in_order(value))) + "}"
    if not isinstance(value, Function):
        return format_value(value)
    keys = in_order(value)
    if all(map(is_field_name, keys)):
        return "[" + ", ".join(f"{key} {compact(value[key])}" for key in keys) + "]"
    return "(" + ", ".join(f"{compact(key)}: {compact(value[key])}" for key in keys) + ")"


def _function_changes(path: str, old: Function, new: Function) -> Iterator[Change]:
    for key in in_order(old):
        if key in new:
            yield from changes(path + _place(key), old[key], new[key])
        else:
            yield Change(path + _place(key), old=old[key])
    for key in in_order(new):
        if key not in old:
            yield Change(path + _place(key), new=new[key])


def _place(key: Value) -> str:
    return f".{key}" if is_field_name(key) else f"[{compact(key)}]"


def _render_step(text: Text, before: Step | None, step: Step) -> None:
    text.append(f"{step.number:>3}  ", _QUIET)
    text.append(step.action or ("(initial)" if before is None else "(unnamed)"), _ACTION)
    if step.location is not None:
        text.append(f"  {step.location}", _QUIET)
    text.append("\n")
    if before is None:
        found = [Change(name, new=value) for name, value in step.state.items()]
    else:
        found = [
            change
            for name in step.state
            if name in step.changed
            for change in changes(name, before.state[name], step.state[name])
        ]
    width = max((len(change.path) for change in found), default=0)
    for change in found:
        _render_change(text, change, width, initial=before is None)
    if not found:
        text.append("     nothing changed\n", _QUIET)


def _render_change(text: Text, change: Change, width: int, *, initial: bool) -> None:
    text.append(f"     {change.path:<{width}}  ", _PATH)
    if initial and change.new is not None:
        text.append(compact(change.new))
    elif change.lost or change.gained:
        marks = [("+" + compact(value), _ADDED) for value in change.gained]
        marks += [("-" + compact(value), _REMOVED) for value in change.lost]
        for index, (mark, colour) in enumerate(marks):
            text.append(("  " if index else "") + mark, colour)
    else:
        _render_replacement(text, change)
    text.append("\n")


def _render_replacement(text: Text, change: Change) -> None:
    if change.old is not None:
        text.append(compact(change.old) if change.new is not None else "removed", _REMOVED)
    if change.old is not None and change.new is not None:
        text.append(" -> ")
    if change.new is not None:
        text.append(("" if change.old is not None else "+") + compact(change.new), _ADDED)
