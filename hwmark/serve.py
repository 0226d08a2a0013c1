"""`hwmark serve` runs one node, `hwmark format` prepares its folders; `net.node` does the work.

A first SIGINT or SIGTERM lets the node stop in good order, a second one ends it at once.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Annotated

import trio
import typer

from hwmark.console import say
from hwmark.loop import EXIT_BROKEN, EXIT_FINE, run_command
from hwmark.properties import read_settings
from net.errors import BadSetting
from net.metrics import configure_logging
from net.node import NodeAddresses, NodeFailed, serve
from net.settings import (
    BrokerSettings,
    check_cluster_id,
    format_folder,
    random_id,
    read_meta,
)
from spec.runner import JobError, ended
from storage.disk.jobs import run
from storage.disk.posix import PosixDisk

Config = Annotated[
    Path, typer.Option(metavar="FILE", help="The node's properties.", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="Instead of the file's; repeatable."),
]


def serve_command(
    config: Config,
    override: Overrides = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write this node's trace into DIR.")
    ] = None,
) -> None:
    """Run a node: a broker, a controller, or both, until SIGINT or SIGTERM."""
    changes = list(override or [])
    if trace is not None:
        changes.append(f"hwmark.trace.dir={trace}")
    raise typer.Exit(ended("hwmark", lambda: _serve(read(config, changes))))


def read(config: Path, changes: list[str]) -> BrokerSettings:
    """Read the settings; what is wrong with them is one line."""
    try:
        return read_settings(config, changes)
    except BadSetting as error:
        raise JobError(str(error)) from None


def _serve(settings: BrokerSettings) -> int:
    configure_logging(settings.hwmark_log_format, settings.hwmark_log_level)
    return run_command(lambda: _until_told_to_stop(settings))


async def _until_told_to_stop(settings: BrokerSettings) -> int:
    stop, listens = trio.Event(), trio.Event()

    def started(addresses: NodeAddresses) -> None:
        listens.set()
        _announce(settings.node_id, addresses)

    async with trio.open_nursery() as nursery:
        await nursery.start(_heed_signals, stop)
        try:
            await serve(settings, started=started, stop=stop)
        except NodeFailed as error:
            if not listens.is_set():
                # It never was a node: the folder, the port or a setting is wrong.
                raise JobError(str(error)) from None
            say(f"hwmark: node {settings.node_id} stopped: {error}")
            return EXIT_BROKEN
        finally:
            nursery.cancel_scope.cancel()
    return EXIT_FINE


async def _heed_signals(
    stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Let the node stop at the first signal; at the second do what the system would."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()


def _announce(node_id: int, addresses: NodeAddresses) -> None:
    """Tell whoever started this process that the node listens, and where: one line of JSON."""
    listeners = {name: str(endpoint) for name, endpoint in addresses.listeners.items()}
    metrics = None if addresses.metrics is None else str(addresses.metrics)
    print(json.dumps({"node": node_id, "listeners": listeners, "metrics": metrics}), flush=True)


def format_command(
    config: Config,
    cluster_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The cluster's id; drawn if this is its first node."),
    ] = None,
    override: Overrides = None,
) -> None:
    """Prepare the folders of a node, before it first starts; formatted ones stay as they are."""
    changes = list(override or [])
    raise typer.Exit(ended("hwmark", lambda: _format(read(config, changes), cluster_id)))


def _format(settings: BrokerSettings, cluster_id: str | None) -> int:
    try:
        chosen = format_node(settings, cluster_id)
    except BadSetting as error:
        raise JobError(str(error)) from None
    print(chosen)
    say(f"node {settings.node_id} of cluster {chosen}: {', '.join(settings.all_dirs)}")
    return EXIT_FINE


def format_node(settings: BrokerSettings, cluster_id: str | None) -> str:
    """Format every folder of a node; return the cluster's id, which is drawn if there is none."""
    disk = PosixDisk()
    try:
        if cluster_id is None:
            known = [
                folder for folder in settings.all_dirs if disk.exists(f"{folder}/meta.properties")
            ]
            cluster_id = read_meta(disk, known[0]).cluster_id if known else random_id()
        check_cluster_id(cluster_id)
        for folder in settings.all_dirs:
            run(format_folder(disk, folder, cluster_id, settings.node_id))
    finally:
        disk.close()
    return cluster_id


if __name__ == "__main__":
    typer.run(serve_command)
