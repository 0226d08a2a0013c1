"""How a command runs on Trio and ends: one line for a user's mistake, never a traceback for it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable

import trio

from net.errors import NetError
from protocol.errors import InvariantViolation
from spec.runner import JobError, ended
from storage.errors import StorageError

EXIT_FINE = 0
EXIT_NOT_DONE = 1
EXIT_ERROR = 2
EXIT_BROKEN = 3
"""A node stopped by itself: a disk failed, or an invariant is broken."""
_CLOSED_PIPE = 128 + signal.SIGPIPE
_TERMINATED = 128 + signal.SIGTERM


def run_command(main: Callable[[], Awaitable[int]]) -> int:
    """Run a command's coroutine to its exit status."""
    return ended("hwmark", lambda: _run(main))


def _run(main: Callable[[], Awaitable[int]]) -> int:
    try:
        status = trio.run(_unless_terminated, main)
        sys.stdout.flush()
        return status
    except BaseExceptionGroup as group:
        error = single(group)
        if error is None:
            raise
        return _told(error)
    except (NetError, StorageError, BrokenPipeError) as error:
        return _told(error)


async def _unless_terminated(main: Callable[[], Awaitable[int]]) -> int:
    """Run it; SIGTERM cancels it, as an exception out of a signal handler would break the loop."""
    status = _TERMINATED
    async with trio.open_nursery() as nursery:
        # Before anything else: a command may have its own way to heed signals, which then counts.
        await nursery.start(_cancel_at_sigterm, nursery.cancel_scope)
        status = await main()
        nursery.cancel_scope.cancel()
    return status


async def _cancel_at_sigterm(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


def _told(error: BaseException) -> int:
    """Turn what others did wrong into what `ended` prints as one line; raise the rest again."""
    if isinstance(error, BrokenPipeError):
        # Whoever reads our output has seen enough; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    if isinstance(error, NetError | StorageError):
        raise JobError(str(error)) from None
    raise error


def single(error: BaseException) -> BaseException | None:
    """Return the one error within a group, or None if there are several kinds of them.

    A group is what Trio raises when tasks failed together. Several of the same text are one.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    found: dict[tuple[type, str], BaseException] = {}
    for each in error.exceptions:
        one = single(each)
        if one is None:
            return None
        found[type(one), str(one)] = one
    broken = [each for each in found.values() if isinstance(each, InvariantViolation)]
    if broken:
        return broken[0]
    return next(iter(found.values())) if len(found) == 1 else None
