"""`hwmark cluster up`: from a plan to running processes, until somebody says stop."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from hwmark.cluster_layout import (
    SHORT_TIMES,
    NodePlan,
    Plan,
    config_file,
    is_cluster,
    last_lines,
    log_file,
    make_plan,
    read_plan,
    remove_cluster,
    write_cluster,
)
from hwmark.cluster_process import NodeProcess, State
from hwmark.cluster_supervisor import Command, Supervisor, check_path, is_running
from hwmark.console import say
from hwmark.loop import EXIT_FINE, EXIT_NOT_DONE
from spec.runner import JobError

READY_TIMEOUT_S: Final = 60.0

Ready = Callable[[Plan, float], Awaitable[None]]
"""Waits until all brokers of a plan take part; `JobError` if they do not."""


@attrs.frozen
class UpOptions:
    """What a user asked `hwmark cluster up` for."""

    folder: Path
    brokers: int = 3
    controllers: int = 0
    settings: dict[str, str] = attrs.field(factory=dict)
    base_port: int | None = None
    keep: bool = False
    json: bool = False


async def up(options: UpOptions, ready: Ready, command: Command | None = None) -> int:
    """Bring a cluster up, and keep it until a signal or `cluster down`; then stop and clean up."""
    folder = options.folder
    check_path(folder.resolve() / "control.sock")
    plan = await _plan(options)
    try:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(
                plan, folder, command or serving(folder), nursery, _tell(folder)
            )
            await nursery.start(_heed_signals, supervisor.down)
            try:
                # Whatever is said while they start is heard at once.
                await _run(supervisor, options, ready, nursery)
                status = EXIT_FINE
            finally:
                say("stopping")
                unclean = await supervisor.stop_all()
                nursery.cancel_scope.cancel()
    finally:
        if not options.keep:
            remove_cluster(folder)
    died = any(process.state is State.DIED for process in supervisor.processes.values())
    for process in unclean:
        how = "was killed" if process.was_killed else f"ended with status {process.status}"
        say(f"node {process.number} did not stop in good order: it {how}")
    if unclean or died:
        status = EXIT_NOT_DONE
    return status


async def _plan(options: UpOptions) -> Plan:
    """Make a new cluster, or take the one that was kept there."""
    folder = options.folder
    if not is_cluster(folder):
        plan = make_plan(options.brokers, options.controllers, options.settings, options.base_port)
        try:
            write_cluster(plan, folder)
        except BaseException:
            remove_cluster(folder)
            raise
        return plan
    if await is_running(folder):
        raise JobError(f"a cluster runs in {folder} already; use another --dir")
    say(f"{folder} has a cluster already, which comes up as it was; other options do not count")
    return read_plan(folder)


async def _run(
    supervisor: Supervisor, options: UpOptions, ready: Ready, nursery: trio.Nursery
) -> None:
    plan = supervisor.plan
    await nursery.start(supervisor.listen)
    for name in SHORT_TIMES:
        say(f"{name}={plan.settings.get(name, '')}", style="dim")

    async def until_told(scope: trio.CancelScope) -> None:
        await supervisor.down.wait()
        scope.cancel()

    with trio.CancelScope() as starting:
        async with trio.open_nursery() as watching:
            watching.start_soon(until_told, starting)
            try:
                await supervisor.start_all()
                await ready(plan, READY_TIMEOUT_S)
            except JobError:
                _show_logs(supervisor)
                raise
            watching.cancel_scope.cancel()
    if starting.cancelled_caught:
        return
    _announce(supervisor, options)
    await supervisor.down.wait()


def _announce(supervisor: Supervisor, options: UpOptions) -> None:
    """Tell where the cluster is: the one line on standard output."""
    found: dict[str, Any] = {
        "bootstrap": supervisor.plan.bootstrap,
        "dir": str(options.folder),
        "cluster_id": supervisor.plan.cluster_id,
        "nodes": supervisor.status(),
    }
    print(json.dumps(found) if options.json else supervisor.plan.bootstrap, flush=True)
    say(f"{len(supervisor.processes)} nodes are up in {options.folder}; Ctrl-C stops them")


def serving(folder: Path) -> Command:
    """Start nodes by `hwmark serve`."""

    def command(node: NodePlan) -> Sequence[str]:
        # The module itself rather than `hwmark serve`: what only other commands need stays out.
        config = str(config_file(folder, node).resolve())
        return [sys.executable, "-m", "hwmark.serve", "--config", config]

    return command


def _tell(folder: Path) -> Callable[[NodeProcess], None]:
    """Tell of what nobody has asked for."""

    def changed(process: NodeProcess) -> None:
        if process.state is State.DIED:
            log = folder / f"node-{process.number}" / "node.log"
            ended = f"node {process.number} ended by itself with status {process.status}"
            say(f"{ended}; its last words are in {log}", style="red")

    return changed


def _show_logs(supervisor: Supervisor) -> None:
    """Show why nodes that died have done so."""
    for node in supervisor.plan.nodes:
        if supervisor.processes[node.id].state is State.DIED:
            for line in last_lines(log_file(supervisor.folder, node)):
                say(f"node {node.id}: {line}")


async def _heed_signals(
    down: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            down.set()
