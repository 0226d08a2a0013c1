"""How a command ends: with a status and, at worst, one line on standard error.

For commands that run TLC. It knows nothing about their options.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from spec.runner.errors import RunnerError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM


def ended(name: str, command: Callable[[], int]) -> int:
    """Run a command to its exit status; what a user did wrong becomes one line, not a traceback."""
    # A shell's `kill` must not leave Java behind either.
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        return command()
    except (RunnerError, OSError) as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print(f"{name}: interrupted; nothing is left running", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(_signal: int, _frame: object) -> None:
    # An exception, so that everything started is stopped on the way out.
    raise SystemExit(EXIT_TERMINATED)
