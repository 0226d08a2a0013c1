"""The kinds of values that settings have: how each is read, written, and numbered on the wire.

Reading is Kafka's: blanks around a value do not count, numbers fit into Java's types. A reader
raises `ValueError` with what is wrong; which setting it was is for the caller to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import attrs

from net.settings.addresses import Listener, Voter, parse_listener, parse_voter

T = TypeVar("T")

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MAX_ITEMS: Final = 1_000
"""No list of settings is longer; a line of gigabytes becomes no million objects."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


@attrs.frozen
class Kind(Generic[T]):
    """One kind of value; `number` is what DescribeConfigs calls it."""

    word: str
    number: int
    read: Callable[[str], T]
    write: Callable[[T], str]
    is_list: bool = False


def _whole(largest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        text = text.strip()
        if not _WHOLE.fullmatch(text):
            raise ValueError("not a whole number")
        value = int(text)
        if not -largest - 1 <= value <= largest:
            raise ValueError(f"not between {-largest - 1} and {largest}")
        return value

    return read


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("neither true nor false")
    return word == "true"


def split_list(text: str) -> list[str]:
    """Split a list of Kafka's: commas between the items, blanks around them do not count."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(parts) > MAX_ITEMS:
        raise ValueError(f"{len(parts)} items, where at most {MAX_ITEMS} are taken")
    return parts


def _list_of(read_one: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    def read(text: str) -> tuple[T, ...]:
        items = split_list(text)
        if "" in items:
            raise ValueError("an empty item between two commas")
        return tuple(read_one(item) for item in items)

    return read


def _joined(values: tuple[object, ...]) -> str:
    return ",".join(map(str, values))


def _pair(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (name and colon and value):
        raise ValueError(f"{text!r} is not of the form NAME:VALUE")
    return name.strip(), value.strip()


BOOLEAN: Final[Kind[bool]] = Kind("boolean", 1, _truth, lambda value: str(value).lower())
STRING: Final[Kind[str]] = Kind("string", 2, str.strip, str)
INT: Final[Kind[int]] = Kind("int", 3, _whole(MAX_INT), str)
LONG: Final[Kind[int]] = Kind("long", 5, _whole(MAX_LONG), str)
DOUBLE: Final[Kind[float]] = Kind("double", 6, _fraction, str)
LIST: Final[Kind[tuple[str, ...]]] = Kind("list", 7, _list_of(str), _joined, is_list=True)
CLASS: Final[Kind[str]] = Kind("class", 8, str.strip, str)
LISTENERS: Final[Kind[tuple[Listener, ...]]] = Kind(
    "list of NAME://host:port", 7, _list_of(parse_listener), _joined, is_list=True
)
VOTERS: Final[Kind[tuple[Voter, ...]]] = Kind(
    "list of id@host:port", 7, _list_of(parse_voter), _joined, is_list=True
)
PAIRS: Final[Kind[tuple[tuple[str, str], ...]]] = Kind(
    "list of NAME:VALUE",
    7,
    _list_of(_pair),
    lambda pairs: ",".join(f"{name}:{value}" for name, value in pairs),
    is_list=True,
)
