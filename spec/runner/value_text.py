"""Reads and writes TLA+ values in TLA+ syntax, as TLC prints them.

It knows the values TLC prints for states (`values` lists them), not expressions: `1 + 1` is no
value. Large sets that TLC leaves unevaluated, such as `[Node -> Int]`, are refused too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from spec.runner.errors import ValueSyntaxError
from spec.runner.values import Function, ModelValue, Value, function, set_of

# One token. An identifier may start with digits (`2pc`), so it is tried before a number.
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>[0-9]*[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>-?[0-9]+)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<mark><<|>>|\|->|:>|@@|\.\.|[{}\[\](),])
    )""",
    re.VERBOSE,
)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "f": "\f", "r": "\r"}
_UNESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\f": "\\f", "\r": "\\r"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# fmt: off
_RESERVED = frozenset(
    {
        "ASSUME", "ASSUMPTION", "AXIOM", "CASE", "CHOOSE", "CONSTANT", "CONSTANTS", "DOMAIN",
        "ELSE", "ENABLED", "EXCEPT", "EXTENDS", "FALSE", "IF", "IN", "INSTANCE", "LAMBDA", "LET",
        "LOCAL", "MODULE", "OTHER", "SF_", "SUBSET", "THEN", "THEOREM", "TRUE", "UNCHANGED",
        "UNION", "VARIABLE", "VARIABLES", "WF_", "WITH",
    }
)
# fmt: on
_INTERVAL_LIMIT = 1_000_000
_END = "end of text"


def parse_value(text: str) -> Value:
    """Read one TLA+ value; raise `ValueSyntaxError` if the text is anything else."""
    parser = _Parser(text)
    try:
        value = parser.value()
    except RecursionError:
        raise ValueSyntaxError("value is nested too deeply", text, 0) from None
    if parser.kind != "end":
        raise parser.error("expected nothing more")
    return value


def format_value(value: Value) -> str:
    """Write a value as TLA+; equal values give equal texts, and `parse_value` reads them back."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(_UNESCAPED.get(char, char) for char in value) + '"'
    if isinstance(value, ModelValue):
        return value.name
    if isinstance(value, tuple):
        return "<<" + ", ".join(map(format_value, value)) + ">>"
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(format_value, in_order(value))) + "}"
    return _format_function(value)


def in_order(values: frozenset[Value] | Function) -> list[Value]:
    """List a set's elements or a function's keys in one fixed order, numbers by size."""
    return sorted(values, key=_order)


def is_field_name(key: Value) -> bool:
    """Tell whether a key can stand in `[key |-> value]`, rather than as a quoted string."""
    return isinstance(key, str) and bool(_IDENTIFIER.match(key)) and key not in _RESERVED


def _format_function(value: Function) -> str:
    keys = in_order(value)
    if all(map(is_field_name, keys)):
        return "[" + ", ".join(f"{key} |-> {format_value(value[key])}" for key in keys) + "]"
    return "(" + " @@ ".join(f"{format_value(k)} :> {format_value(value[k])}" for k in keys) + ")"


def _order(value: Value) -> tuple[int, int, str]:
    if isinstance(value, bool):
        return (0, int(value), "")
    if isinstance(value, int):
        return (1, value, "")
    return (2, 0, format_value(value))


class _Parser:
    """A recursive descent over one text, holding the token it stands on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.next_at = 0
        self.advance()

    def advance(self) -> None:
        """Step to the next token."""
        match = _TOKEN.match(self.text, self.next_at)
        if match is not None and match.lastgroup is not None:
            self.kind: str = match.lastgroup
            self.token: str = match.group(self.kind)
            self.next_at = match.end()
            return
        if self.text[self.next_at :].strip():
            raise ValueSyntaxError("unexpected character", self.text, self.next_at)
        self.kind, self.token = "end", _END

    def error(self, problem: str) -> ValueSyntaxError:
        """Describe a problem with the token it stands on."""
        position = self.next_at - (0 if self.kind == "end" else len(self.token))
        return ValueSyntaxError(f"{problem}, found {self.token}", self.text, position)

    def expect(self, mark: str) -> None:
        """Step over this very mark, or fail."""
        if self.token != mark or self.kind != "mark":
            raise self.error(f"expected {mark}")
        self.advance()

    def at(self, mark: str) -> bool:
        """Tell whether it stands on this mark."""
        return self.kind == "mark" and self.token == mark

    def value(self) -> Value:
        """Read the value that starts here."""
        kind, token = self.kind, self.token
        if kind == "number":
            self.advance()
            return self.interval(int(token)) if self.at("..") else int(token)
        if kind == "name":
            self.advance()
            return _CONSTANTS[token] if token in _CONSTANTS else ModelValue(token)
        if kind == "string":
            self.check_escapes(token)
            self.advance()
            return _unquote(token)
        reader = _READERS.get(token) if kind == "mark" else None
        if reader is None:
            raise self.error("expected a value")
        return reader(self)

    def check_escapes(self, token: str) -> None:
        for escape in re.findall(r"\\(.)", token, re.DOTALL):
            if escape not in _ESCAPES:
                raise self.error(f"unknown escape \\{escape} in a string")

    def interval(self, low: int) -> Value:
        """Read the rest of `low..high`."""
        self.expect("..")
        if self.kind != "number":
            raise self.error("expected the interval's upper bound")
        high = int(self.token)
        if high - low >= _INTERVAL_LIMIT:
            raise self.error(f"interval {low}..{high} has more than {_INTERVAL_LIMIT} elements")
        self.advance()
        return frozenset(range(low, high + 1))

    def items(self, close: str) -> list[Value]:
        """Read comma-separated values up to a closing mark."""
        items: list[Value] = []
        self.advance()
        if not self.at(close):
            items.append(self.value())
            while self.at(","):
                self.advance()
                items.append(self.value())
        self.expect(close)
        return items

    def sequence(self) -> Value:
        """Read `<<a, b>>`."""
        return tuple(self.items(">>"))

    def set(self) -> Value:
        """Read `{a, b}`."""
        start = self.next_at
        try:
            return set_of(self.items("}"))
        except ValueError as problem:
            raise ValueSyntaxError(str(problem), self.text, start) from None

    def record(self) -> Value:
        """Read `[field |-> value, ...]`."""
        return self.pairs(self.field, ",", "|->", "]")

    def field(self) -> Value:
        if self.kind != "name":
            raise self.error("expected a field name")
        name = self.token
        self.advance()
        return name

    def function(self) -> Value:
        """Read `(key :> value @@ ...)`."""
        return self.pairs(self.value, "@@", ":>", ")")

    def pairs(self, key: Callable[[], Value], between: str, arrow: str, close: str) -> Value:
        start = self.next_at
        pairs: list[tuple[Value, Value]] = []
        while not pairs or self.at(between):
            self.advance()
            left = key()
            self.expect(arrow)
            pairs.append((left, self.value()))
        self.expect(close)
        try:
            return function(pairs)
        except ValueError as problem:
            raise ValueSyntaxError(str(problem), self.text, start) from None


def _unquote(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match.group(1)], token[1:-1])


_CONSTANTS: dict[str, Value] = {"TRUE": True, "FALSE": False}
_READERS: dict[str, Callable[[_Parser], Value]] = {
    "<<": _Parser.sequence,
    "{": _Parser.set,
    "[": _Parser.record,
    "(": _Parser.function,
}
