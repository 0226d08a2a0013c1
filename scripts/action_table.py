"""Keeps the table of actions in docs/protocol.md equal to what the machines have registered.

Which event leads to which action, and which actions of the spec that mirrors, is written where the
action is; this copies it. With `--check` nothing is written, and the exit status says whether the
page is up to date. The numbered prose is written by hand, outside the markers.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol.controller import Controller
from protocol.idempotence import ProducerClient, Sequences
from protocol.machine import Action, Machine
from protocol.quorum import Quorum
from protocol.replication import Replica

ROOT = Path(__file__).resolve().parent.parent
MACHINES: tuple[type[Machine[Any, Any]], ...] = (
    Replica,
    Controller,
    Sequences,
    ProducerClient,
    Quorum,
)
BEGIN = "<!-- actions: written by `make docs`, do not edit -->"
END = "<!-- end of actions -->"


def row(action: Action) -> str:
    """Write one action: a row of the table."""
    spec = ", ".join(f"`{name}`" for name in action.mirrors) or "-"
    return f"| `{action.event.__name__}` | `{action.name}` | {spec} |"


def table(machine: type[Machine[Any, Any]]) -> Iterator[str]:
    """Yield the lines of a machine's table: what mirrors the spec first, then by name."""
    yield f"### `{machine.__name__}`"
    yield ""
    yield "| event | action | mirrors |"
    yield "| --- | --- | --- |"
    for action in sorted(machine.actions, key=lambda each: (not each.mirrors, each.event.__name__)):
        yield row(action)


def render() -> str:
    """Write the section: one table per machine."""
    return "\n\n".join("\n".join(table(machine)) for machine in MACHINES)


def updated(page: str, section: str) -> str:
    """Return the page with the part between the markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit("docs/protocol.md has lost its markers")
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{after}"


def main() -> int:
    """Rewrite the page, or only compare it."""
    parser = argparse.ArgumentParser(description="Write the actions into docs/protocol.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to look at")
    arguments = parser.parse_args()
    path = arguments.root / "docs" / "protocol.md"
    page = path.read_text(encoding="utf-8")
    fresh = updated(page, render())
    if arguments.check:
        if page != fresh:
            print("docs/protocol.md is not up to date; run `make docs`", file=sys.stderr)
        return int(page != fresh)
    path.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
