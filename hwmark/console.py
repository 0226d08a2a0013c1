"""What the commands share at the terminal: tables, a live bar, and how a command ends.

It prints; it decides nothing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.text import Text

from spec.runner import Bar, Progress, RunnerError, Verdict

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.VIOLATED: "bold red",
    Verdict.UNKNOWN: "yellow",
    Verdict.ERROR: "bold red",
}


def ended(command: Callable[[], int]) -> int:
    """Run a command to its exit status; what a user did wrong becomes one line, not a traceback."""
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        return command()
    except RunnerError as problem:
        print(f"hwmark: {problem}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("hwmark: interrupted; nothing is left running", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    # An exception, so that everything started is stopped on the way out.
    raise SystemExit(EXIT_TERMINATED)


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
