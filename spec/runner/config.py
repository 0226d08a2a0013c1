"""Reads and writes TLC configuration (.cfg) files, as far as hwmark needs to compose them.

TLC itself reads and checks the file it is given. This knows its statements, not what they mean: a
constant's value stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

_COMMENT = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)
# Each statement under the one spelling that is written.
_STATEMENTS = {
    "SPECIFICATION": "SPECIFICATION",
    "INIT": "INIT",
    "NEXT": "NEXT",
    "CONSTANT": "CONSTANTS",
    "CONSTANTS": "CONSTANTS",
    "SYMMETRY": "SYMMETRY",
    "VIEW": "VIEW",
    "CONSTRAINT": "CONSTRAINTS",
    "CONSTRAINTS": "CONSTRAINTS",
    "ACTION_CONSTRAINT": "ACTION_CONSTRAINTS",
    "ACTION_CONSTRAINTS": "ACTION_CONSTRAINTS",
    "INVARIANT": "INVARIANTS",
    "INVARIANTS": "INVARIANTS",
    "PROPERTY": "PROPERTIES",
    "PROPERTIES": "PROPERTIES",
    "TYPE": "TYPE",
    "TYPE_CONSTRAINT": "TYPE_CONSTRAINT",
    "ALIAS": "ALIAS",
    "POSTCONDITION": "POSTCONDITION",
    "CHECK_DEADLOCK": "CHECK_DEADLOCK",
}
_WORD = re.compile(r"\b(" + "|".join(_STATEMENTS) + r")\b")
# A value ends where the next constant's name begins.
_CONSTANT = re.compile(r"(\w+)\s*(=|<-)\s*(.*?)(?=\s+\w+\s*(?:=|<-)|\s*\Z)", re.DOTALL)


@attrs.frozen
class Config:
    """What a .cfg file says: its constants by name, and the words of every other statement.

    A constant's text keeps its sign: `= 2` for a value, `<- Wrong` for a replaced operator.
    """

    constants: Mapping[str, str] = attrs.field(factory=dict)
    statements: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def invariants(self) -> tuple[str, ...]:
        """The names of the invariants to check."""
        return self.statements.get("INVARIANTS", ())

    @property
    def properties(self) -> tuple[str, ...]:
        """The names of the temporal and action properties to check."""
        return self.statements.get("PROPERTIES", ())

    @property
    def has_behaviour(self) -> bool:
        """Whether there is anything to run, rather than assumptions alone."""
        return "SPECIFICATION" in self.statements or "INIT" in self.statements

    @property
    def only_property(self) -> str | None:
        """The one temporal property listed, or None if there are several or none."""
        return self.properties[0] if len(self.properties) == 1 else None


def read_config(path: Path) -> Config:
    """Read a .cfg file; a malformed one gives what could be understood, as TLC will complain."""
    return parse_config(path.read_text(encoding="utf-8", errors="replace"))


def parse_config(text: str) -> Config:
    """Read the text of a .cfg file."""
    constants: dict[str, str] = {}
    statements: dict[str, tuple[str, ...]] = {}
    for word, body in _sections(_COMMENT.sub(" ", text)):
        if word == "CONSTANTS":
            constants |= {
                name: f"{sign} {' '.join(value.split())}"
                for name, sign, value in _CONSTANT.findall(body)
            }
        else:
            statements[word] = statements.get(word, ()) + tuple(body.split())
    return Config(constants, statements)


def format_config(config: Config) -> str:
    """Write a configuration as the text of a .cfg file."""
    lines = [f"{word} {' '.join(names)}" for word, names in config.statements.items()]
    if config.constants:
        lines.append("CONSTANTS")
        lines += [f"    {name} {value}" for name, value in config.constants.items()]
    return "\n".join(lines) + "\n"


def _sections(text: str) -> Iterator[tuple[str, str]]:
    # Splitting by a group gives the words and what follows each, after what precedes them all.
    parts = _WORD.split(text)[1:]
    for word, body in zip(parts[::2], parts[1::2], strict=True):
        yield _STATEMENTS[word], body
