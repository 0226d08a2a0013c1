"""Runs every benchmark and writes docs/performance.md with what they print.

Usage: python scripts/performance.py. Run it on a machine that does nothing else.
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
never assertions on the clock.

Measured on {machine}.
"""


def machine() -> str:
    """Say what the figures were measured on, without naming it."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} on {platform.machine()}"
    python = f"Python {platform.python_version()}"
    return f"{system}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {python}"


def measured(path: Path) -> str:
    """Run one benchmark; return its part of the page."""
    title = path.stem.replace("_", " ").capitalize()
    about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").strip()
    print(f"{path.stem} ...", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{path.stem}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return f"\n## {title}\n\n{about}\n\n```text\n{done.stdout.strip()}\n```\n"


def main() -> None:
    """Measure everything and write the page."""
    parts = [measured(path) for path in sorted(ROOT.glob("benchmarks/[a-z]*.py"))]
    PAGE.write_text(HEAD.format(machine=machine()) + "".join(parts), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main()
