"""Leaves out of a window what it cannot tell apart: entries that everybody has and nobody reads.

TLC's work grows with the logs, and a long trace has long ones. If all logs begin with the same
entries, and all offsets that occur in a window are larger, then no action of the window depends on
how many these are: the rules compare offsets with offsets and epochs with epochs. So all but the
last of these entries are dropped from all logs, and all offsets become smaller by as many. One is
kept, because an empty log, offset 0 and epoch 0 do mean something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from spec.conformance.tracing.steps import Step
from spec.runner import Function, Value

Entries = tuple[Value, ...]


def spare(state: Function, steps: Iterable[Step], base: int) -> int:
    """Tell how many entries may be left out of a window, given that `base` already are."""
    least = base + _common(state)
    for offset in _offsets(state):
        least = min(least, base + offset)
    for step in steps:
        least = min([least, *_step_offsets(step)])
    return max(0, least - 1)


def shifted_state(state: Function, prefix: Entries, base: int, new: int) -> Function:
    """Give the state with `new` instead of `base` of the entries in `prefix` left out."""
    more, fewer = prefix[new:base], max(0, new - base)

    def log(entries: Entries) -> Entries:
        return (*more, *entries[fewer:])

    by = new - base
    parts: dict[str, Any] = {name: state[name] for name in cast(Iterable[str], state)}
    parts["log"] = _each(parts["log"], log)
    parts["committed"] = log(parts["committed"])
    parts["hw"] = _each(parts["hw"], lambda offset: offset - by)
    parts["remote"] = _each(parts["remote"], lambda table: shifted_remote(table, by))
    parts["msgs"] = frozenset(_message(message, by) for message in parts["msgs"])
    kept = {entry["id"] for entries in _values(parts["log"]) for entry in entries}
    parts["acked"] = parts["acked"] & kept
    return Function(parts)


def shifted_step(fields: dict[str, Value], by: int) -> dict[str, Value]:
    """Give a step's fields with smaller offsets."""
    changed: dict[str, Any] = dict(fields)
    state = changed["state"]
    if state != ():
        runs = [run for run in state["runs"] if run["start"] <= by]
        runs = [*runs[-1:], *(run for run in state["runs"] if run["start"] > by)]
        changed["state"] = _evolve(
            state,
            end=state["end"] - by,
            hw=state["hw"] - by,
            remote=shifted_remote(state["remote"], by),
            runs=tuple(_evolve(run, start=max(0, run["start"] - by)) for run in runs),
            **{"from": max(0, state["from"] - by)},
        )
    changed["acked"] = frozenset(offset - by for offset in changed["acked"])
    if "request" in changed:
        request = changed["request"]
        changed["request"] = _evolve(request, offset=request["offset"] - by)
    if changed["act"] == "Consume":
        changed["count"] -= by
    if changed.get("keeps", ()) != ():
        kept = changed["keeps"]
        changed["keeps"] = _evolve(kept, end=kept["end"] - by, hw=kept["hw"] - by)
    return changed


def first_entries(state: Function, count: int) -> Entries:
    """Give the first entries of all logs."""
    return cast(Entries, next(iter(_values(state["log"])))[:count])


def oldest_record(state: Function) -> int:
    """Find the smallest id of a record in any log, or the next one to be."""
    ids = (entry["id"] for entries in _values(state["log"]) for entry in entries)
    used = cast(Any, state["used"])
    return int(min(ids, default=used["records"] + 1))


def _common(state: Function) -> int:
    """Count the entries that all logs begin with."""
    logs = [*_values(state["log"]), cast(Entries, state["committed"])]
    count = 0
    for entries in zip(*logs, strict=False):
        if any(entry != entries[0] for entry in entries):
            break
        count += 1
    return count


def _offsets(state: Function) -> Iterator[int]:
    """List the offsets in a state."""
    yield from _values(state["hw"])
    for table in _values(state["remote"]):
        yield from _remote_offsets(table)
    for message in cast(Iterable[Any], state["msgs"]):
        if message["type"] == "request":
            yield message["offset"]
        elif message["type"] == "answer":
            yield message["end"]["offset"] if message["diverges"] else message["hw"]


def _step_offsets(step: Step) -> Iterator[int]:
    """List the offsets in a step."""
    fields: dict[str, Any] = step.fields
    state = fields["state"]
    if state != ():
        yield from (state["end"], state["hw"])
        yield from _remote_offsets(state["remote"])
    yield from fields["acked"]
    if "request" in fields:
        yield fields["request"]["offset"]
    if fields["act"] == "Consume":
        yield fields["count"]
    if fields.get("keeps", ()) != ():
        yield from (fields["keeps"]["end"], fields["keeps"]["hw"])


def _remote_offsets(table: Value) -> Iterator[int]:
    for known in _values(table):
        if known["brokerEpoch"] > 0:
            yield known["endOffset"]


def shifted_remote(table: Any, by: int) -> Any:
    """Give what a leader knows of its followers with smaller offsets."""

    def shift(known: Any) -> Any:
        return _evolve(known, endOffset=known["endOffset"] - by) if known["brokerEpoch"] else known

    return _each(table, shift)


def _message(message: Any, by: int) -> Any:
    if message["type"] == "request":
        return _evolve(message, offset=message["offset"] - by, hw=message["hw"] - by)
    if message["type"] == "proposal":
        return message
    if message["diverges"]:
        end = message["end"]
        return _evolve(message, end=_evolve(end, offset=end["offset"] - by))
    return _evolve(message, hw=message["hw"] - by)


def _evolve(record: Any, **changes: Any) -> Function:
    return Function({**{key: record[key] for key in record}, **changes})


def _values(table: Any) -> Iterator[Any]:
    return iter(table) if isinstance(table, tuple) else (table[key] for key in table)


def _each(table: Any, change: Any) -> Any:
    if isinstance(table, tuple):
        return tuple(change(value) for value in table)
    return Function({key: change(table[key]) for key in table})
