"""`hwmark produce`: lines of standard input become records."""

from __future__ import annotations

import sys
from collections import deque
from typing import Annotated, Final, Literal, cast, get_args

import attrs
import trio
import typer

from hwmark.bootstrap import Bootstrap
from hwmark.console import say
from hwmark.loop import EXIT_FINE, EXIT_NOT_DONE, run_command
from net.client.errors import KafkaError
from net.client.producer import Compression, Producer
from net.client.producing.batches import Delivery
from spec.runner import JobError

_MAX_WAITING: Final = 10_000
_MAX_LINE_BYTES: Final = 1024 * 1024


@attrs.frozen
class Options:
    """What a user asked `hwmark produce` for."""

    topic: str
    bootstrap: str
    key_separator: str | None
    partition: int | None
    acks: str
    codec: str
    linger_ms: int


def produce_command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    bootstrap: Bootstrap,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What is before it on a line is the key."),
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Write to this one.")] = None,
    acks: Annotated[str, typer.Option(help="all, 1 or 0: who must have a record.")] = "all",
    codec: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    linger_ms: Annotated[int, typer.Option(min=0, help="Wait so long for a fuller batch.")] = 5,
) -> None:
    """Write each line of standard input as a record."""
    options = Options(topic, bootstrap, key_separator, partition, acks, codec, linger_ms)
    raise typer.Exit(run_command(lambda: _produce(options)))


def split_line(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    """Split a line into key and value; `JobError` if it should have a key and has none."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    if not found:
        raise JobError(f"a line without {separator!r}: {line[:60].decode('utf-8', 'replace')!r}")
    return key, value


def checked(options: Options) -> tuple[Literal["all", 1, 0], Compression]:
    """Read acks and codec; `JobError` for what is neither."""
    acks: dict[str, Literal["all", 1, 0]] = {"all": "all", "-1": "all", "1": 1, "0": 0}
    if options.acks not in acks:
        raise JobError(f"--acks {options.acks}: use all, 1 or 0")
    if options.codec not in get_args(Compression):
        raise JobError(f"--codec {options.codec}: use one of {', '.join(get_args(Compression))}")
    if options.key_separator == "":
        raise JobError("--key-separator is empty: name a text that ends the key")
    return acks[options.acks], cast("Compression", options.codec)


async def _produce(options: Options) -> int:
    acks, codec = checked(options)
    counts = _Counts()
    async with Producer(
        options.bootstrap,
        acks=acks,
        enable_idempotence=acks == "all",
        compression=codec,
        linger_ms=options.linger_ms,
    ) as producer:
        waiting: deque[Delivery] = deque()
        while True:
            # A thread reads, so that deliveries go on while nobody types; Ctrl-C leaves it behind.
            line = await trio.to_thread.run_sync(_read_line, abandon_on_cancel=True)
            if not line:
                break
            key, value = split_line(line, options.key_separator)
            waiting.append(await producer.send(options.topic, value, key, options.partition))
            while len(waiting) >= _MAX_WAITING:
                await counts.settle(waiting.popleft())
        while waiting:
            await counts.settle(waiting.popleft())
    say(f"{counts.delivered} delivered, {counts.failed} failed")
    return EXIT_NOT_DONE if counts.failed else EXIT_FINE


def _read_line() -> bytes:
    line = sys.stdin.buffer.readline(_MAX_LINE_BYTES + 1)
    if len(line) > _MAX_LINE_BYTES:
        raise JobError(f"a line of more than {_MAX_LINE_BYTES} bytes")
    return line


@attrs.define
class _Counts:
    delivered: int = 0
    failed: int = 0

    async def settle(self, delivery: Delivery) -> None:
        """Wait for what became of a record, and count it; the first few failures are told."""
        try:
            await delivery
        except KafkaError as error:
            self.failed += 1
            if self.failed <= 10:
                say(f"not delivered: {error}")
        else:
            self.delivered += 1
