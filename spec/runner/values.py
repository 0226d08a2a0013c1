"""TLA+ values as Python values: what a variable of a TLA+ state holds.

| TLA+                    | Python                                  |
| ----------------------- | --------------------------------------- |
| `TRUE`, `FALSE`         | `bool`                                  |
| `-7`                    | `int`                                   |
| `"text"`                | `str`                                   |
| a model value `r1`      | `ModelValue("r1")`                      |
| `{1, 2}`, `1..2`        | `frozenset`                             |
| `<<1, 2>>`              | `tuple`                                 |
| `[x |-> 1]`             | `Function`                              |
| `(r1 :> 1 @@ r2 :> 2)`  | `Function`, or a `tuple` for a domain 1..n |

Equality is TLA+'s: a record equals the function with the same string keys, and a function whose
domain is 1..n is a sequence, the empty one included. There is one trap. Python says `True == 1`;
TLA+ has no such equality (TLC calls the question an error). So `same_value` compares strictly, and
a set or a function's domain that holds both `TRUE` and 1, or `FALSE` and 0, is refused rather than
silently merged. TLC never prints one.

This module holds the types. `value_text` reads and writes them as TLA+, `value_json` as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs


@attrs.frozen(slots=True)
class ModelValue:
    """A constant that equals only itself, such as a replica's name (`r1 = r1` in a .cfg)."""

    name: str

    def __str__(self) -> str:
        return self.name


class Function(Mapping["Value", "Value"]):
    """An immutable, hashable TLA+ function or record: `f[key]` reads it.

    Build one with `function()`, which gives a tuple when the domain is 1..n, as TLA+ does.
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[Any, Value]) -> None:
        self._items: dict[Value, Value] = dict(items)
        self._hash: int | None = None
        if is_sequence_domain(self._items):
            raise ValueError("a function over 1..n is a sequence: build it with function()")

    def __getitem__(self, key: Value) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Function):
            return self._items == other._items
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Function({self._items!r})"

    def __reduce__(self) -> tuple[type[Function], tuple[dict[Value, Value]]]:
        # Hashes of strings differ between processes, so the cached one must not travel.
        return (Function, (self._items,))

    @property
    def is_record(self) -> bool:
        """Whether every key is a string, which is all that makes a record a record."""
        return all(isinstance(key, str) for key in self._items)


Value: TypeAlias = (
    bool | int | str | ModelValue | frozenset["Value"] | tuple["Value", ...] | Function
)
State: TypeAlias = Mapping[str, Value]


def is_sequence_domain(keys: Iterable[Value]) -> bool:
    """Tell whether these keys are exactly 1..n, which makes a function of them a sequence."""
    distinct = list(keys)
    if not all(type(key) is int for key in distinct):
        return False
    return set(distinct) == set(range(1, len(distinct) + 1))


def function(items: Mapping[Any, Value] | Iterable[tuple[Value, Value]]) -> Value:
    """Build the TLA+ function with these key and value pairs: a tuple if its domain is 1..n."""
    # Mapping[Any, ...], because a mapping is invariant in its keys: dict[str, int] must do.
    pairs: list[tuple[Value, Value]]
    pairs = list(items.items()) if isinstance(items, Mapping) else list(items)
    table: dict[Value, Value] = {}
    for key, value in pairs:
        # TLA+'s @@ keeps the left operand's value where both have the key.
        table.setdefault(key, value)
    if len(table) < len(pairs):
        _refuse_conflation(key for key, _ in pairs)
    if is_sequence_domain(table):
        return tuple(table[number] for number in range(1, len(table) + 1))
    return Function(table)


def set_of(items: Iterable[Value]) -> frozenset[Value]:
    """Build a TLA+ set, refusing one whose elements only Python thinks are equal."""
    elements = list(items)
    result = frozenset(elements)
    if len(result) < len(elements):
        _refuse_conflation(elements)
    return result


def same_value(left: Value, right: Value) -> bool:
    """Tell whether two values are the same in TLA+, where TRUE is not 1."""
    # Python's equality is the coarser one, so it decides every difference cheaply.
    return left == right and _strict(left) == _strict(right)


def _strict(value: Value) -> object:
    """Give a key that is equal exactly when the TLA+ values are."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, tuple):
        return tuple(_strict(item) for item in value)
    if isinstance(value, frozenset):
        return frozenset(_strict(item) for item in value)
    if isinstance(value, Function):
        return ("fn", frozenset((_strict(key), _strict(value[key])) for key in value))
    return value


def _refuse_conflation(elements: Iterable[Value]) -> None:
    by_python: dict[Value, object] = {}
    for element in elements:
        strict = _strict(element)
        if by_python.setdefault(element, strict) != strict:
            raise ValueError(f"TRUE and 1, or FALSE and 0, in one set or domain ({element!r})")
