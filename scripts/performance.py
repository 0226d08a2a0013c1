"""Runs every benchmark and writes docs/performance.md with what they print.

Usage: python scripts/performance.py [NAME ...]. With names, those benchmarks are measured anew and
the rest of the page stays. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
HEAD = """\
# Performance

Written by `make performance`, which runs what `make bench` runs; do not edit. Speeds depend on the
machine, so most figures are ratios against something else in the same run. They are goals to watch,
never assertions on the clock. `python -m benchmarks.broker_produce --peer kafka`, and the same of
`broker_replication`, measure Apache Kafka beside ours. A part can be measured anew by itself, so
parts may be of different runs and machines.

Measured on {machine}.
"""


def machine() -> str:
    """Say what the figures were measured on, without naming it."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} on {platform.machine()}"
    python = f"Python {platform.python_version()}"
    return f"{system}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {python}"


def title_of(path: Path) -> str:
    """Name a benchmark as the page does."""
    return path.stem.replace("_", " ").capitalize()


def measured(path: Path) -> str:
    """Run one benchmark; return its part of the page."""
    about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").strip()
    print(f"{path.stem} ...", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{path.stem}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return f"\n## {title_of(path)}\n\n{about}\n\n```text\n{done.stdout.strip()}\n```\n"


def kept() -> dict[str, str]:
    """Read the parts of the page as it is, by title."""
    _, *parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    return {part.partition("\n")[0]: f"\n## {part}" for part in parts}


def main(names: list[str]) -> None:
    """Measure everything, or what is named, and write the page."""
    paths = sorted(ROOT.glob("benchmarks/[a-z]*.py"))
    if unknown := set(names) - {path.stem for path in paths}:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}")
    old = kept() if names else {}
    parts = [
        old[title_of(path)] if title_of(path) in old and path.stem not in names else measured(path)
        for path in paths
    ]
    PAGE.write_text(HEAD.format(machine=machine()) + "".join(parts), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main(sys.argv[1:])
