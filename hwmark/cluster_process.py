"""One node of a local cluster as a process: started, told to stop, killed, frozen, watched.

A process that ends is never started again by itself. Each has a process group of its own, so that
Ctrl-C at the terminal reaches the supervisor alone, which then stops them in good order; and each
ends with the supervisor, however that ends.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from hwmark import tied

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
_MAX_LINE_BYTES: Final = 64 * 1024


class State(enum.Enum):
    """How a process is."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    DIED = "died"
    """It ended without being told to."""


class ProcessError(Exception):
    """Something was asked of a process that cannot be done now."""


class NodeProcess:
    """The process of one node. `changed` is told of every change of state."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        log: Path,
        nursery: trio.Nursery,
        changed: Callable[[NodeProcess], None] = lambda _process: None,
    ) -> None:
        self.number = number
        self.state = State.STOPPED
        self.status: int | None = None
        """The exit status of the last one that ended."""
        self.addresses: dict[str, Any] = {}
        """What it said when it had started."""
        self.was_killed = False
        self._command = list(command)
        self._log = log
        self._nursery = nursery
        self._changed = changed
        self._process: subprocess.Popen[bytes] | None = None
        self._descriptor = -1
        self._ended = trio.Event()
        self._ended.set()

    @property
    def pid(self) -> int | None:
        """The process's id while it lives."""
        return None if self._process is None else self._process.pid

    async def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it, and wait until it says that it listens."""
        if self._process is not None:
            raise ProcessError(f"node {self.number} is {self.state.value} already")
        self._become(State.STARTING)
        self._ended = trio.Event()
        command = [sys.executable, tied.__file__, str(os.getpid()), *self._command]
        with self._log.open("ab") as log:
            # Not by Trio's own function, which starts it from a thread: it would end with that.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
            self._descriptor = os.pidfd_open(self._process.pid)
        self.was_killed = False
        said = trio.Event()
        self._nursery.start_soon(self._watch, self._process, said)
        with trio.move_on_after(timeout_s):
            await said.wait()
        if self.state is State.STARTING and not said.is_set():
            await self.kill()
            raise ProcessError(f"node {self.number} did not start within {timeout_s:g} s")
        if self.state is State.DIED:
            raise ProcessError(f"node {self.number} ended with status {self.status} at its start")

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Let it stop in good order, and kill it if that takes too long."""
        if self._process is None:
            return
        self._become(State.STOPPING)
        self._send(signal.SIGTERM)
        # One that is frozen would not hear of it.
        self._send(signal.SIGCONT)
        with trio.move_on_after(timeout_s) as bound:
            await self._ended.wait()
        if bound.cancelled_caught:
            await self.kill()

    async def kill(self) -> None:
        """End it at once, as a power failure of one machine would, page cache apart."""
        if self._process is None:
            return
        self._become(State.STOPPING)
        self.was_killed = True
        self._send(signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    def pause(self) -> None:
        """Freeze it: it is there, and does nothing."""
        if self._process is None or self.state is not State.RUNNING:
            raise ProcessError(
                f"node {self.number} is {self.state.value}; only a running one pauses"
            )
        self._send(signal.SIGSTOP)
        self._become(State.PAUSED)

    def resume(self) -> None:
        """Let it go on."""
        if self._process is None or self.state is not State.PAUSED:
            raise ProcessError(f"node {self.number} is {self.state.value}, not paused")
        self._send(signal.SIGCONT)
        self._become(State.RUNNING)

    async def ended(self) -> None:
        """Wait until there is no process."""
        await self._ended.wait()

    def _become(self, state: State) -> None:
        self.state = state
        self._changed(self)

    def _send(self, number: signal.Signals) -> None:
        """Send a signal; to one that has ended it is no error, and never to another process."""
        # Popen's own method may reap the process behind the back of whoever waits for its end.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    async def _watch(self, process: subprocess.Popen[bytes], said: trio.Event) -> None:
        """Read what it prints, and see it end; the end is always seen, whatever is cancelled."""
        with trio.CancelScope(shield=True):
            await self._read(process, said)
            await trio.lowlevel.wait_readable(self._descriptor)
            self.status = process.wait()
            os.close(self._descriptor)
            self._process, self._descriptor = None, -1
            self._become(State.STOPPED if self.state is State.STOPPING else State.DIED)
            self._ended.set()
            said.set()

    async def _read(self, process: subprocess.Popen[bytes], said: trio.Event) -> None:
        """Take the first line for what it is, and drop the rest, so that it never blocks."""
        line = b""
        if process.stdout is None:
            return
        # A descriptor of its own: the stream closes the one that it is given.
        stream = trio.lowlevel.FdStream(os.dup(process.stdout.fileno()))
        process.stdout.close()
        async with stream:
            async for some in stream:
                if said.is_set():
                    continue
                line += some
                if b"\n" not in line and len(line) <= _MAX_LINE_BYTES:
                    continue
                self.addresses = _parsed(line.partition(b"\n")[0])
                if self.state is State.STARTING:
                    self._become(State.RUNNING)
                said.set()


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
