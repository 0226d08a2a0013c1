"""Keeps the processes of a local cluster, and obeys a control socket in its folder.

One line of JSON is a request, one line the answer: `{"do": "kill", "node": 2}`. The socket is for
the user who started the cluster, by the rights of its folder.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from hwmark.cluster_layout import CONTROL_SOCKET, NodePlan, Plan, log_file
from hwmark.cluster_process import STOP_TIMEOUT_S, NodeProcess, ProcessError, State
from spec.runner import JobError

MAX_LINE_BYTES: Final = 64 * 1024
_MAX_PATH_BYTES: Final = 100
_REQUEST_TIMEOUT_S: Final = 5.0

Command = Callable[[NodePlan], Sequence[str]]
"""How a node is started; tests have a smaller one."""


class Supervisor:
    """The processes of one cluster."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        command: Command,
        nursery: trio.Nursery,
        changed: Callable[[NodeProcess], None] = lambda _process: None,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.down = trio.Event()
        """Somebody wants everything to stop."""
        self._told = changed
        self.processes = {
            node.id: NodeProcess(node.id, command(node), log_file(folder, node), nursery, self._see)
            for node in plan.nodes
        }

    async def start_all(self) -> None:
        """Start every node at the same time, as controllers need each other; all or `JobError`."""
        failures: list[str] = []

        async def start(process: NodeProcess) -> None:
            try:
                await process.start()
            except ProcessError as error:
                failures.append(str(error))

        async with trio.open_nursery() as nursery:
            for process in self.processes.values():
                nursery.start_soon(start, process)
        if failures:
            raise JobError(sorted(failures)[0])

    async def stop_all(self, timeout_s: float = STOP_TIMEOUT_S) -> list[NodeProcess]:
        """Stop every node; return those that did not stop in good order."""
        alive = [process for process in self.processes.values() if process.pid is not None]
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for process in alive:
                    nursery.start_soon(process.stop, timeout_s)
        return [process for process in alive if process.was_killed or process.status != 0]

    def _see(self, process: NodeProcess) -> None:
        self._told(process)
        lives = [each for each in self.processes.values() if each.pid is not None]
        died = any(each.state is State.DIED for each in self.processes.values())
        if died and not lives:
            # Nobody is left, and nobody asked for that: there is nothing to wait for.
            self.down.set()

    def status(self) -> list[dict[str, Any]]:
        """Tell how every process is."""
        return [
            {
                "node": node.id,
                "roles": list(node.roles),
                "state": self.processes[node.id].state.value,
                "pid": self.processes[node.id].pid,
                "exit": self.processes[node.id].status,
                **self.processes[node.id].addresses,
            }
            for node in self.plan.nodes
        ]

    async def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request says; what cannot be done is an answer, too."""
        what, number = request.get("do"), request.get("node")
        if what == "status":
            return {"nodes": self.status(), "bootstrap": self.plan.bootstrap}
        if what == "down":
            self.down.set()
            return {"nodes": self.status()}
        if type(number) is not int or number not in self.processes:
            known = ", ".join(map(str, self.processes))
            return {"error": f"there is no node {number}: this cluster has {known}"}
        process = self.processes[number]
        orders: dict[str, Callable[[], Awaitable[None]]] = {
            "start": process.start,
            "stop": process.stop,
            "kill": process.kill,
            "pause": _at_once(process.pause),
            "resume": _at_once(process.resume),
        }
        order = orders.get(str(what))
        if order is None:
            return {"error": f"{what!r} is no order; use status, down, {', '.join(orders)}"}
        try:
            await order()
        except ProcessError as error:
            return {"error": str(error)}
        return {"nodes": self.status()}

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the control socket until cancelled."""
        path = self.folder / CONTROL_SOCKET
        async with _bound(path) as bound:
            task_status.started()
            async with trio.open_nursery() as nursery:
                while True:
                    connection, _ = await bound.accept()
                    nursery.start_soon(self._answer, trio.SocketStream(connection))

    async def _answer(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                with trio.fail_after(_REQUEST_TIMEOUT_S):
                    line = await read_line(stream)
                request = json.loads(line)
                if not isinstance(request, dict):
                    raise ValueError("no JSON object")
                answer = await self.obey(request)
            except (ValueError, trio.TooSlowError) as error:
                answer = {"error": f"no request: {error}"}
            except trio.BrokenResourceError:
                return
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.send_all(json.dumps(answer).encode() + b"\n")


def _at_once(order: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def do() -> None:
        order()

    return do


async def read_line(stream: trio.SocketStream) -> bytes:
    """Read up to a line's end; `ValueError` if there is none within bounds."""
    found = b""
    while b"\n" not in found:
        if len(found) > MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {MAX_LINE_BYTES} bytes")
        some = await stream.receive_some(4096)
        if not some:
            raise ValueError("the connection ended")
        found += some
    return found.partition(b"\n")[0]


@contextlib.asynccontextmanager
async def _bound(path: Path) -> AsyncIterator[trio.socket.SocketType]:
    """Listen at a path; one that a dead supervisor left behind is replaced."""
    check_path(path)
    path.unlink(missing_ok=True)
    bound = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await bound.bind(str(path))
        path.chmod(0o600)
        bound.listen(16)
        yield bound
    finally:
        bound.close()
        path.unlink(missing_ok=True)


def check_path(path: Path) -> None:
    """Refuse a path that the system does not take for a socket."""
    if len(str(path).encode()) > _MAX_PATH_BYTES:
        raise JobError(f"{path} is too long for a control socket; use a shorter --dir")


async def ask(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the supervisor of a cluster's folder; `JobError` for what it refuses."""
    path = folder / CONTROL_SOCKET
    check_path(path)
    try:
        stream = await trio.open_unix_socket(str(path))
    except OSError:
        raise JobError(
            f"no cluster runs in {folder}; run `hwmark cluster up`, or name its --dir"
        ) from None
    async with stream:
        try:
            await stream.send_all(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(await read_line(stream))
        except (ValueError, trio.BrokenResourceError) as error:
            raise JobError(f"the cluster in {folder} did not answer: {error}") from None
    if "error" in answer:
        raise JobError(answer["error"])
    return answer


async def is_running(folder: Path) -> bool:
    """Whether somebody answers at a folder's control socket."""
    try:
        await ask(folder, {"do": "status"})
    except JobError:
        return False
    return True
