"""What the commands share at the terminal: a live bar, their tables, and lines beside them.

It prints; it decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hwmark.tables import Rows
from spec.runner import Bar, Progress


@contextmanager
def live(label: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Show under a label how far TLC has come: a bar on a terminal, nothing elsewhere."""
    if quiet:
        yield lambda _progress: None
        return
    with Bar(Console(stderr=True)) as bar:
        bar.update(label)
        yield lambda progress: bar.update(label, progress)


def say(text: str | Text = "", style: str = "") -> None:
    """Print a line to standard error, where it does not mix with tables or JSON."""
    Console(stderr=True, highlight=False).print(text, style=style, soft_wrap=True)


def report(
    rows: Rows, data: Sequence[object], *, as_json: bool, markdown: Path | None = None
) -> None:
    """Print a table, or the same as JSON; write it as Markdown, if that is wanted too."""
    if markdown is not None:
        markdown.write_text(rows.markdown(), encoding="utf-8")
    if as_json:
        print(json.dumps(data, indent=2))
    else:
        console = Console(highlight=False)
        console.print(rows.for_terminal(console.width))


def announce(label: str, word: str, *, quiet: bool) -> None:
    """Tell what ran where no bar has shown it, such as in CI."""
    if not quiet and not Console(stderr=True).is_terminal:
        say(f"{label}: {word}")
