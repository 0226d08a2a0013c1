r"""Reads a whole TLA+ state, as TLC prints one.

    /\ x = 1
    /\ log = <<>>

A state of a single variable is printed without the `/\`. A long value goes on over indented lines.
"""

from __future__ import annotations

import re

from spec.runner.errors import ValueSyntaxError
from spec.runner.value_text import parse_value
from spec.runner.values import Value

_VARIABLE = re.compile(r"^(?:/\\ )?(\w+) = ?", re.MULTILINE)


def parse_state(text: str) -> dict[str, Value]:
    """Read a state: the value of every variable, by name."""
    starts = list(_VARIABLE.finditer(text))
    if not starts or text[: starts[0].start()].strip():
        raise ValueSyntaxError("expected a variable's name and value", text, 0)
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {
        start.group(1): parse_value(text[start.end() : end].rstrip())
        for start, end in zip(starts, ends, strict=True)
    }
