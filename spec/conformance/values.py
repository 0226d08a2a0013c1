"""Reads the constants of a model from its .cfg, for the side that is written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spec.runner import ModelValue, Value, parse_value
from spec.runner.config import Config
from spec.runner.errors import RunnerError

C = TypeVar("C")


class NotComparableError(RunnerError):
    """The model's constants are not those that the code's side was made for."""


def read_as(config: Config, module: str, make: Callable[[dict[str, Value]], C]) -> C:
    """Make a spec module's constants from a model's; `NotComparableError` if they do not fit."""
    values = {
        name: parse_value(text[1:].strip())
        for name, text in config.constants.items()
        if text.startswith("=")
    }
    try:
        return make(values)
    except (KeyError, TypeError, ValueError) as problem:
        raise NotComparableError(f"not the constants of {module}: {problem!r}") from None


def names(value: Value) -> tuple[ModelValue, ...]:
    """Give the model values of a set, in the order of their names."""
    return tuple(sorted((name(each) for each in members(value)), key=lambda each: each.name))


def members(value: Value) -> frozenset[Value]:
    """Give the members of a set."""
    if not isinstance(value, frozenset):
        raise TypeError(f"{value!r} is not a set")
    return value


def name(value: Value) -> ModelValue:
    """Give a model value."""
    if not isinstance(value, ModelValue):
        raise TypeError(f"{value!r} is not a model value")
    return value


def number(value: Value) -> int:
    """Give a number; TRUE and FALSE are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
