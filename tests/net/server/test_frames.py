"""Messages are the same however the bytes of them arrive."""

import random
from pathlib import Path

import pytest
import trio

from net.server import Request
from net.server.input import GROWN_BYTES, MEDIUM_BYTES, OWN_BYTES
from net.transport.seam import FileRegion
from net.transport.tcp import TcpOptions
from storage.disk.posix import PosixDisk
from tests.net.server.wire import frame, serving, until

pytestmark = pytest.mark.trio


async def test_a_message_may_be_split_at_every_byte() -> None:
    async with serving() as running, running.client() as client:
        message = frame(b"some body", 1) + frame(b"another", 2)
        for cut in range(1, len(message)):
            before = running.server.counters.bytes_in
            await client.send(message[:cut])
            await running.has_read(before + cut)
            await client.send(message[cut:])
            assert await client.answer() == (1, b"some body")
            assert await client.answer() == (2, b"another")


async def test_a_message_may_come_byte_by_byte() -> None:
    async with serving() as running, running.client() as client:
        for index, byte in enumerate(frame(b"dripping", 3)):
            await client.send(bytes([byte]))
            await running.has_read(index + 1)
        assert await client.answer() == (3, b"dripping")


@pytest.mark.parametrize("seed", range(6))
async def test_messages_of_all_sizes_come_out_as_they_went_in(seed: int) -> None:
    chance = random.Random(seed)
    edges = [0, 1, OWN_BYTES - 14, OWN_BYTES - 13, MEDIUM_BYTES - 14, MEDIUM_BYTES - 13]
    edges += [GROWN_BYTES - 14, GROWN_BYTES - 13, 2**20]
    bodies = [
        chance.randbytes(chance.choice([*edges, chance.randrange(200_000)])) for _ in range(25)
    ]
    stream = b"".join(frame(body, index) for index, body in enumerate(bodies))
    async with serving() as running, running.client() as client:

        async def send() -> None:
            at = 0
            while at < len(stream):
                step = chance.choice([1, 7, 1000, 64 * 1024, 10**6])
                await client.send(stream[at : at + step])
                at += step

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            for index, body in enumerate(bodies):
                assert await client.answer() == (index, body)


async def test_several_messages_in_one_read_are_answered_in_one_write() -> None:
    sends = 0
    async with serving() as running, running.client() as client:
        await client.ask(b"the connection is there")
        (connection,) = running.server._connections
        send_some = connection.stream.send_some

        def counted(buffers: object) -> int:
            nonlocal sends
            sends += 1
            return send_some(buffers)  # type: ignore[arg-type]

        connection.stream.send_some = counted  # type: ignore[method-assign]
        await client.send(b"".join(frame(b"x", index) for index in range(50)))
        assert [(await client.answer())[0] for _ in range(50)] == list(range(50))
    assert sends == 1


@pytest.mark.parametrize("send_buffer_bytes", [None, 8192])
async def test_files_are_sent_between_bytes_and_released(
    tmp_path: Path, send_buffer_bytes: int | None
) -> None:
    disk = PosixDisk()
    path = f"{tmp_path}/log"
    disk.create(path)
    content = random.Random(1).randbytes(3_000_000)
    disk.write(path, [content], 0)
    files: list[FileRegion] = []

    def service(request: Request) -> None:
        regions = [FileRegion(disk.pin(path), at, 1_000_000) for at in (0, 1_500_000)]
        empty = FileRegion(disk.pin(path), 0, 0)
        files.extend([*regions, empty])
        request.reply((b"<", regions[0], b"", b"|", b"-", regions[1], empty, b">"))

    expected = b"<" + content[:1_000_000] + b"|-" + content[1_500_000:2_500_000] + b">"
    options = TcpOptions(send_buffer_bytes=send_buffer_bytes)
    async with serving(service, options=options) as running, running.client() as client:
        await client.send(frame(b"", 1) + frame(b"", 2))
        assert await client.answer() == (1, expected)
        assert await client.answer() == (2, expected)
        await until(lambda: not disk._pins)
    assert len(files) == 6
    disk.close()


async def test_files_of_a_connection_that_is_gone_are_released(tmp_path: Path) -> None:
    disk = PosixDisk()
    path = f"{tmp_path}/log"
    disk.create(path)
    disk.write(path, [bytes(32_000_000)], 0)
    requests: list[Request] = []
    async with serving(requests.append) as running:
        async with running.client() as client:
            await client.send(b"".join(frame(b"", index) for index in range(4)))
            await until(lambda: len(requests) == 4)
            # One is on its way and does not fit, one waits for its turn, one comes too late.
            for index in (0, 2):
                requests[index].reply((FileRegion(disk.pin(path), 0, 32_000_000),))
            assert len(disk._pins) == 2
        await until(lambda: not running.server.connections)
        assert not disk._pins
        requests[1].reply((FileRegion(disk.pin(path), 0, 32_000_000),))
        requests[3].no_reply()
        assert not disk._pins
        assert running.server.counters.queued_bytes == 0
    disk.close()


async def test_a_file_that_is_too_short_ends_the_connection(tmp_path: Path) -> None:
    disk = PosixDisk()
    path = f"{tmp_path}/log"
    disk.create(path)

    def service(request: Request) -> None:
        request.reply((FileRegion(disk.pin(path), 0, 10),))

    async with serving(service) as running, running.client() as client:
        await client.send(frame(b"", 1))
        assert await client.ended()
        assert running.server.counters.closed["lost"] == 1
        assert not disk._pins
    disk.close()
