"""Habits that every test keeps: none sleeps on the wall clock, none asserts a duration.

This is a reading of the source, not a proof: it follows names through plain assignments only.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SLEEPS = {
    *("time.sleep", "asyncio.sleep"),
    *("trio.sleep", "trio.sleep_until", "trio.sleep_forever"),
}
# With one of these parameters a test runs on pytest-trio's virtual clock, where sleeping is free.
VIRTUAL_CLOCKS = {"autojump_clock", "mock_clock"}
# Real processes and whole nodes tell nobody when they are ready: these ask again and again.
MAY_ASK_AGAIN = ("tests/net/cluster/harness.py", "tests/net/broker/live.py")
CLOCKS = {
    *("time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns"),
    *("time.perf_counter", "time.perf_counter_ns", "trio.current_time"),
    *("time.process_time", "datetime.datetime.now", "datetime.now"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def aliases(tree: ast.AST) -> dict[str, str]:
    """Return what each imported name stands for: `from time import sleep as nap` gives nap."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return known


def full_name(node: ast.AST, known: dict[str, str]) -> str:
    """Return the dotted name an expression spells, or nothing."""
    head, _, tail = (
        ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    ).partition(".")
    return ".".join(filter(None, [known.get(head, head), tail]))


def mentions(node: ast.AST, names: set[str], known: dict[str, str]) -> bool:
    """Whether an expression contains one of these dotted names."""
    return any(full_name(each, known) in names for each in ast.walk(node))


def on_virtual_clock(function: Function) -> bool:
    """Whether a test takes a fixture that replaces the clock."""
    return any(argument.arg in VIRTUAL_CLOCKS for argument in function.args.args)


def wall_clock_sleeps(tree: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """Yield every use of a sleeping function outside a test on a virtual clock."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function) and on_virtual_clock(node):
            continue
        if full_name(node, known) in SLEEPS:
            yield f"line {getattr(node, 'lineno', 0)}: sleeps"
        yield from wall_clock_sleeps(node, known)


def asserted_durations(tree: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """Yield every assertion about a value that came from a clock."""
    for function in ast.walk(tree):
        if not isinstance(function, Function) or on_virtual_clock(function):
            continue
        timed = set(CLOCKS)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and mentions(node.value, timed, known):
                timed |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Assert) and mentions(node.test, timed, known):
                yield f"line {node.lineno}: asserts a duration"


def bad_habits(source: str) -> list[str]:
    """List the bad habits of one file."""
    tree = ast.parse(source)
    known = aliases(tree)
    return [*wall_clock_sleeps(tree, known), *asserted_durations(tree, known)]


def test_no_test_waits_for_the_wall_clock_or_measures_it(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {line}"
        for path in sorted(root.joinpath("tests").rglob("*.py"))
        for line in bad_habits(path.read_text(encoding="utf-8"))
    ]
    assert [line for line in found if not line.startswith(MAY_ASK_AGAIN)] == []
    assert len(found) <= 3


@pytest.mark.parametrize(
    "source",
    [
        "import time\ndef test(): time.sleep(1)",
        "from time import sleep as nap\ndef test(): nap(1)",
        "import time as t\ndef test(): t.sleep(0.1)",
        "import asyncio\nasync def test(): await asyncio.sleep(1)",
        "import trio\nasync def test(): await trio.sleep(1)",
        "import trio\nasync def test(nursery): nursery.start_soon(trio.sleep, 1)",
        "import time\ndef test():\n s = time.monotonic()\n f()\n assert time.monotonic() - s < 1",
        "import time\ndef test():\n s = time.time()\n d = time.time() - s\n assert d < 1",
        "from time import perf_counter\ndef test():\n s = perf_counter()\n assert s > 1",
    ],
)
def test_a_bad_habit_is_seen(source: str) -> None:
    assert bad_habits(source)


@pytest.mark.parametrize(
    "source",
    [
        "import trio\nasync def test(autojump_clock): await trio.sleep(1)",
        "import trio\nasync def test(mock_clock):\n t = trio.current_time()\n assert t == 0",
        "import time\ndef test():\n started = time.monotonic()\n print(started)\n assert f()",
        "def test(process): process.wait(timeout=10)",
    ],
)
def test_a_good_habit_is_left_alone(source: str) -> None:
    assert bad_habits(source) == []
