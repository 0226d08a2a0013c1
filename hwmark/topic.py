"""`hwmark topic`: make topics, change them, look at them."""

from __future__ import annotations

import json as json_text
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from hwmark.bootstrap import Bootstrap
from hwmark.console import report, say
from hwmark.loop import EXIT_FINE, run_command
from hwmark.properties import parse_pairs
from hwmark.tables import Cell, Rows
from net.client.admin import Admin, ConfigEntry, ConfigKind
from net.client.topology import TopicInfo
from net.uuids import to_text
from spec.runner import JobError

topic_app = typer.Typer(name="topic", help="Make, change and show topics.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="TOPIC")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the topic; repeatable."),
]
_TOPICS_OWN = 1


def _with_admin(bootstrap: str, work: Callable[[Admin], Awaitable[None]]) -> None:
    async def main() -> int:
        async with Admin(bootstrap) as admin:
            await work(admin)
        return EXIT_FINE

    raise typer.Exit(run_command(main))


@topic_app.command("create")
def create_command(
    name: _Name,
    bootstrap: Bootstrap,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="How many. [default: the broker's]")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="How many replicas. [default: the broker's]")
    ] = None,
    setting: _Settings = None,
) -> None:
    """Create a topic."""

    async def create(admin: Admin) -> None:
        configs = parse_pairs(setting or [], "--set")
        await admin.create_topic(name, partitions or -1, replication_factor or -1, configs=configs)
        say(f"{name} is created")

    _with_admin(bootstrap, create)


@topic_app.command("delete")
def delete_command(
    name: _Name,
    bootstrap: Bootstrap,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a topic with all its records."""
    if not yes:
        typer.confirm(f"Delete {name} and all its records?", abort=True, err=True)

    async def delete(admin: Admin) -> None:
        await admin.delete_topic(name)
        say(f"{name} is deleted")

    _with_admin(bootstrap, delete)


@topic_app.command("list")
def list_command(bootstrap: Bootstrap, json: _Json = False) -> None:
    """Show all topics."""

    async def show(admin: Admin) -> None:
        topics = await admin.describe_topics()
        data = [summary(topic) for _, topic in sorted(topics.items())]
        headings = ("topic", "partitions#", "replicas#", "under-replicated#", "without leader#")
        rows = tuple(tuple(Cell(str(value)) for value in each.values()) for each in data)
        report(Rows(headings, rows), data, as_json=json)

    _with_admin(bootstrap, show)


def summary(topic: TopicInfo) -> dict[str, Any]:
    """Count what there is of a topic; replicas are those of its first partition."""
    parts = topic.partitions
    return {
        "topic": topic.name,
        "partitions": len(parts),
        "replicas": len(parts[0].replicas) if parts else 0,
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in parts),
        "leaderless": sum(each.leader < 0 for each in parts),
    }


@topic_app.command("describe")
def describe_command(name: _Name, bootstrap: Bootstrap, json: _Json = False) -> None:
    """Show a topic's partitions and settings."""

    async def show(admin: Admin) -> None:
        topic = (await admin.describe_topics([name]))[name]
        configs = await admin.describe_configs(ConfigKind.TOPIC, name)
        data = described(topic, configs)
        if json:
            print(json_text.dumps(data, indent=2))
            return
        say(f"{name}, id {data['id']}")
        rows = tuple(
            (
                Cell(str(each["partition"])),
                Cell(str(each["leader"]) if each["leader"] >= 0 else "none"),
                Cell(str(each["leader_epoch"])),
                Cell(" ".join(map(str, each["replicas"]))),
                Cell(
                    " ".join(map(str, each["isr"])),
                    "red" if len(each["isr"]) < len(each["replicas"]) else "",
                ),
            )
            for each in data["partitions"]
        )
        headings = ("partition#", "leader#", "epoch#", "replicas", "in sync")
        report(Rows(headings, rows), [], as_json=False)
        for setting, value in data["settings"].items():
            say(f"{setting}={value}")

    _with_admin(bootstrap, show)


def described(topic: TopicInfo, configs: dict[str, ConfigEntry]) -> dict[str, Any]:
    """Put a topic into one value; of its settings, those that it has itself."""
    return {
        "topic": topic.name,
        "id": to_text(topic.id),
        "partitions": [
            {
                "partition": each.index,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
            }
            for each in topic.partitions
        ],
        "settings": {
            name: entry.value for name, entry in configs.items() if entry.source == _TOPICS_OWN
        },
    }


@topic_app.command("alter")
def alter_command(
    name: _Name,
    bootstrap: Bootstrap,
    setting: _Settings = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Back to the default; repeatable.")
    ] = None,
) -> None:
    """Change a topic's settings; the others stay."""

    async def alter(admin: Admin) -> None:
        await admin.alter_configs(ConfigKind.TOPIC, name, changes(setting or [], unset or []))
        say(f"{name} is changed")

    _with_admin(bootstrap, alter)


def changes(given: list[str], unset: list[str]) -> dict[str, str | None]:
    """Read what is to be set and what is to be unset; `JobError` if that is nothing, or both."""
    found: dict[str, str | None] = dict(parse_pairs(given, "--set"))
    for name in unset:
        if name in found:
            raise JobError(f"--unset {name}: it is also set; say one of the two")
        found[name] = None
    if not found:
        raise JobError("nothing to change; say --set NAME=VALUE or --unset NAME")
    return found


@topic_app.command("partitions")
def partitions_command(
    name: _Name,
    total: Annotated[int, typer.Argument(metavar="TOTAL", min=1, help="How many from now on.")],
    bootstrap: Bootstrap,
) -> None:
    """Add partitions to a topic. Keys move: records of one key are in two partitions then."""

    async def add(admin: Admin) -> None:
        before = len((await admin.describe_topics([name]))[name].partitions)
        if total <= before:
            raise JobError(f"{name} has {before} partitions already; there can only be more")
        say(
            f"{name} grows from {before} to {total} partitions: new records of a key may go to "
            "another partition than its old ones, so their order is lost",
            style="yellow",
        )
        await admin.create_partitions(name, total)

    _with_admin(bootstrap, add)
