"""`hwmark cluster`: a local cluster of real processes, its state, and work on it."""

from __future__ import annotations

import json as json_text
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Final

import trio
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hwmark.cluster_layout import Plan, read_plan
from hwmark.cluster_supervisor import ask
from hwmark.cluster_up import UpOptions, up
from hwmark.cluster_view import (
    ClusterView,
    partitions,
    shares,
    under_replicated,
)
from hwmark.cluster_work import decommission, roll, steps, until
from hwmark.console import say
from hwmark.loop import EXIT_FINE, EXIT_NOT_DONE, run_command
from hwmark.properties import parse_pairs
from hwmark.tables import Cell, Rows
from net.client.admin import Quorum
from net.client.errors import ClientError
from net.client.topology import ClusterInfo
from net.errors import NetError

cluster_app = typer.Typer(
    name="cluster", help="Run a cluster on this machine, and work on it.", no_args_is_help=True
)

_FOLDER: Final = Path("runs/cluster")
_TIMEOUT_S: Final = 120.0
_WATCH_S: Final = 1.0

_Dir = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The cluster's folder.")]
_Node = Annotated[int, typer.Argument(metavar="ID", help="The node's number.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@cluster_app.command("up", epilog="Exit status: 0 stopped in good order, 1 not, 2 error.")
def up_command(
    brokers: Annotated[int, typer.Option(min=1, help="How many brokers.")] = 3,
    controllers: Annotated[
        int, typer.Option(min=0, help="Controllers of their own; 0: the first brokers are both.")
    ] = 0,
    folder: _Dir = _FOLDER,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the data when it stops.")] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of every node; repeatable."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Brokers listen from here on. [default: free ports]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Tell where it is as JSON.")] = False,
) -> None:
    """Start a cluster and keep it up until Ctrl-C. Time-outs are short, and are printed."""

    async def main() -> int:
        settings = parse_pairs(setting or [], "--set")
        options = UpOptions(folder, brokers, controllers, settings, port, keep, json)
        return await up(options, all_there)

    raise typer.Exit(run_command(main))


async def all_there(plan: Plan, timeout_s: float) -> None:
    """Wait until every broker of a plan is known to the cluster."""

    def missing(info: ClusterInfo) -> str | None:
        absent = [str(node) for node in plan.brokers if node not in info.brokers]
        return f"broker {', '.join(absent)} is not there" if absent else None

    async with ClusterView(plan.bootstrap) as view:
        await until(view, missing, timeout_s, "the cluster is up")


@cluster_app.command("status", epilog="Exit status: 0 all is well, 1 not, 2 error.")
def status_command(
    folder: _Dir = _FOLDER,
    json: _Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Show nodes, leaders and replicas in sync."""
    raise typer.Exit(run_command(lambda: _status(folder, json=json, watch=watch)))


async def _status(folder: Path, *, json: bool, watch: bool) -> int:
    plan = read_plan(folder)
    console = Console(highlight=False)
    async with ClusterView(plan.bootstrap) as view:
        found = await gather(folder, view)
        if watch:
            await _watch(folder, view, None if json else console)
        elif json:
            print(json_text.dumps(found, indent=2))
        else:
            console.print(shown(found))
    return EXIT_FINE if found["healthy"] else EXIT_NOT_DONE


async def _watch(folder: Path, view: ClusterView, console: Console | None) -> None:
    """Show it again and again; one line of JSON each time if there is no console."""
    with nullcontext() if console is None else Live(console=console, auto_refresh=False) as live:
        while True:
            found = await gather(folder, view)
            if live is None:
                print(json_text.dumps(found), flush=True)
            else:
                live.update(shown(found), refresh=True)
            await trio.sleep(_WATCH_S)


async def gather(folder: Path, view: ClusterView) -> dict[str, Any]:
    """Collect what the supervisor and the brokers say; what cannot be had is told as missing."""
    processes = (await ask(folder, {"do": "status"}))["nodes"]
    info: ClusterInfo | None = None
    quorum: Quorum | None = None
    problem = None
    try:
        info = await view.look()
        quorum = await view.describe_quorum()
    except (NetError, ClientError) as error:
        problem = str(error)
    return picture(processes, info, quorum, problem)


def picture(
    processes: list[dict[str, Any]],
    info: ClusterInfo | None,
    quorum: Quorum | None,
    problem: str | None = None,
) -> dict[str, Any]:
    """Put together what is known into one value, which the tables and the JSON are made of."""
    share = {} if info is None else shares(info)
    members = () if quorum is None else (*quorum.voters, *quorum.observers)
    ends = {each.id: each.log_end_offset for each in members}
    nodes = []
    for process in processes:
        node = process["node"]
        row = share.get(node)
        nodes.append(
            {
                **process,
                "registered": row is not None,
                "leads": row.leads if row else 0,
                "replicas": row.replicas if row else 0,
                "in_sync": row.in_sync if row else 0,
                "quorum": _part(node, quorum),
                "metadata_end": ends.get(node),
            }
        )
    behind = [] if info is None else under_replicated(info)
    leaderless = (
        []
        if info is None
        else [f"{topic}-{p.index}" for topic, p in partitions(info) if p.leader < 0]
    )
    running = all(process["state"] == "running" for process in processes)
    return {
        "nodes": nodes,
        "topics": 0 if info is None else len(info.topics),
        "partitions": 0 if info is None else sum(1 for _ in partitions(info)),
        "under_replicated": behind,
        "leaderless": leaderless,
        "controller": None if quorum is None else quorum.leader_id,
        "controller_epoch": None if quorum is None else quorum.leader_epoch,
        "metadata_high_watermark": None if quorum is None else quorum.high_watermark,
        "problem": problem,
        "healthy": running and problem is None and not behind and not leaderless,
    }


def _part(node: int, quorum: Quorum | None) -> str:
    if quorum is None or node not in (each.id for each in quorum.voters):
        return ""
    return "leader" if node == quorum.leader_id else "voter"


_COLOURS: Final = {"running": "green", "died": "bold red", "paused": "yellow"}


def shown(found: dict[str, Any]) -> Group:
    """Make the tables."""
    rows = tuple(
        (
            Cell(str(node["node"])),
            Cell("+".join(node["roles"])),
            Cell(node["state"], _COLOURS.get(node["state"], "")),
            Cell(str(node["pid"] or "")),
            Cell(node["quorum"], "bold" if node["quorum"] == "leader" else ""),
            Cell(str(node["leads"])),
            Cell(str(node["replicas"])),
            Cell(str(node["in_sync"]), "red" if node["in_sync"] < node["replicas"] else ""),
            Cell((node.get("listeners") or {}).get("PLAINTEXT", "")),
        )
        for node in found["nodes"]
    )
    headings = (
        "node#",
        "roles?",
        "state",
        "pid?",
        "quorum",
        "leads#",
        "replicas#",
        "in sync#",
        "at",
    )
    table = Rows(headings, rows).for_terminal(Console().width)
    behind, leaderless = found["under_replicated"], found["leaderless"]
    text = f"{found['topics']} topics, {found['partitions']} partitions, "
    text += f"{len(behind)} under-replicated, {len(leaderless)} without a leader"
    lines = [Text(text, "green" if found["healthy"] else "yellow")]
    if found["problem"]:
        lines.append(Text(f"the brokers do not answer: {found['problem']}", "red"))
    return Group(table, *lines)


@cluster_app.command("roll", epilog="Exit status: 0 done, 2 error.")
def roll_command(
    folder: _Dir = _FOLDER,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="For each step.")
    ] = _TIMEOUT_S,
    force: Annotated[
        bool, typer.Option("--force", help="Even if writes have to wait meanwhile.")
    ] = False,
) -> None:
    """Restart one node at a time, each when every replica is in sync again."""

    async def main() -> int:
        plan = read_plan(folder)
        done = 0
        async with ClusterView(plan.bootstrap) as view:
            with steps("rolling", quiet=False) as show:

                def tell(text: str) -> None:
                    nonlocal done
                    done += text.endswith("done")
                    show(text, done, len(plan.nodes))
                    _line(text)

                async def order(what: str, node: int) -> None:
                    await ask(folder, {"do": what, "node": node})

                await roll(plan, view, order, tell, timeout_s=timeout_s, force=force)
        return EXIT_FINE

    raise typer.Exit(run_command(main))


@cluster_app.command("decommission", epilog="Exit status: 0 done, 2 error.")
def decommission_command(
    node: _Node,
    folder: _Dir = _FOLDER,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="For all of it.")
    ] = _TIMEOUT_S,
) -> None:
    """Move everything away from a broker, then stop it for good."""

    async def main() -> int:
        plan = read_plan(folder)
        async with ClusterView(plan.bootstrap) as view:
            with steps("moving partitions", quiet=False) as show:

                async def order(what: str, number: int) -> None:
                    await ask(folder, {"do": what, "node": number})

                result = await decommission(
                    plan,
                    node,
                    view,
                    order,
                    lambda moved, total: show("", moved, total),
                    timeout_s=timeout_s,
                )
        say(result)
        return EXIT_FINE

    raise typer.Exit(run_command(main))


def _line(text: str) -> None:
    """Tell a step where no bar shows it."""
    if not Console(stderr=True).is_terminal:
        say(text)


def _order(what: str, node: int | None, folder: Path) -> None:
    async def main() -> int:
        answer = await ask(folder, {"do": what, "node": node})
        for each in answer["nodes"]:
            if each["node"] == node:
                say(f"node {node} is {each['state']}")
        return EXIT_FINE

    raise typer.Exit(run_command(main))


@cluster_app.command("down")
def down_command(folder: _Dir = _FOLDER) -> None:
    """Stop the cluster, as Ctrl-C does where it was started."""
    _order("down", None, folder)


@cluster_app.command("start")
def start_command(node: _Node, folder: _Dir = _FOLDER) -> None:
    """Start a node that was stopped or has died."""
    _order("start", node, folder)


@cluster_app.command("stop")
def stop_command(node: _Node, folder: _Dir = _FOLDER) -> None:
    """Stop a node in good order."""
    _order("stop", node, folder)


@cluster_app.command("kill")
def kill_command(node: _Node, folder: _Dir = _FOLDER) -> None:
    """End a node at once, by SIGKILL."""
    _order("kill", node, folder)


@cluster_app.command("pause")
def pause_command(node: _Node, folder: _Dir = _FOLDER) -> None:
    """Freeze a node, by SIGSTOP."""
    _order("pause", node, folder)


@cluster_app.command("resume")
def resume_command(node: _Node, folder: _Dir = _FOLDER) -> None:
    """Let a frozen node go on."""
    _order("resume", node, folder)
