"""The protocol stays pure: nothing in `protocol/` can reach a clock, a file, a socket or chance.

import-linter sees imports; this also sees built-ins that need none, and imports by name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

# The six that the design names come first; the others are ways around them.
BANNED_MODULES = {
    *("time", "random", "os", "socket", "trio"),
    *("asyncio", "secrets", "uuid", "io", "pathlib", "shutil", "tempfile", "glob"),
    *("subprocess", "multiprocessing", "threading", "concurrent", "signal", "select", "selectors"),
    *("ssl", "http", "urllib", "logging", "importlib", "builtins", "ctypes", "sys"),
}
BANNED_BUILTINS = {"open", "print", "input", "eval", "exec", "compile", "breakpoint", "__import__"}
# Pure modules with an impure function or two.
BANNED_ATTRIBUTES = {"now", "utcnow", "today"}


def impurities(source: str) -> Iterator[str]:
    """Yield a line for every name in a module through which it could touch the world."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported = [node.module or ""]
        else:
            imported = []
        for name in imported:
            if name.split(".")[0] in BANNED_MODULES:
                yield f"imports {name}"
        if isinstance(node, ast.Name) and node.id in BANNED_BUILTINS:
            yield f"line {node.lineno}: uses {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in BANNED_ATTRIBUTES:
            yield f"line {node.lineno}: uses .{node.attr}"


def test_the_protocol_is_pure(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {line}"
        for path in sorted(root.joinpath("protocol").rglob("*.py"))
        for line in impurities(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import random as r",
        "from os import path",
        "import os.path",
        "import socket",
        "import trio.lowlevel",
        "def f():\n    from time import monotonic",
        "if TYPE_CHECKING:\n    import trio",
        "open('x')",
        "reader = open",
        "__import__('os')",
        "import importlib\nimportlib.import_module('os')",
        "import datetime\nx = datetime.datetime.now()",
    ],
)
def test_a_way_to_touch_the_world_is_seen(source: str) -> None:
    assert list(impurities(source))


@pytest.mark.parametrize(
    "source",
    [
        "import attrs, enum, math, collections.abc",
        "from .os import x",
        "def open_batch(): ...",
        "segment.open()",
        "now_ms = event.now_ms",
    ],
)
def test_pure_code_is_left_alone(source: str) -> None:
    assert list(impurities(source)) == []
