"""One setting: its name, kind, default and range; and how a mapping of texts becomes values.

A class of settings is an attrs class whose fields are declared with `setting(...)`. A field's name
is the setting's with the dots replaced, so `num.partitions` is `num_partitions`, and what is
declared there is all that is known: reading, describing and the table in the docs follow from it.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

import attrs

from net.errors import BadSetting
from net.settings.kinds import Kind

T = TypeVar("T")
D = TypeVar("D")

_KEY: Final = "setting"
_SHOWN_CHARACTERS: Final = 100


class Dynamic(enum.Enum):
    """Whether a broker's setting can be changed while it runs, and for whom."""

    NO = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@attrs.frozen
class BrokerName:
    """A broker's setting that a topic's default comes from, in a unit `factor` times as large."""

    name: str
    factor: int = 1


@attrs.frozen
class Setting:
    """What is known of one setting."""

    name: str
    kind: Kind[Any]
    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    dynamic: Dynamic = Dynamic.NO
    broker_names: tuple[BrokerName, ...] = ()

    @property
    def field(self) -> str:
        """The name of the attribute."""
        return self.name.replace(".", "_")

    @property
    def default_text(self) -> str | None:
        """The default as a properties file would have it; None if there is none."""
        return None if self.default is None else self.kind.write(self.default)

    @property
    def valid(self) -> str:
        """What may be written, in words."""
        if self.choices:
            return "one of " + ", ".join(choice or "(empty)" for choice in self.choices)
        if self.low is not None and self.high is not None:
            return f"{self.kind.word}, {_number(self.low)} to {_number(self.high)}"
        if self.low is not None:
            return f"{self.kind.word}, at least {_number(self.low)}"
        return self.kind.word

    def read(self, text: str) -> Any:
        """Read a value, or raise `BadSetting` that says what was wrong and what to write."""
        try:
            value = self.kind.read(text)
        except ValueError as error:
            raise self.bad(text, str(error)) from None
        if self.choices:
            for each in value if self.kind.is_list else (value,):
                if each not in self.choices:
                    raise self.bad(text, f"{shown(str(each))} is not known")
            if self.kind.is_list and not value:
                raise self.bad(text, "nothing is named")
        low, high = self.low, self.high
        if (low is not None and value < low) or (high is not None and value > high):
            raise self.bad(text, "out of range")
        return value

    def bad(self, text: str, why: str) -> BadSetting:
        """Make the error that names this setting and its value."""
        return BadSetting(f"{self.name}={shown(text)}: {why}; use {self.valid}")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def shown(text: str) -> str:
    """Cut a text that is too long for a message."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def setting(
    kind: Kind[T],
    default: D,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    dynamic: Dynamic = Dynamic.NO,
    broker: tuple[BrokerName, ...] | str = (),
) -> T | D:
    """Declare a setting as a field of an attrs class."""
    names = (BrokerName(broker),) if isinstance(broker, str) else broker
    known = Setting("", kind, default, doc, low, high, choices, dynamic, names)
    return attrs.field(default=default, metadata={_KEY: known})


@cache
def settings_of(owner: type[Any]) -> Mapping[str, Setting]:
    """Return the settings that a class declares, by name, in the order of declaration."""
    found = {}
    for field in attrs.fields(owner):
        known = field.metadata.get(_KEY)
        if known is not None:
            name = field.name.replace("_", ".")
            found[name] = attrs.evolve(known, name=name)
    return found


def find(table: Mapping[str, Setting], name: str, what: str) -> Setting:
    """Look a setting up; one that is not known is refused together with the nearest that is."""
    known = table.get(name)
    if known is None:
        near = difflib.get_close_matches(shown(name), table, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadSetting(f"{shown(name)} is no setting of a {what} that is known here{hint}")
    return known


def read_all(table: Mapping[str, Setting], given: Mapping[str, str], what: str) -> dict[str, Any]:
    """Read every given text; return values by attribute."""
    values = {}
    for name, text in given.items():
        known = find(table, name, what)
        values[known.field] = known.read(text)
    return values
