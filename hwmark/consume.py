"""`hwmark consume`: records of a topic become lines of standard output."""

from __future__ import annotations

import base64
import json as json_text
import sys
from typing import Annotated, Any, Final, Literal

import attrs
import typer

from hwmark.bootstrap import Bootstrap
from hwmark.loop import EXIT_FINE, EXIT_NOT_DONE, run_command
from net.client.consumer import Consumer
from net.client.consuming.fetched import ConsumerRecord
from net.clock import now_ms
from spec.runner import JobError

_POLL_MS: Final = 500
_TOPIC_TIMEOUT_MS: Final = 5_000


@attrs.frozen
class Options:
    """What a user asked `hwmark consume` for."""

    topic: str
    bootstrap: str
    partition: int | None = None
    from_beginning: bool = False
    offset: int | None = None
    count: int | None = None
    timeout_ms: int | None = None
    keys: bool = False
    json: bool = False


def consume_command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    bootstrap: Bootstrap,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Only this one. [default: all]")
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the first record, not the next one.")
    ] = False,
    offset: Annotated[
        int | None, typer.Option(min=0, help="From this offset; needs --partition.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(min=1, help="End when nothing came for so long.")
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Show keys, with a tab behind.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a record.")] = False,
) -> None:
    """Show a topic's records, one a line, until Ctrl-C."""
    options = Options(
        topic, bootstrap, partition, from_beginning, offset, count, timeout_ms, keys, json
    )
    raise typer.Exit(run_command(lambda: _consume(options)))


async def _consume(options: Options) -> int:
    if options.offset is not None and (options.partition is None or options.from_beginning):
        raise JobError("--offset needs --partition, and goes without --from-beginning")
    reset: Literal["earliest", "latest"] = "earliest" if options.from_beginning else "latest"
    async with Consumer(options.bootstrap, auto_offset_reset=reset) as consumer:
        info = await consumer.cluster.topic(options.topic, _TOPIC_TIMEOUT_MS)
        indexes = [each.index for each in info.partitions]
        if options.partition is not None and options.partition not in indexes:
            raise JobError(
                f"{options.topic} has no partition {options.partition}: it has {len(indexes)}"
            )
        chosen = indexes if options.partition is None else [options.partition]
        consumer.assign([(options.topic, index) for index in chosen])
        if options.offset is not None:
            consumer.seek(options.topic, chosen[0], options.offset)
        enough = await _read(consumer, options)
    return EXIT_FINE if enough else EXIT_NOT_DONE


async def _read(consumer: Consumer, options: Options) -> bool:
    """Print what comes; return whether that was all that was asked for."""
    left = options.count
    heard_ms = now_ms()
    while left is None or left > 0:
        records = await consumer.poll(500 if left is None else min(500, left), _POLL_MS)
        if records:
            heard_ms = now_ms()
            sys.stdout.buffer.write(b"".join(written(each, options) for each in records))
            sys.stdout.buffer.flush()
            left = None if left is None else left - len(records)
        elif options.timeout_ms is not None and now_ms() - heard_ms >= options.timeout_ms:
            return left is None
    return True


def written(record: ConsumerRecord, options: Options) -> bytes:
    """Write a record as a line; in JSON, what is no text is told as Base64."""
    if options.json:
        found: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            **_told("key", record.key),
            **_told("value", record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
        }
        return json_text.dumps(found).encode() + b"\n"
    key = (record.key or b"") + b"\t" if options.keys else b""
    return key + (record.value or b"") + b"\n"


def _told(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: bytes(value).decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "backslashreplace")
