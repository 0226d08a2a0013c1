"""What the commands share at the terminal: a live bar, and lines beside their output.

It prints; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

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
