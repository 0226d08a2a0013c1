"""A live line on the terminal that shows how far TLC has come.

Where standard error is no terminal there is no bar, and nothing is printed.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from spec.runner.outcome import Progress


class Bar:
    """Shows one live line per label: `with Bar() as bar: bar.update("Replication", progress)`.

    The bar fills with the share of the states found so far that have been explored. New states are
    found on the way, so it may go back. The clock runs on between TLC's reports, a minute apart.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def update(self, label: str, progress: Progress | None = None) -> None:
        """Show this progress under the label; without one, only that the label has started."""
        if label not in self._tasks:
            self._tasks[label] = self._live.add_task(label, total=None, figures="starting")
        if progress is not None:
            explored = progress.distinct - progress.queue
            self._live.update(
                self._tasks[label],
                total=progress.distinct or None,
                completed=explored,
                figures=describe(progress),
            )


def describe(progress: Progress) -> str:
    """Word a progress report in one short line."""
    parts = [f"{progress.generated:,} states"]
    if progress.distinct:
        parts += [f"{progress.distinct:,} distinct", f"{progress.queue:,} queued"]
        parts.append(f"depth {progress.depth}")
    if progress.states_per_minute is not None:
        parts.append(f"{progress.states_per_minute:,}/min")
    return ", ".join(parts)
