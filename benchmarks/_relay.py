"""What replication costs at least: bytes through plain Trio sockets to three files.

`python -m benchmarks._relay PORT FILE [FOLLOWER ...]` is one of the three. It appends each message
to its file; with followers it also passes it on, and answers when they have answered. No protocol,
no check, no offset: eight bytes of length before a message, one byte as its answer.

A file grows, as a log does. To write over the same bytes again would cost less than any log can:
their pages are in memory already, and a new page is most of what a write costs a virtual machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import trio

LENGTH_BYTES = 8
DONE = b"\x01"


async def read_exactly(stream: trio.SocketStream, into: memoryview) -> bool:
    """Fill a buffer; `False` if the other side has ended."""
    at = 0
    while at < len(into):
        got = await stream.socket.recv_into(into[at:])
        if not got:
            return False
        at += got
    return True


async def serve(file: int, followers: list[int], stream: trio.SocketStream) -> None:
    """Take messages until the other side ends; answers follow by themselves."""
    head = memoryview(bytearray(LENGTH_BYTES))
    room = memoryview(bytearray(4 << 20))
    others = [await trio.open_tcp_stream("127.0.0.1", port) for port in followers]
    async with trio.open_nursery() as answering:
        if others:
            answering.start_soon(answer, stream, others)
        while await read_exactly(stream, head):
            message = room[: int.from_bytes(head, "big")]
            if not await read_exactly(stream, message):
                break
            async with trio.open_nursery() as nursery:
                for other in others:
                    nursery.start_soon(pass_on, other, bytes(head), message)
                os.write(file, message)
            if not others:
                await stream.send_all(DONE)
        answering.cancel_scope.cancel()


async def answer(stream: trio.SocketStream, others: list[trio.SocketStream]) -> None:
    """Answer each message when all followers have."""
    room = memoryview(bytearray(1))
    while True:
        for other in others:
            await read_exactly(other, room)
        await stream.send_all(DONE)


async def pass_on(other: trio.SocketStream, head: bytes, message: memoryview) -> None:
    """Send a message to a follower."""
    await other.send_all(head)
    await other.send_all(message)


async def main(port: int, path: str, followers: list[int]) -> None:
    """Listen until killed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    print("up", flush=True)
    await trio.serve_listeners(partial(serve, file, followers), listeners)


@contextmanager
def three_relays(folder: Path, ports: list[int]) -> Iterator[int]:
    """Run three of them; provide the port of the first."""
    with ExitStack() as after:
        for at in (2, 1, 0):
            followers = [str(port) for port in ports[1:]] if at == 0 else []
            command = [sys.executable, "-m", "benchmarks._relay", str(ports[at])]
            process = subprocess.Popen(
                [*command, str(folder / f"relay-{at}"), *followers], stdout=subprocess.PIPE
            )
            after.callback(_end, process)
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("a relay did not start")
        yield ports[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), sys.argv[2], [int(each) for each in sys.argv[3:]])
