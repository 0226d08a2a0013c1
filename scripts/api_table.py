"""Keeps docs/tables/apis.md equal to what the broker and the controller serve.

With `--check` nothing is written, and the exit status says whether the table is up to date.
"""

import argparse
import sys
from pathlib import Path

from net.wire.table import table

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    page: Path = arguments.root / "docs" / "tables" / "apis.md"
    if not arguments.check:
        page.write_text(table(), encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == table():
        return 0
    print(f"{page.name} is out of date: run scripts/api_table.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
