"""A node's properties file with what the command line changes about it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from net.settings import BadSetting, BrokerSettings, load_properties
from spec.runner import JobError


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Read `name=value` as options have them; a name comes once."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise JobError(f"{option} {text!r}: write it as name=value")
        if name.strip() in found:
            raise JobError(f"{option} {text!r}: {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found


def read_settings(file: Path, overrides: Iterable[str] = ()) -> BrokerSettings:
    """Read a properties file; what is wrong with it becomes one line that names the file."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise JobError(f"{file}: not UTF-8 at byte {error.start}") from None
    given = load_properties(text, str(file)) | parse_pairs(overrides, "--override")
    try:
        return BrokerSettings.from_mapping(given)
    except BadSetting as error:
        raise JobError(f"{file}: {error}") from None
