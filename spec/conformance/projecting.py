"""What every projection shares: the values of a state, of which those that repeat are made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

from spec.runner import Value

Part: TypeAlias = tuple[str, Hashable, Callable[[Any], Value]]
"""A variable of the spec, what it mirrors, and how to make the one from the other."""


class Values:
    """Makes the variables of a state from its parts."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Hashable], Value] = {}

    def __call__(self, parts: Iterable[Part]) -> dict[str, Value]:
        """Give each variable its value; a part that was seen before has the very same one."""
        return {name: self._value(name, key, make) for name, key, make in parts}

    def _value(self, name: str, key: Hashable, make: Callable[[Any], Value]) -> Value:
        found = self._made.get((name, key))
        if found is None:
            found = self._made[name, key] = make(key)
        return found
