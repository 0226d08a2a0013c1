"""Reads the few things the runner must know about a TLC configuration (.cfg) file.

TLC itself reads and checks the file. This only finds the names TLC does not repeat in its answer.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

_COMMENT = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)
_PROPERTY_WORDS = frozenset({"PROPERTY", "PROPERTIES"})
_BEHAVIOUR_WORDS = frozenset({"SPECIFICATION", "INIT"})
# fmt: off
_OTHER_WORDS = frozenset(
    {
        "CONSTANT", "CONSTANTS", "CONSTRAINT", "CONSTRAINTS", "ACTION_CONSTRAINT",
        "ACTION_CONSTRAINTS", "INVARIANT", "INVARIANTS", "NEXT", "VIEW", "SYMMETRY", "TYPE",
        "TYPE_CONSTRAINT", "ALIAS", "POSTCONDITION", "CHECK_DEADLOCK",
    }
)
# fmt: on


@attrs.frozen
class Config:
    """What a .cfg file asks for: its temporal properties, and whether there is a behaviour."""

    properties: tuple[str, ...] = ()
    has_behaviour: bool = True

    @property
    def only_property(self) -> str | None:
        """The one temporal property listed, or None if there are several or none."""
        return self.properties[0] if len(self.properties) == 1 else None


def read_config(path: Path) -> Config:
    """Read a .cfg file; a malformed one gives what could be understood, as TLC will complain."""
    words = _COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace")).split()
    section = ""
    properties: list[str] = []
    for word in words:
        if word in _PROPERTY_WORDS | _BEHAVIOUR_WORDS | _OTHER_WORDS:
            section = word
        elif section in _PROPERTY_WORDS:
            properties.append(word)
    return Config(tuple(properties), has_behaviour=bool(_BEHAVIOUR_WORDS.intersection(words)))
