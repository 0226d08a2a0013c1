"""Java's .properties files, as Kafka reads them, but without the silence: a name comes once.

A line is `name=value`, `name: value` or `name value`. Lines that begin with # or ! are comments, a
backslash at the end continues a line, and \\t, \\n, \\r, \\f, \\uXXXX and any other character
after a backslash are escapes. What Java would take in silence and nobody means, such as a name
given twice, is refused with the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from net.errors import BadSetting

MAX_BYTES: Final = 1 << 20

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX: Final = re.compile(r"[0-9A-Fa-f]{4}")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def load_properties(text: str, file: str) -> dict[str, str]:
    """Read a file's text; `file` is its name, for errors."""
    if len(text) > MAX_BYTES:
        raise BadSetting(f"{file}: {len(text)} characters, where at most {MAX_BYTES} are read")
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in _logical_lines(text, file):
        place = f"{file}, line {number}"
        name, value = _split(line, place)
        if not name:
            raise BadSetting(f"{place}: a value without a name; write name=value")
        if name in found:
            raise BadSetting(f"{place}: {name} was set in line {lines[name]} already; keep one")
        found[name] = value
        lines[name] = number
    return found


def write_properties(values: Mapping[str, str], comment: str = "") -> str:
    """Write what `load_properties` reads."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [f"{_escaped(name, ' =:#!')}={_escaped(value, '')}" for name, value in values.items()]
    return "\n".join([*lines, ""])


def _escaped(text: str, also: str) -> str:
    back = {value: f"\\{key}" for key, value in _ESCAPES.items()}
    out = []
    for at, character in enumerate(text):
        if character in back:
            out.append(back[character])
        elif character == "\\" or character in also or (character == " " and not at):
            out.append("\\" + character)
        else:
            out.append(character)
    return "".join(out)


def _logical_lines(text: str, file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, continued ones joined, with the number of the first."""
    pending, first = "", 0
    number = 0
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(_BLANKS)
        if not first and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        first = first or number
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending, first = "", 0
    if first:
        raise BadSetting(f"{file}, line {number}: the last line is to be continued, but ends")


def _split(line: str, place: str) -> tuple[str, str]:
    """Split a line at the first separator that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in _BLANKS + "=:":
        at += 2 if line[at] == "\\" else 1
    name, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    elif not rest and at >= len(line):
        raise BadSetting(f"{place}: {name!r} has no value; write name=value")
    # Java keeps blanks at the end; Kafka's own readers trim them, and so does every kind here.
    return _unescaped(name, place), _unescaped(rest, place)


def _unescaped(text: str, place: str) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[at : at + 1]
        at += 1
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        match = _HEX.match(text, at)
        if match is None:
            raise BadSetting(f"{place}: \\u needs four hexadecimal digits")
        out.append(chr(int(match[0], 16)))
        at += 4
    return "".join(out)
