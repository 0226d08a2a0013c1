"""TLA+ values as plain JSON, and back, so that a trace can be stored and read by other programs.

A boolean, a number, a string and a sequence are JSON's own. The other kinds are objects with a
single key that names the kind:

    {"model": "r1"}   {"set": [1, 2]}   {"record": {"epoch": 1}}   {"function": [[key, value], ...]}

A record is a function whose keys are all strings. Sets, fields and keys come in one fixed order, so
equal values give equal JSON.
"""

from __future__ import annotations

from typing import TypeAlias

from spec.runner.value_text import in_order
from spec.runner.values import Function, ModelValue, Value, function, set_of

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


def to_json(value: Value) -> Json:
    """Turn a value into plain JSON data (the module says how)."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, ModelValue):
        return {"model": value.name}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, frozenset):
        return {"set": [to_json(item) for item in in_order(value)]}
    return _function_to_json(value)


def from_json(data: Json) -> Value:
    """Read back what `to_json` wrote; raise `ValueError` for anything else."""
    if isinstance(data, bool | int | str):
        return data
    if isinstance(data, list):
        return tuple(from_json(item) for item in data)
    if isinstance(data, dict) and len(data) == 1:
        kind, content = next(iter(data.items()))
        return _from_kind(kind, content)
    raise ValueError(f"not a TLA+ value in JSON: {data!r}")


def _function_to_json(value: Function) -> Json:
    keys = in_order(value)
    if value.is_record:
        return {"record": {str(key): to_json(value[key]) for key in keys}}
    return {"function": [[to_json(key), to_json(value[key])] for key in keys]}


def _from_kind(kind: str, content: Json) -> Value:
    if kind == "model" and isinstance(content, str):
        return ModelValue(content)
    if kind == "set" and isinstance(content, list):
        return set_of(from_json(item) for item in content)
    if kind == "record" and isinstance(content, dict):
        return function((key, from_json(item)) for key, item in content.items())
    if kind == "function" and isinstance(content, list):
        return function(_pair_from_json(pair) for pair in content)
    raise ValueError(f"not a TLA+ value in JSON: a {kind!r} that holds {content!r}")


def _pair_from_json(pair: Json) -> tuple[Value, Value]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"not a key and value pair: {pair!r}")
    return from_json(pair[0]), from_json(pair[1])
