"""Finds named operators in the text of our TLA+ modules, by the comments that mark them.

It is not a parser for TLA+: it relies on how our modules are written. A rule stands at the left
margin below a comment that begins with GUARD (it answers yes or no) or CHOICE (it picks a value).
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

_DEFINITION = re.compile(r"^(?P<name>[A-Za-z]\w*)(?:\((?P<parameters>[^()]*)\))? ==", re.MULTILINE)
_COMMENT_LINE = re.compile(r"\(\*(?P<text>.*)\*\)\Z")
_RULE = re.compile(r"(?P<kind>GUARD|CHOICE)\b")
_EXTENDS = re.compile(r"^EXTENDS (?P<modules>.+)$", re.MULTILINE)


@attrs.frozen
class Operator:
    """A definition in a module: its name, its parameters, its text, and the comment above it."""

    name: str
    parameters: tuple[str, ...]
    text: str
    comment: str

    @property
    def rule_kind(self) -> str | None:
        """GUARD or CHOICE if the comment marks this as a rule."""
        match = _RULE.match(self.comment)
        return match["kind"] if match else None


def operators(module: Path) -> list[Operator]:
    """List the operators that a module defines at its left margin, in order."""
    text = module.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = []
    for match in _DEFINITION.finditer(text):
        at = text.count("\n", 0, match.start())
        parameters = match["parameters"] or ""
        found.append(
            Operator(
                name=match["name"],
                parameters=tuple(name.strip() for name in parameters.split(",") if name.strip()),
                text=_body(lines, at),
                comment=_comment_above(lines, at),
            )
        )
    return found


def modules(module: Path, *library: Path) -> list[Path]:
    """List a module and all that it extends, directly or not; TLC's own modules are left out.

    They are looked for beside the module that names them, and in the folders of the library.
    """
    found = [module]
    for each in found:
        match = _EXTENDS.search(each.read_text(encoding="utf-8"))
        for name in match["modules"].split(",") if match else ():
            places = (folder / f"{name.strip()}.tla" for folder in (each.parent, *library))
            found += [path for path in places if path.is_file() and path not in found][:1]
    return found


def rules(module: Path) -> list[Operator]:
    """List the rules that a spec lives by: every choice that a bug could get wrong."""
    return [
        operator
        for each in modules(module)
        for operator in operators(each)
        if operator.rule_kind is not None
    ]


def guards(module: Path) -> list[Operator]:
    """List the rules that answer yes or no."""
    return [rule for rule in rules(module) if rule.rule_kind == "GUARD"]


def _body(lines: list[str], at: int) -> str:
    end = at + 1
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return "\n".join(lines[at:end])


def _comment_above(lines: list[str], at: int) -> str:
    texts: list[str] = []
    for line in reversed(lines[:at]):
        match = _COMMENT_LINE.match(line)
        if match is None:
            break
        texts.insert(0, match["text"].strip())
    return " ".join(" ".join(texts).split())
