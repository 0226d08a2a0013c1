"""Turns TLC's many ways of complaining into one clear line, with file and line where there is one.

It only words errors; whether something is an error is decided in `interpreter`.
"""

from __future__ import annotations

import re
from pathlib import Path

from spec.runner.location import find_location, find_locations

_PARSED_FILE = re.compile(r"Parsing file (.+)")
_ENCOUNTERED = re.compile(r'Encountered "(.*)" at line (\d+), column (\d+)')
_EXPECTED = re.compile(r'Was expecting "(.*)"')
_LEXICAL = re.compile(r"Lexical error at line (\d+), column (\d+)\.\s*(.*)")
_CONFIG_LINE = re.compile(r"TLC found an error in the configuration file at line (\d+)\s*")
_UNKNOWN_PLACE = "Unknown location"
_WRAPPERS = (
    re.compile(
        r"TLC threw an unexpected exception\..*?The exception was an? [\w.$]+\s*:", re.DOTALL
    ),
    re.compile(r"\s*While working on the initial state:.*", re.DOTALL),
)


def one_line(text: str) -> str:
    """Put a text of several lines into one."""
    return " ".join(text.split())


def parse_failure(lines: list[str]) -> str:
    """Word what SANY, TLC's parser, said about a module it could not read."""
    return _syntax_error(lines) or _semantic_error(lines) or _aborted(lines) or "parsing failed"


def evaluation_failure(text: str, positions: str) -> str:
    """Word an error of evaluation, with the innermost expression that TLC was evaluating."""
    for wrapper in _WRAPPERS:
        text = wrapper.sub(" ", text)
    where = find_locations(positions) or find_locations(text)
    prefix = f"{where[-1].point}: " if where else ""
    return prefix + one_line(text)


def config_failure(text: str, config: Path) -> str:
    """Word a complaint about the configuration file, with its line when TLC gives one."""
    line = _CONFIG_LINE.search(text)
    if line is None:
        return f"{config.name}: {one_line(text)}"
    return f"{config.name}:{line.group(1)}: {one_line(text[line.end() :])}"


def out_of_memory(memory_mb: int | None) -> str:
    """Word that TLC ran out of memory, and which setting to raise."""
    had = f"{memory_mb} MB" if memory_mb is not None else "Java's default share of this machine"
    return f"TLC ran out of memory with {had}: raise memory_mb (--memory-mb)"


def _syntax_error(lines: list[str]) -> str | None:
    file_name, expected = "module", ""
    for line in lines:
        if match := _PARSED_FILE.match(line):
            file_name = Path(match.group(1)).name
        elif match := _EXPECTED.match(line):
            expected = f", expected {match.group(1)}"
        elif match := _ENCOUNTERED.match(line):
            found, row, column = match.groups()
            return f'{file_name}:{row}:{column}: syntax error at "{found}"{expected}'
        elif match := _LEXICAL.match(line):
            row, column, rest = match.groups()
            return f"{file_name}:{row}:{column}: lexical error: {one_line(rest)}"
    return None


def _semantic_error(lines: list[str]) -> str | None:
    """Find the first `*** Errors: n` block: a location, a blank line, and the complaint."""
    start = next((i for i, line in enumerate(lines) if line.startswith("*** Errors:")), None)
    if start is None:
        return None
    words = [line for line in lines[start + 1 :] if line.strip()]
    location = find_location(words[0]) if words else None
    if location is None:
        return one_line(" ".join(words[:2])) or None
    count = int(lines[start].removeprefix("*** Errors:").strip() or 1)
    more = f" (and {count - 1} more)" if count > 1 else ""
    return f"{location.point}: {one_line(' '.join(words[1:2]))}{more}"


def _aborted(lines: list[str]) -> str | None:
    start = next((i for i, line in enumerate(lines) if line.startswith("*** Abort")), None)
    if start is None:
        return None
    words = [line for line in lines[start + 1 :] if line.strip() and line.strip() != _UNKNOWN_PLACE]
    return one_line(words[0]) if words else None


def last_words(text: str) -> str | None:
    """Pick the line that explains a crash: the first of its messages, not the stack below it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "@!@!@"))]
    for line in told:
        if "Exception" in line or "Error" in line:
            return line.partition("@!@!@")[0].strip(" :") or line
    return told[-1] if told else None
