"""Splits the output of TLC's `-tool` mode into messages, as it streams.

A message is a number, a severity and a text:

    @!@!@STARTMSG 2110:1 @!@!@
    Invariant Small is violated.
    @!@!@ENDMSG 2110 @!@!@

Messages nest: an error may carry its cause as an inner message. What the numbers mean is
`interpreter`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs

_START = re.compile(r"(.*?)@!@!@STARTMSG (-?\d+):(\d+) @!@!@")
_END = re.compile(r"@!@!@ENDMSG -?\d+ @!@!@")

ERROR = 1
BUG = 2
WARNING = 3


@attrs.frozen
class Message:
    """One thing TLC says. An inner message comes before the outer one, whose text repeats it."""

    code: int
    severity: int
    text: str
    nested: bool = False


def read_messages(lines: Iterable[str]) -> Iterator[Message | str]:
    """Yield TLC's messages as they end, and as plain strings the lines outside any message."""
    open_messages: list[_Open] = []
    for line in lines:
        line = line.rstrip("\r\n")
        start = _START.match(line)
        if start is not None:
            if open_messages and start.group(1):
                open_messages[-1].lines.append(start.group(1))
            open_messages.append(_Open(int(start.group(2)), int(start.group(3))))
        elif open_messages and _END.match(line):
            yield _close(open_messages)
        elif open_messages:
            open_messages[-1].lines.append(line)
        else:
            yield line
    # TLC was cut off in the middle of a message: what it said may still explain why.
    for unfinished in open_messages:
        yield from unfinished.lines


@attrs.define
class _Open:
    code: int
    severity: int
    lines: list[str] = attrs.field(factory=list)


def _close(open_messages: list[_Open]) -> Message:
    ended = open_messages.pop()
    if open_messages:
        open_messages[-1].lines.extend(ended.lines)
    text = "\n".join(ended.lines).strip("\n")
    return Message(ended.code, ended.severity, text, nested=bool(open_messages))
